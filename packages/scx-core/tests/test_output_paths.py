"""No writer destroys what it reads, whatever way it is named; nor does it take a foreign suffix."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pytest
import scipy.sparse as sp

import scx_core
from scx_core._output_paths import files_behind, refuse_inputs

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2 data will no longer")

LINKS: dict[str, Callable[[Path, Path], None]] = {
    "symbolic": lambda source, link: link.symlink_to(source),
    "hard": lambda source, link: link.hardlink_to(source),
    "parent": lambda source, link: link.parent.symlink_to(source.parent),
}


@pytest.fixture
def adata() -> ad.AnnData:
    values = sp.csr_matrix(np.arange(12, dtype=np.float32).reshape(4, 3))
    return ad.AnnData(values, layers={"two": values * 2}, obsm={"X_pca": np.ones((4, 2))})


@pytest.fixture
def sources(adata: ad.AnnData, tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    adata.write_h5ad(folder / "a.h5ad")
    adata.write_zarr(folder / "a.zarr")
    scx_core.from_anndata(adata, folder / "a.scx")
    return folder


def backed(folder: Path) -> Any:
    return ad.read_h5ad(folder / "a.h5ad", backed="r")


def lazy(folder: Path) -> Any:
    return ad.experimental.read_lazy(folder / "a.h5ad")


OBJECTS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "backed": ("a.h5ad", backed),
    "a view of a backed one": ("a.h5ad", lambda folder: backed(folder)[:2]),
    "lazy": ("a.h5ad", lazy),
    "a view of a lazy one": ("a.h5ad", lambda folder: lazy(folder)[:2]),
    "a lazy layer": ("a.h5ad", lambda folder: ad.AnnData(lazy(folder).layers["two"])),
    "lazy over zarr": ("a.zarr", lambda folder: ad.experimental.read_lazy(folder / "a.zarr")),
    "lazy over .scx": ("a.scx", lambda f: scx_core.open(f / "a.scx").to_anndata(backed=True)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_files_of_an_object_are_known(name: str, sources: Path) -> None:
    file, make = OBJECTS[name]
    assert files_behind({"data": [make(sources)]}) == [sources / file]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", ["backed", "lazy", "lazy over .scx"])
def test_objects_are_not_written_over_their_files(
    name: str, link: str, sources: Path, tmp_path: Path
) -> None:
    file, make = OBJECTS[name]
    source = sources / file
    before = source.read_bytes()
    out = tmp_path / "links" / ("a.scx" if link != "parent" else file)
    if link != "parent":
        out.parent.mkdir()
    LINKS[link](source, out)
    with pytest.raises(ValueError, match=r"links/a\.\w+ is the file that is read"):
        scx_core.from_anndata(make(sources), out, overwrite=True)
    assert source.read_bytes() == before


@pytest.mark.parametrize("link", ["symbolic", "hard"])
@pytest.mark.parametrize(
    ("file", "suffix", "write"),
    [
        ("a.h5ad", ".scx", lambda a, b: scx_core.from_h5ad(a, b, overwrite=True)),
        ("a.scx", ".scx", lambda a, b: scx_core.compact(a, b, overwrite=True)),
        ("a.scx", ".h5ad", lambda a, b: scx_core.open(a).to_h5ad(b, overwrite=True)),
        ("a.scx", ".h5mu", lambda a, b: scx_core.open(a).to_h5mu(b, overwrite=True)),
    ],
)
def test_files_are_not_written_over_themselves(
    file: str, suffix: str, write: Any, link: str, sources: Path, tmp_path: Path
) -> None:
    source, out = sources / file, tmp_path / f"link{suffix}"
    before = source.read_bytes()
    LINKS[link](source, out)
    for overwriting in (out, source):
        with pytest.raises(ValueError, match="is the file that is read"):
            write(source, overwriting)
    assert source.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["in", out.name]


def test_folders_are_told_from_what_lies_in_them(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(sources)
    with pytest.raises(ValueError, match=r"lies in .*a\.zarr, which is read"):
        refuse_inputs(tmp_path / "link" / "a.zarr" / "new" / "out.h5ad", sources / "a.zarr")
    with pytest.raises(ValueError, match=r"link holds .*a\.scx, which is read"):
        refuse_inputs(tmp_path / "link", "elsewhere", sources / "a.scx")
    refuse_inputs(sources / "b.zarr", sources / "a.zarr", sources / "b.zarr")  # nothing is there


def test_a_folder_of_matrix_market_files_takes_the_output(tmp_path: Path) -> None:
    (tmp_path / "matrix.mtx").write_text(
        "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 5\n"
    )
    (tmp_path / "genes.tsv").write_text("id\tsymbol\n")
    (tmp_path / "barcodes.tsv").write_text("cell\n")
    for path in (tmp_path, tmp_path / "matrix.mtx"):
        scx_core.from_mtx(path, tmp_path / "out.scx", overwrite=True)  # also over the last one
        assert scx_core.read(tmp_path / "out.scx").X.toarray().tolist() == [[5]]
        for name in ("matrix.mtx", "genes.tsv", "barcodes.tsv"):
            (tmp_path / "link.scx").symlink_to(tmp_path / name)
            with pytest.raises(ValueError, match="is the file that is read"):
                scx_core.from_mtx(path, tmp_path / "link.scx", overwrite=True)
            (tmp_path / "link.scx").unlink()


def test_outputs_that_name_no_file(adata: ad.AnnData, sources: Path, tmp_path: Path) -> None:
    for out, words in [
        ("", "an empty text names no file"),
        ("new/", "new/ is a folder"),
        (".", "is a folder"),
    ]:
        for write in (
            lambda out: scx_core.from_anndata(adata, out),
            lambda out: scx_core.from_h5ad(sources / "a.h5ad", out),
            lambda out: scx_core.compact(sources / "a.scx", out),
            lambda out: scx_core.open(sources / "a.scx").to_h5ad(out),
        ):
            with pytest.raises(ValueError, match=words):
                write(out and f"{tmp_path}/{out}")
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("name", ["y.h5ad", "y.H5MU", "y.zarr", "y.h5"])
def test_a_suffix_of_another_kind_is_refused(
    name: str, adata: ad.AnnData, sources: Path, tmp_path: Path
) -> None:
    out = tmp_path / name
    for write in (
        lambda: scx_core.from_h5ad(sources / "a.h5ad", out),
        lambda: scx_core.from_anndata(adata, out),
        lambda: scx_core.compact(sources / "a.scx", out),
    ):
        with pytest.raises(ValueError, match=r"another kind of file by its name: end it in \.scx"):
            write()
    assert not out.exists()


def test_exports_take_the_suffixes_of_hdf5(sources: Path, tmp_path: Path) -> None:
    experiment = scx_core.open(sources / "a.scx")
    for name in ("x.scx", "x.h5mu", "x.zarr"):
        with pytest.raises(ValueError, match=r"end it in \.h5ad"):
            experiment.to_h5ad(tmp_path / name)
    experiment.to_h5ad(tmp_path / "x.h5")
    assert ad.read_h5ad(tmp_path / "x.h5").shape == (4, 3)
