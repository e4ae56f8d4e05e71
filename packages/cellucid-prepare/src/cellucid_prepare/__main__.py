"""`python -m cellucid_prepare` is the command `cellucid-prepare`."""

from __future__ import annotations

import sys


def program() -> int:
    """Run the command as this process; give its exit code."""
    try:
        from scx_core._program import run_process

        return run_process("cellucid-prepare", "cellucid_prepare._cli")
    except KeyboardInterrupt:  # in the moment before `run_process` sees to it
        sys.stderr.write("cellucid-prepare: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(program())
