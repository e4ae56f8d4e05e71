"""The names of pyscx, each taken from the package that provides it when it is first used."""

from scx_core._version import require_version

from ._version import __version__

require_version("scx-pyscx", __version__)

__all__ = ["__version__"]
