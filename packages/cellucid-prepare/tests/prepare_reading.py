"""Outputs read back by the usual libraries, and element by element."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import cellucid_prepare

# zarr 2 reads no stores of format 3; they are written without it
READS_ZARR_3 = int(version("zarr").partition(".")[0]) >= 3
needs_zarr_3 = pytest.mark.skipif(not READS_ZARR_3, reason="reads stores of format 3 with zarr 3")


def readable(containers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those that can be read back here."""
    return {
        name: options
        for name, options in containers.items()
        if READS_ZARR_3 or options.get("zarr_format") != 3
    }


WRITABLE: dict[str, dict[str, Any]] = {
    "h5ad": {"format": "h5ad"},
    "zarr2": {"format": "zarr", "zarr_format": 2},
    "zarr3": {"format": "zarr", "zarr_format": 3},
    "zip2": {"format": "zarr.zip", "zarr_format": 2},
    "zip3": {"format": "zarr.zip", "zarr_format": 3},
}
CONTAINERS = readable(WRITABLE)


def written(container: str, name: str = "out", **arguments: Any) -> Path:
    """Write to a container in the current folder."""
    options = WRITABLE[container]
    return cellucid_prepare.prepare(f"{name}.{options['format']}", **options, **arguments)


def read(path: Path) -> anndata.AnnData:
    """The output as anndata reads it."""
    if path.suffix in (".h5ad", ".H5AD"):
        return anndata.read_h5ad(path)
    with open_store(path) as store:
        return anndata.read_zarr(store)


def read_lazily(path: str) -> dict[str, Any]:
    """The file as a lazy AnnData, where this anndata (0.12 or later) has them."""
    read_lazy = getattr(anndata.experimental, "read_lazy", None)
    return {} if read_lazy is None else {"lazy": read_lazy(path)}


@contextlib.contextmanager
def open_store(path: Path) -> Iterator[Any]:
    """The root group of an output."""
    if path.suffix in (".h5ad", ".h5mu"):
        with h5py.File(path) as file:
            yield file
        return
    import zarr

    if path.suffix == ".zip":
        store = zarr.storage.ZipStore(str(path), mode="r")
        yield zarr.open_group(store, mode="r")
        store.close()
        return
    yield zarr.open_group(str(path), mode="r")


def refusal_leaves_nothing(message: str, container: str = "h5ad", **arguments: Any) -> ValueError:
    """`prepare` refuses, says `message`, and neither makes nor changes a file."""
    before = listing(Path())
    with pytest.raises(cellucid_prepare.PrepareError, match=message) as caught:
        written(container, **arguments)
    assert listing(Path()) == before
    return caught.value


def refused_everywhere(message: str, **arguments: Any) -> None:
    """Every container refuses alike."""
    texts = {str(refusal_leaves_nothing(message, name, **arguments)) for name in WRITABLE}
    assert len(texts) == 1


def same_everywhere(**arguments: Any) -> anndata.AnnData:
    """Every container reads back the same; gives what the first one does."""
    outputs = [read(written(name, name, **arguments)) for name in CONTAINERS]
    for other in outputs[1:]:
        assert_same(outputs[0], other)
    return outputs[0]


def assert_same(left: anndata.AnnData, right: anndata.AnnData) -> None:
    """All elements are equal, types included."""
    pd.testing.assert_frame_equal(_with_plain_text(left.obs), _with_plain_text(right.obs))
    pd.testing.assert_frame_equal(_with_plain_text(left.var), _with_plain_text(right.var))
    assert_same_value(left.X, right.X)
    for kind in ("obsm", "obsp", "uns"):
        assert_same_value(dict(getattr(left, kind)), dict(getattr(right, kind)))


def _with_plain_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Text as objects: readers give some of it so and some as pandas' own kind of string."""
    strings = [name for name, kind in frame.dtypes.items() if kind == "str"]
    return frame.astype(dict.fromkeys(strings, object))


def assert_same_value(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same_value(left[key], right[key])
    elif sp.issparse(left):
        for name in ("data", "indices", "indptr"):
            assert_same_value(getattr(left, name), getattr(right, name))
    elif isinstance(left, np.ndarray):
        # text of Zarr is numpy's new kind of string for some readers, objects for others
        assert left.dtype == right.dtype or left.dtype.kind in "OT"
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


def elements(root: Any) -> dict[str, tuple[Any, ...]]:
    """Every group and array under `root`: attributes, dtype, shape and values."""
    found: dict[str, tuple[Any, ...]] = {"": (_attributes(root),)}

    def walk(group: Any, path: str) -> None:
        for name in group:
            item, place = group[name], f"{path}/{name}"
            if hasattr(item, "dtype"):
                values = np.asarray(item[()])
                text = values.dtype.kind in "OTSU"
                listed = [_plain(value) for value in values.ravel().tolist()]
                kind = "text" if text else str(item.dtype)
                content = tuple(listed) if text else values.tobytes()
                found[place] = (_attributes(item), kind, item.shape, content)
            else:
                found[place] = (_attributes(item),)
                walk(item, place)

    walk(root, "")
    return found


def _attributes(item: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in item.attrs.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value.tolist() if hasattr(value, "tolist") else value


def listing(folder: Path) -> dict[str, str]:
    """Every file under `folder` with the hash of its bytes; folders too."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }
