"""What the h5ad reader refuses, and how it says where and why."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import scx_core
from hdf5_samples import counts, gathered, write_bare_h5ad
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.h5ad import h5ad_content
from scx_core.sources.hdf5 import open_hdf5


def read(path: Path) -> None:
    with h5ad_content(path, ReadingMeans(1 << 20, path.parent)) as content:
        source = content.modalities[""].X
        assert source is not None
        gathered(source)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.h5ad"):
        read(tmp_path / "none.h5ad")


def test_damage_that_hdf5_finds_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(20, 6), chunks=(8,), compression="gzip")
    with h5py.File(path, "r") as file:
        at = file["X/data"].id.get_chunk_info(0).byte_offset
    good = path.read_bytes()
    path.write_bytes(good[:at] + bytes(4) + good[at + 4 :])
    with pytest.raises(ValueError, match="is damaged, or was cut off") as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_an_error_of_the_system_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(20, 6))

    def fail() -> None:
        with open_hdf5(path, "from_h5ad", "an .h5ad file"):
            # as h5py says it when a disk breaks
            exec("raise OSError(5, 'Can not read data')", {"__name__": "h5py.h5d"})

    with pytest.raises(OSError, match="cannot be read: Input/output error") as caught:
        fail()
    assert caught.value.filename == str(path)


def as_10x(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("matrix").create_dataset("barcodes", data=[b"A"])


def as_molecules(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("barcode_idx", data=[1])
        file.create_dataset("umi", data=[1])


def as_loom(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("matrix", data=np.ones((2, 2)))
        file.create_group("row_attrs")
        file.create_group("col_attrs")


def as_h5mu(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("mod")


def as_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")


def as_text(path: Path) -> None:
    path.write_text("gene,count\nA,1\n")


def as_scx(path: Path) -> None:
    path.write_bytes(b"SCX\x01" + bytes(300))


def as_zarr(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (as_10x, "10x Genomics count matrix in HDF5; read it with from_10x"),
        (
            as_molecules,
            "10x Genomics molecule file, which is not a count matrix; take the filtered",
        ),
        (as_loom, "a loom file; load it with anndata.io.read_loom"),
        (as_h5mu, "a MuData file .* read it with from_h5mu"),
        (as_zip, "a zip archive; unpack it first"),
        (as_text, "a file of no kind that is known here"),
        (as_scx, "a .scx file; open it with scx_core.open"),
        (as_zarr, "a Zarr store; load it with anndata.read_zarr"),
    ],
)
def test_other_kinds_are_told_apart(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "a.h5ad"
    make(path)
    with pytest.raises(ValueError, match=rf"a\.h5ad is not an \.h5ad file: it looks like.*{words}"):
        read(path)


def test_a_file_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(50, 20))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"a\.h5ad cannot be opened as HDF5, it may be cut off"):
        read(path)


def damaged(key: str, index: Any, value: Any) -> Callable[[h5py.File], None]:
    def damage(file: h5py.File) -> None:
        file["X"][key][index] = value

    return damage


def replaced(key: str, value: Any) -> Callable[[h5py.File], None]:
    def damage(file: h5py.File) -> None:
        del file[f"X/{key}"]
        file["X"].create_dataset(key, data=value)

    return damage


@pytest.mark.parametrize("layout", ["csr", "csc"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damaged("indptr", 2, 0), r"/X/indptr\[2\] is 0, below the entry before it"),
        (damaged("indptr", 2, 900), r"/X/indptr\[\d\] is \d+, (below|but /X/indices holds)"),
        (damaged("indptr", 6, 900), r"/X/indptr\[6\] is 900, but /X/indices holds 22 entries"),
        (damaged("indptr", 0, 1), r"/X/indptr\[0\] is 1; row pointers start at 0"),
        (damaged("indptr", 3, -2), r"/X/indptr\[3\] is -2, below"),
        (damaged("indices", 7, 6), r"/X/indices\[7\] is 6, outside of 0 to 5"),
        (damaged("indices", 20, -1), r"/X/indices\[20\] is -1, outside of 0 to 5"),
        (replaced("data", np.ones(5)), r"/X: data holds 5 values but indices holds 22"),
        (replaced("indptr", np.zeros(3, int)), r"/X/indptr has 3 entries; .*needs 7"),
        (replaced("indptr", np.zeros(7)), r"/X/indptr has type float64; integers are expected"),
        (replaced("data", np.full(22, b"a")), r"/X/data has type \|S1; numbers are expected"),
        (replaced("indices", np.zeros((2, 2), int)), r"/X/indices has shape \(2, 2\)"),
    ],
)
def test_damaged_pointers_and_indices(
    tmp_path: Path, layout: str, damage: Callable[[h5py.File], None], words: str
) -> None:
    path = tmp_path / "a.h5ad"
    matrix = counts(6, 6, 0.6, seed=5)
    assert matrix.nnz == 22
    write_bare_h5ad(path, matrix.asformat(layout))
    with h5py.File(path, "a") as file:
        damage(file)
    with pytest.raises(ValueError, match=rf"a\.h5ad: {words}"):
        read(path)


def test_values_beyond_the_last_pointer_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(6, 6, 0.6, seed=5))
    with h5py.File(path, "a") as file:
        file["X/indptr"][6] = file["X/indptr"][5]
    with pytest.warns(UserWarning, match=r"/X: the last \d+ of 22 values belong to no row"):
        read(path)


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(6, 4))
    with h5py.File(path, "a") as file:
        del file["var"]
        file.copy("obs", "var")
    with pytest.raises(ValueError, match=r"/X is 6 x 4, but obs and var are for 6 cells x 6 genes"):
        read(path)


def test_an_unknown_encoding_names_the_element(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(2, 2))
    with h5py.File(path, "a") as file:
        odd = file.create_group("obsm").create_dataset("odd", data=1)
        odd.attrs["encoding-type"] = "from-the-future"
        odd.attrs["encoding-version"] = "9"
    with pytest.raises(ValueError, match=r"a\.h5ad: /obsm/odd cannot be read: .*from-the-future"):
        scx_core.from_h5ad(path, tmp_path / "a.scx")


def test_a_filter_that_is_missing_is_named_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5ad"
    write_bare_h5ad(path, counts(4, 4))
    with h5py.File(path, "a") as file:
        values = file["X/data"][()]
        del file["X/data"]
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((len(values),))
        # a number that no registered filter has, marked optional so that it can be declared
        creation.set_filter(31999, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple(values.shape)
        h5py.h5d.create(file["X"].id, b"data", h5py.h5t.IEEE_F32LE, space, creation)
    with pytest.raises(
        ValueError,
        match=r"a\.h5ad: /X/data is compressed with the HDF5 filter .*number 31999.*hdf5plugin",
    ):
        read(path)
