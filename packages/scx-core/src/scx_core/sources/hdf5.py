"""HDF5 files that someone else wrote: opening, finding datasets, missing filters.

Every message names the file and the path inside it, because a file of a hundred arrays with one bad
one is otherwise a puzzle.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from scx_core.sources.detect import advice

if TYPE_CHECKING:
    import h5py

Group: TypeAlias = "h5py.Group"
Dataset: TypeAlias = "h5py.Dataset"

# registered filters that single-cell files are seen with
FILTER_NAMES = {
    305: "LZO",
    307: "bzip2",
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}


@contextmanager
def open_hdf5(path: Path, reader: str, kind: str) -> Iterator[h5py.File]:
    """Open `path` for reading; `reader` and `kind` say what was expected ("from_h5ad", "an .h5ad").

    Raises
    ------
    FileNotFoundError
        Nothing lies there.
    ValueError
        It is no HDF5 file, or a damaged one; the message says what it looks like instead. Also
        where the damage shows in the `with` block.
    OSError
        The system refuses to read it.
    """
    import h5py

    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir() or not h5py.is_hdf5(path):
        raise ValueError(f"{path} is not {kind}: {advice(path, reader)}")
    try:
        # a file system without locks is no reason to refuse
        file = h5py.File(path, "r", locking="best-effort")
    except OSError as error:
        raise ValueError(
            f"{path} cannot be opened as HDF5, it may be cut off or still being written: {error}"
        ) from error
    with file:
        try:
            yield file
        except (RuntimeError, KeyError, OSError) as error:
            if not _raised_by_h5py(error):
                raise
            if isinstance(error, OSError) and error.errno:
                reason = f"cannot be read: {os.strerror(error.errno)}"
                raise OSError(error.errno, reason, os.fspath(path)) from error
            raise ValueError(f"{path} is damaged, or was cut off: {error.args[0]}") from error


def _raised_by_h5py(error: BaseException) -> bool:
    """Whether h5py itself has raised it: its errors know neither the file nor the place."""
    names: list[str] = [
        frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)
    ]
    return names[-1].partition(".")[0] == "h5py"


def where(item: Group | Dataset) -> str:
    """File and path of a group or dataset, for messages."""
    return f"{item.file.filename}: {item.name}"


def is_dataset(item: Any) -> bool:
    """Whether `item` is an HDF5 dataset."""
    import h5py

    return isinstance(item, h5py.Dataset)


def is_group(item: Any) -> bool:
    """Whether `item` is an HDF5 group (or file)."""
    import h5py

    return isinstance(item, h5py.Group)


def dataset_in(group: Group, name: str, n_dims: int) -> Dataset:
    """The dataset `name` of `group`, which must have `n_dims` dimensions."""
    item = group.get(name)
    if item is None:
        there = ", ".join(repr(key) for key in group) or "nothing"
        raise ValueError(f"{where(group)} has no dataset {name!r}; it holds {there}")
    if not is_dataset(item):
        raise ValueError(f"{where(item)} is a group where a dataset is expected")
    dataset = cast("Dataset", item)
    if dataset.shape is None or len(dataset.shape) != n_dims:
        raise ValueError(
            f"{where(dataset)} has shape {dataset.shape} where {n_dims} dimensions are expected"
        )
    return dataset


def attribute(item: Group | Dataset, name: str) -> Any:
    """The attribute `name`, text as `str` whichever way it was stored; None when there is none."""
    value = item.attrs.get(name)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value


def native(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`values` in the byte order of this machine."""
    if values.dtype.isnative:
        return values
    return values.astype(values.dtype.newbyteorder("="))


def text_column(dataset: Dataset) -> list[str]:
    """A one-dimensional dataset of text or bytes as strings; ValueError for no UTF-8."""
    texts = []
    for place, value in enumerate(np.asarray(dataset[()]).tolist()):
        try:
            texts.append(value.decode("utf-8") if isinstance(value, bytes) else str(value))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{where(dataset)}[{place}] is no UTF-8 text: {value!r} ({error.reason})"
            ) from error
    return texts


def check_readable(root: Group) -> None:
    """Refuse what under `root` would go missing unnoticed or fail half-way.

    These are links that lead nowhere, and datasets whose compression this installation cannot
    undo. When the hdf5plugin package is installed, its filters are loaded before they are missed.

    Raises
    ------
    ValueError
        Names the first such link and what it points to, or the first such dataset, its filter and
        what to install.
    """
    missing = _missing_filter(root)
    if missing is not None and importlib.util.find_spec("hdf5plugin") is not None:
        importlib.import_module("hdf5plugin")
        missing = _missing_filter(root)
    if missing is None:
        return
    dataset, filter_id, stored_name = missing
    name = stored_name or FILTER_NAMES.get(filter_id, "unknown")
    known = FILTER_NAMES.get(filter_id)
    if known is not None and known not in name.lower():
        name = f"{known} ({name})"
    raise ValueError(
        f"{where(dataset)} is compressed with the HDF5 filter {name} (number {filter_id}), which "
        "is not available here: install the package hdf5plugin and try again"
    )


def _missing_filter(root: Group) -> tuple[Dataset, int, str] | None:
    import h5py

    missing: list[tuple[Dataset, int, str]] = []

    def visit(_name: str, item: Any) -> bool | None:
        if not is_dataset(item) or not item.size:
            return None
        creation = item.id.get_create_plist()
        for index in range(creation.get_nfilters()):
            filter_id, _flags, _values, stored_name = creation.get_filter(index)
            if not h5py.h5z.filter_avail(filter_id):
                text = stored_name.decode("utf-8", errors="replace").strip()
                missing.append((item, filter_id, text))
                return True
        return None

    root.visititems(visit)
    for target in _linked(root):
        visit("", target)
        if is_group(target):
            target.visititems(visit)
    return missing[0] if missing else None


def _linked(root: Group) -> Iterator[Group | Dataset]:
    """What soft and external links lead to, in `root` and in what is yielded, each once."""
    import h5py

    seen: set[tuple[str, int]] = set()
    waiting = [root]
    while waiting:
        for group in _groups_in(waiting.pop()):
            for name in group:
                link = group.get(name, getlink=True)
                if isinstance(link, h5py.HardLink):
                    continue
                target = _opened(group, name, link)
                place = (target.file.filename, int(h5py.h5o.get_info(target.id).addr))
                if place in seen:
                    continue
                seen.add(place)
                yield target
                if is_group(target):
                    waiting.append(target)


def _groups_in(root: Group) -> list[Group]:
    groups = [root]
    root.visititems(lambda _name, item: groups.append(item) if is_group(item) else None)
    return groups


def _opened(group: Group, name: str, link: Any) -> Any:
    import h5py

    try:
        return group[name]
    except (KeyError, OSError, RuntimeError) as error:
        in_file = isinstance(link, h5py.ExternalLink)
        target = f"{link.path} in the file {link.filename}" if in_file else link.path
        raise ValueError(
            f"{where(group).rstrip('/')}/{name} is a link to {target}, which cannot be opened: "
            "put it in place or remove the link"
        ) from error
