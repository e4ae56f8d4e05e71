"""What `cellucid-prepare` does, one module a command."""


class UsageError(Exception):
    """Arguments that contradict each other; the command line is at fault, not a file."""
