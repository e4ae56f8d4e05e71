"""One browser-ready file out of AnnData, MuData or .scx.

This version holds the package frame alone: it pins scx-core and writes no file yet.
"""

from scx_core._version import require_version

from ._version import __version__

require_version("cellucid-prepare", __version__)

__all__ = ["__version__"]
