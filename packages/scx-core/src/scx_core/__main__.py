"""`python -m scx_core` is the command `scx`."""

from __future__ import annotations

import sys


def program() -> int:
    """Run the command as this process; give its exit code."""
    try:
        from scx_core._program import run_process

        return run_process("scx", "scx_core._cli")
    except KeyboardInterrupt:  # in the moment before `run_process` sees to it
        sys.stderr.write("scx: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(program())
