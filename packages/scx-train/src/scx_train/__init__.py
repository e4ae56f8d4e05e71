"""Shuffled training batches out of .scx files."""

from scx_core._version import require_version

from ._version import __version__

require_version("scx-train", __version__)

__all__ = ["__version__"]
