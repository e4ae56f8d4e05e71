"""The .scx file for single-cell matrices: convert, open, decode any row on its own.

`open` gives an `Experiment` with the parts of an AnnData, read as they are asked for; the `from_`
functions write .scx files, the `to_` functions write other formats from them.
"""

from __future__ import annotations

from ._names import lazy_name, public_names
from ._version import __version__, require_version

TYPE_CHECKING = False  # that of typing would have to be loaded
if TYPE_CHECKING:
    from typing import Any

    from ._compact import compact
    from ._convert import from_anndata, from_mudata, read, write
    from ._convert_files import from_10x, from_h5ad, from_h5mu, from_mtx
    from ._deletion import mark_deleted
    from ._errors import CorruptFileError
    from ._user_warnings import ScxWarning
    from .experiment import Experiment, MatrixView, open

__all__ = [
    "CorruptFileError",
    "Experiment",
    "MatrixView",
    "ScxWarning",
    "__version__",
    "compact",
    "from_10x",
    "from_anndata",
    "from_h5ad",
    "from_h5mu",
    "from_mtx",
    "from_mudata",
    "mark_deleted",
    "open",
    "read",
    "require_version",
    "write",
]

# Modules are loaded when one of their names is first used, so that importing the package is quick.
_MODULES = {
    "CorruptFileError": "_errors",
    "Experiment": "experiment",
    "MatrixView": "experiment",
    "ScxWarning": "_user_warnings",
    "compact": "_compact",
    "from_10x": "_convert_files",
    "from_anndata": "_convert",
    "from_h5ad": "_convert_files",
    "from_h5mu": "_convert_files",
    "from_mtx": "_convert_files",
    "from_mudata": "_convert",
    "mark_deleted": "_deletion",
    "open": "experiment",
    "read": "_convert",
    "write": "_convert",
}

if not TYPE_CHECKING:  # type checkers know the names from above, and so tell others from them

    def __getattr__(name: str) -> Any:
        return lazy_name(globals(), _MODULES, name)


def __dir__() -> list[str]:
    return public_names(globals())
