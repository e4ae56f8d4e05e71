"""`python -m scx_core` is the command `scx`."""

from __future__ import annotations

import sys

from scx_core._cli import main

if __name__ == "__main__":
    sys.exit(main())
