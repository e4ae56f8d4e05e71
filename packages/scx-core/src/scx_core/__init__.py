"""The .scx file for single-cell matrices: convert, open, decode any row on its own."""

from ._version import __version__, require_version

__all__ = ["__version__", "require_version"]
