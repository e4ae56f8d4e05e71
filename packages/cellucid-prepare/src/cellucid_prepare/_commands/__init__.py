"""What `cellucid-prepare` does, one module a command."""
