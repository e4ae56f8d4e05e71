"""Where an output may go: never over an input, never under the suffix of another kind of file."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from scx_core._paths import local_path

KNOWN_SUFFIXES = (
    ".scx",
    ".h5ad",
    ".h5mu",
    ".h5",
    ".hdf5",
    ".loom",
    ".zarr",
    ".zip",
    ".mtx",
    ".gz",
    ".csv",
    ".tsv",
    ".npy",
    ".npz",
    ".parquet",
)
SLASHES = tuple(slash for slash in (os.sep, os.altsep) if slash)
HDF5_SUFFIXES = (".h5", ".hdf5")
# schedulers and their threads hang on arrays that were computed on a cluster
NOT_LOOKED_INTO = ("asyncio", "concurrent", "distributed", "logging", "threading", "weakref")
# values of which there may be millions
LEAVES = {str, bytes, int, float, bool, type(None), slice}


def check_output(
    out: str | os.PathLike[str], *inputs: Any, suffix: str, also: Iterable[str] = ()
) -> None:
    """Refuse an output that would destroy an input, or that would be taken for another kind.

    `inputs` are as `refuse_inputs` takes them; `suffix` is the one that `out` should have, and
    `also` holds others that files of its kind have. Unknown suffixes are the user's own.

    Raises
    ------
    ValueError
        The message names the output, and the input or the suffix; or `out` names a folder.
    """
    text = local_path(out, writing=True)
    if text.endswith(SLASHES) or os.path.isdir(text):
        raise ValueError(f"{text} is a folder, not a file: name the {suffix} file in it")
    refuse_inputs(text, *inputs)
    found = Path(out).suffix.lower()
    if found in KNOWN_SUFFIXES and found not in (suffix, *also):
        raise ValueError(
            f"{os.fspath(out)} would be taken for another kind of file by its name: end it in "
            f"{suffix}"
        )


def refuse_inputs(out: str | os.PathLike[str], *inputs: Any) -> None:
    """Refuse an output that is one of the inputs, lies in one, or holds one.

    Files and folders are compared by device and inode, so that links do not hide them.

    Parameters
    ----------
    out
        A file or folder, which need not be there yet.
    inputs
        Paths, and objects that may read from files: AnnData, MuData, experiments, arrays.

    Raises
    ------
    ValueError
        The message names both; or `out` is an address, such as s3://bucket/file.
    """
    target = Path(os.path.realpath(local_path(out, writing=True)))
    own, above = _identity(target), {_identity(folder) for folder in target.parents}
    known = cache(_identity)
    for file in files_behind(*inputs):
        identity = known(file)
        if identity is None:
            continue
        real = Path(os.path.realpath(file))
        if identity == own:
            raise ValueError(f"{os.fspath(out)} is the file that is read: write to another one")
        if identity in above:
            raise ValueError(f"{os.fspath(out)} lies in {file}, which is read: write elsewhere")
        if own is not None and any(known(folder) == own for folder in real.parents):
            raise ValueError(f"{os.fspath(out)} holds {file}, which is read: write elsewhere")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except (OSError, ValueError):  # the latter where a text cannot be a path
        return None
    return facts.st_dev, facts.st_ino


def files_behind(*inputs: Any) -> list[Path]:
    """Paths of the files that inputs are, or read from, each once.

    AnnData, dask, xarray, zarr and h5py each keep their files at another place, and lazy objects
    nest them; so everything that an object refers to is looked at, but no module, class or global.
    """
    found: dict[Path, None] = {}
    waiting = []
    for given in inputs:
        if isinstance(given, str | os.PathLike):
            found[Path(given).expanduser()] = None
        else:
            waiting.append(given)
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        path = _path_of(value)
        if path is not None:
            found[path] = None
            continue
        waiting += [part for part in _parts_of(value) if type(part) not in LEAVES]
    return list(found)


def _path_of(value: Any) -> Path | None:
    """The file of something that stands for one, None for anything else."""
    import numpy as np

    from scx_core.native.container import FileReader

    if isinstance(value, PurePath):
        return Path(value)
    if isinstance(value, FileReader):
        return Path(value.path)
    if isinstance(value, np.memmap) and value.filename is not None:
        return Path(value.filename)
    module, name = type(value).__module__.partition(".")[0], type(value).__name__
    if module == "zarr" and name.endswith("Store"):
        place = getattr(value, "root", None) or getattr(value, "path", None)
        return Path(place) if isinstance(place, str | os.PathLike) else None
    if module == "h5py" and hasattr(type(value), "file"):
        return Path(os.fsdecode(value.file.filename)) if value else None
    return None


def _parts_of(value: Any) -> Iterator[Any]:
    import numpy as np

    if isinstance(value, np.ndarray):
        yield value.base  # a view of a mapped file is a plain array in some versions of numpy
        return
    if isinstance(value, MethodType):
        yield value.__self__
    if isinstance(value, FunctionType):
        yield from (value.__closure__, value.__defaults__, value.__kwdefaults__)
    if isinstance(value, ModuleType | type | FunctionType | MethodType | BuiltinFunctionType):
        return
    if type(value).__module__.partition(".")[0] not in NOT_LOOKED_INTO:
        yield from gc.get_referents(value)
