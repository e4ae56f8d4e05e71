"""`python -m scx_tokenize` is the command `scx-tokenize`."""

from __future__ import annotations

import sys

from ._cli import main

if __name__ == "__main__":
    sys.exit(main())
