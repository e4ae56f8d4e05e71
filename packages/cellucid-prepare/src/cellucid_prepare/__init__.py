"""One browser-ready file out of AnnData, MuData or .scx.

`prepare` writes it: a standard AnnData or MuData, laid out so that a browser reads what it shows
with few small requests. `check` says of any file whether it is laid out so.
"""

from __future__ import annotations

from scx_core._names import lazy_name, public_names
from scx_core._version import require_version

from ._version import __version__

require_version("cellucid-prepare", __version__)

TYPE_CHECKING = False  # that of typing would have to be loaded
if TYPE_CHECKING:
    from typing import Any

    from ._check import check
    from ._faults import Fault, PrepareError, PrepareTypeError
    from ._prepare import prepare
    from .ready.report import CheckReport

__all__ = [
    "CheckReport",
    "Fault",
    "PrepareError",
    "PrepareTypeError",
    "__version__",
    "check",
    "prepare",
]

# Modules are loaded when one of their names is first used, so that importing the package is quick.
_MODULES = {
    "CheckReport": "ready.report",
    "check": "_check",
    "Fault": "_faults",
    "PrepareError": "_faults",
    "PrepareTypeError": "_faults",
    "prepare": "_prepare",
}

if not TYPE_CHECKING:  # type checkers know the names from above, and so tell others from them

    def __getattr__(name: str) -> Any:
        return lazy_name(globals(), _MODULES, name)


def __dir__() -> list[str]:
    return public_names(globals())
