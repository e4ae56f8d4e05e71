"""The library that reads Zarr, where it is there and new enough."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any


def zarr_for(path: Path, inside: str, purpose: str) -> Any:
    """The module zarr, for the store at `path`, in the folder `inside` of a zip.

    `purpose` is what it is needed for, such as "reading".

    Raises
    ------
    ImportError
        zarr is not installed, or reads no stores of the format that this one has.
    """
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            f"{purpose} {path} needs zarr, which is not installed: `pip install zarr`"
        ) from error
    version = str(zarr.__version__)
    # a store may have the documents of both formats
    is_v3 = _has(path, inside, "zarr.json") and not _has(path, inside, ".zgroup")
    if is_v3 and int(version.partition(".")[0]) < 3:
        raise ImportError(
            f"{purpose} {path}, a Zarr store of format 3, needs zarr 3, and zarr {version} is "
            "installed: `pip install 'zarr>=3'`, or use a store of format 2"
        )
    return zarr


def _has(path: Path, inside: str, document: str) -> bool:
    if path.is_dir():
        return (path / document).is_file()
    with zipfile.ZipFile(path) as archive:
        return (f"{inside}/{document}" if inside else document) in archive.namelist()
