"""What the commands of `scx-tokenize` do."""
