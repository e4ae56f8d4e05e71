"""Whether a file is as browsers want it: what it stores, where, and in which pieces."""
