"""Where the native library and its header are."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARY_VARIABLE = "SCX_LIBRARY"
LIBRARY_FOLDER = Path(__file__).parents[1] / "_lib"
HEADER_NAME = "scx.h"


@dataclass(frozen=True)
class NativePaths:
    """The library to load and the header that describes it."""

    library: Path
    header: Path


def library_name(platform: str = sys.platform) -> str:
    """File name of the library on a platform, as `sys.platform` calls it."""
    if platform == "win32":
        return "scx.dll"
    return "libscx.dylib" if platform == "darwin" else "libscx.so"


def locate() -> NativePaths:
    """Find the library that belongs to this package, or the one that SCX_LIBRARY names.

    The header is looked for beside the library, then in the package.

    Raises
    ------
    ImportError
        When either is missing; says how to build it.
    """
    override = os.environ.get(LIBRARY_VARIABLE)
    library = Path(override) if override else LIBRARY_FOLDER / library_name()
    if not library.is_file():
        raise ImportError(_missing(library, from_variable=bool(override)))
    for header in (library.parent / HEADER_NAME, LIBRARY_FOLDER / HEADER_NAME):
        if header.is_file():
            return NativePaths(library, header)
    raise ImportError(
        f"{HEADER_NAME}, which describes {library}, is missing: it belongs beside the library"
    )


def _missing(library: Path, *, from_variable: bool) -> str:
    if from_variable:
        return f"{LIBRARY_VARIABLE} names {library}, which is no file"
    return (
        f"the native library {library} is missing. Install scx-core from a wheel "
        "(python -m pip install --force-reinstall scx-core), or in a checkout run: "
        "python packages/scx-core/hatch_build.py"
    )
