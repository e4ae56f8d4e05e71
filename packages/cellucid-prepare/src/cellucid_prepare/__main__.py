"""`python -m cellucid_prepare` is the command `cellucid-prepare`."""

from __future__ import annotations

import sys

from cellucid_prepare._cli import main

if __name__ == "__main__":
    sys.exit(main())
