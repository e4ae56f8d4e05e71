"""One browser-ready file out of AnnData, MuData or .scx.

`prepare` writes it: a standard AnnData or MuData, laid out so that a browser reads what it shows
with few small requests. `check` says of any file whether it is laid out so.
"""

from __future__ import annotations

import importlib

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"cellucid_prepare {__version__} has no {name!r}", name=name)
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
