"""Token kernels for single-cell foundation models.

This version holds the package frame alone: it pins scx-core and has no kernels yet.
"""

from scx_core._version import require_version

from ._version import __version__

require_version("scx-tokenize", __version__)

__all__ = ["__version__"]
