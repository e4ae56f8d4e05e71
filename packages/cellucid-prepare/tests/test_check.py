"""`check`: what a browser reads well, what not, and why."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import CONTAINERS, READS_ZARR_3, needs_zarr_3, written
from prepare_samples import complete, small, var
from test_files_as_input import zarr_store
from test_inputs import IDENTITY, adata, multimodal

import cellucid_prepare
from cellucid_prepare import check
from cellucid_prepare._cli import main


@pytest.mark.parametrize("container", CONTAINERS)
def test_own_outputs_are_ready(container: str) -> None:
    report = check(written(container, **complete()))
    assert report.is_ready, report
    assert not report.notes, report
    assert (report.holds, report.n_cells, report.n_genes) == ("AnnData", 50, 40)
    assert report.container.startswith("HDF5" if container == "h5ad" else "Zarr")
    assert str(report).endswith(": ready for browsers")


def test_own_outputs_are_ready_whatever_their_size() -> None:
    n_cells = 2**17 + 1
    columns = {f"c{number}": pd.Categorical(["a", "b", "c"] * 2) for number in range(400)}
    wide = written("h5ad", "wide", **small(obs=pd.DataFrame(columns, index=list("abcdef"))))
    dense = np.zeros((n_cells, 3), np.float32)
    dense[::7] = 1
    long = {
        "obs": pd.DataFrame({"a": np.arange(n_cells)}, index=map(str, range(n_cells))),
        "embeddings": {"X_umap": np.zeros((n_cells, 2))},
        "var": var("a", "b", "c"),
    }
    for name, container, arguments in (
        ("sparse", "h5ad", small(**long, gene_expression=sp.csr_matrix(dense))),
        ("dense", "h5ad", small(**long, gene_expression=dense)),
        ("dense", "zip3" if READS_ZARR_3 else "zip2", small(**long, gene_expression=dense)),
    ):
        report = check(written(container, name, **arguments))
        assert report.is_ready and not report.notes, report
    assert check(wide).is_ready, check(wide)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "form",
    [{"format": "h5mu"}, {"zarr_format": 2}, pytest.param({"zarr_format": 3}, marks=needs_zarr_3)],
)
def test_own_outputs_of_several_modalities_are_ready(form: dict[str, Any]) -> None:
    options = {"format": "zarr", **form}
    path = cellucid_prepare.prepare(
        f"out.{options['format']}", data=multimodal(), modality="rna", **options, **IDENTITY
    )
    report = check(path)
    assert report.is_ready and report.holds == "MuData", report
    assert report.notes == []


@pytest.mark.parametrize("container", ["h5ad", "zarr2", pytest.param("zarr3", marks=needs_zarr_3)])
def test_outputs_of_anndata_are_not_ready(container: str) -> None:
    data = adata()
    data.layers["twice"] = data.X
    data.obs["filler"] = [f"{number}" * 4000 for number in range(data.n_obs)]
    if container == "h5ad":
        path = Path("plain.h5ad")
        data.write_h5ad(path)
    else:
        path = zarr_store(data, "plain.zarr", int(container[-1]))
    report = check(path)
    # since pandas 3 text has a kind of its own, which anndata writes as one that may have gaps
    others = [fault for fault in report.faults if "nullable-string-array" not in fault.problem]
    # anndata 0.11 does not consolidate a store
    places = [fault.where for fault in others if "consolidated" not in fault.problem]
    assert places == ["X", "uns['cellucid']"]
    said = str(report)
    assert "not ready for browsers, for " in said
    assert "stored by cell (CSR)" in said and "--id and --name" in said
    assert [note.where for note in report.notes][-1] == "layers"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", CONTAINERS)
def test_outputs_of_cellucid_are_ready(container: str) -> None:
    cellucid = pytest.importorskip("cellucid")
    options = CONTAINERS[container]
    path = Path(f"theirs.{options['format']}")
    cellucid.prepare(path, **options, **complete())
    assert check(path).is_ready, check(path)


def test_scattered_metadata_of_a_large_file() -> None:
    rng = np.random.default_rng(0)
    n_cells = 20_000
    data = anndata.AnnData(
        sp.csr_matrix(rng.poisson(1, (n_cells, 50)).astype("f4")),
        obs=pd.DataFrame(
            {f"c{number}": rng.normal(size=n_cells) for number in range(30)},
            index=[f"cell{number}" for number in range(n_cells)],
        ),
        obsm={"X_umap": rng.normal(size=(n_cells, 2))},
    )
    data.write_h5ad("plain.h5ad")
    (found,) = [fault for fault in check("plain.h5ad").faults if fault.where == "the file"]
    assert "scattered" in found.problem and "512 KiB" in found.problem


HDF5_CHANGES: dict[str, tuple[Callable[[h5py.File], None], str]] = {}


def change(message: str) -> Callable[[Callable[[h5py.File], None]], None]:
    def add(function: Callable[[h5py.File], None]) -> None:
        HDF5_CHANGES[function.__name__] = function, message

    return add


@change(r"obs\['number'\]: is packed with scaleoffset")
def filter_that_browsers_lack(file: h5py.File) -> None:
    attributes, values = dict(file["obs/number"].attrs), file["obs/number"][()]
    del file["obs/number"]
    item = file["obs"].create_dataset("number", data=values, chunks=True, scaleoffset=3)
    item.attrs.update(attributes)


@change(r"X/data: has chunks of 2 values: a gene is many requests")
def chunks_too_small(file: h5py.File) -> None:
    values = file["X/data"][()]
    del file["X/data"]
    file["X"].create_dataset("data", data=values, chunks=(2,))


@change(r"obs\['number'\]: is cut into 50 pieces")
def column_in_pieces(file: h5py.File) -> None:
    attributes, values = dict(file["obs/number"].attrs), file["obs/number"][()]
    del file["obs/number"]
    file["obs"].create_dataset("number", data=values, chunks=(1,)).attrs.update(attributes)


@change(r"uns\['cellucid'\]: is missing")
def no_identity(file: h5py.File) -> None:
    del file["uns/cellucid"]


@change(r"uns\['cellucid'\]/id: 'a b' is no portable id")
def bad_id(file: h5py.File) -> None:
    file["uns/cellucid/id"][()] = "a b"


@change(r"uns\['cellucid'\]/schema: is 2, not 1")
def other_schema(file: h5py.File) -> None:
    file["uns/cellucid/schema"][()] = 2


@change(r"defaults: latent_key: 'X_pca' is none of the embeddings")
def default_that_is_gone(file: h5py.File) -> None:
    del file["obsm/X_pca"]


@change(r"obsm\['X_umap'\]: 2 cells have NaN or infinite")
def not_finite(file: h5py.File) -> None:
    file["obsm/X_umap"][3:5, 1] = np.nan, np.inf


@change(r"obsm: there is no embedding")
def no_embedding(file: h5py.File) -> None:
    for name in list(file["obsm"]):
        del file["obsm"][name]


@change(r"obs\['whole'\]: has 49 values for 50 rows")
def short_column(file: h5py.File) -> None:
    attributes, values = dict(file["obs/whole"].attrs), file["obs/whole"][:-1]
    del file["obs/whole"]
    file["obs"].create_dataset("whole", data=values).attrs.update(attributes)


@change(r"obs\['gap'\]: is of the kind nullable-string-array")
def gapped_text(file: h5py.File) -> None:
    file["obs/gap"].attrs["encoding-type"] = "nullable-string-array"


@change(r"obs\['whole'\]: is records")
def records(file: h5py.File) -> None:
    del file["obs/whole"]
    file["obs"].create_dataset("whole", data=np.zeros(50, [("a", "f4"), ("b", "i4")]))


@change(r"obs\['number'\]: is a link")
def link(file: h5py.File) -> None:
    file.move("obs/number", "obsm/moved")
    file["obs/number"] = h5py.SoftLink("/obsm/moved")


@change(r"obs\['text'\]: is listed and not there")
def missing_column(file: h5py.File) -> None:
    del file["obs/text"]


@change(r"X: its pointers do not fit")
def pointers(file: h5py.File) -> None:
    file["X/indptr"][-1] = 5


@change(r"X: is 50 x 41, and obs and var are for 50 x 40")
def other_shape(file: h5py.File) -> None:
    file["X"].attrs["shape"] = [50, 41]


@change(r"obsp\['connectivities'\]: is 3 x 3")
def other_graph(file: h5py.File) -> None:
    file["obsp/connectivities"].attrs["shape"] = [3, 3]


@change(r"obs: has no names of its rows")
def no_index(file: h5py.File) -> None:
    del file["obs/_index"]


@change(r"outlierQuantiles.*no entry for each cell")
def short_quantiles(file: h5py.File) -> None:
    fields = file["uns/cellucid/outlierQuantiles/fields"]
    del fields["label"]
    fields["label"] = np.zeros(3, "f4")


@pytest.mark.parametrize("name", HDF5_CHANGES)
def test_each_fault_of_hdf5_is_named(name: str) -> None:
    path = written("h5ad", **complete())
    function, message = HDF5_CHANGES[name]
    with h5py.File(path, "r+") as file:
        function(file)
    report = check(path)
    assert not report.is_ready
    lines = [str(fault) for fault in report.faults]
    assert any(re.search(message, line) for line in lines), lines
    assert all(fault.mend for fault in report.faults)


def test_orientation_and_pieces_of_large_matrices() -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((6000, 50)) < 0.9).astype("f4")
    data = anndata.AnnData(dense, obsm={"X_umap": np.zeros((6000, 2), "f4")})
    data.write_h5ad("dense.h5ad")
    assert "in one piece" in str(check("dense.h5ad"))
    data.write_h5ad("rows.h5ad", compression="gzip")
    with h5py.File("rows.h5ad", "r+") as file:
        attributes = dict(file["X"].attrs)
        del file["X"]
        file.create_dataset("X", data=dense, chunks=(10, 50)).attrs.update(attributes)
    assert "a gene is 600 requests" in str(check("rows.h5ad"))
    sparse = anndata.AnnData(sp.csc_matrix(dense), obsm=data.obsm)
    sparse.write_h5ad("csc.h5ad")
    assert "are not compressed" in str(check("csc.h5ad"))
    with h5py.File("csc.h5ad", "r+") as file:
        for name in ("data", "indices"):
            values = file["X"][name][()]
            del file["X"][name]
            file["X"].create_dataset(name, data=values, chunks=values.shape, compression="gzip")
    assert "of which a gene needs few" in str(check("csc.h5ad"))


@needs_zarr_3
def test_faults_of_zarr_stores() -> None:
    two, three = written("zarr2", "two", **complete()), written("zarr3", "three", **complete())
    (two / ".zmetadata").unlink()
    assert "has no consolidated metadata" in str(check(two))
    attributes = json.loads((three / "obs/zarr.json").read_text())
    attributes["attributes"]["new"] = 1
    (three / "obs/zarr.json").write_text(json.dumps(attributes))
    assert "consolidated metadata does not say" in str(check(three))
    document = json.loads((two / "obsm/X_pca/.zarray").read_text())
    document["compressor"] = {"id": "lzma"}
    (two / "obsm/X_pca/.zarray").write_text(json.dumps(document))
    assert "packed with lzma" in str(check(two))
    (two / "obsm/X_umap/0.0").write_bytes(b"no deflate stream")
    (found,) = [fault for fault in check(two).faults if fault.where == "obsm['X_umap']"]
    assert "damaged" in found.problem
    document = json.loads((three / "obs/number/zarr.json").read_text())
    document["codecs"] = [{"name": "packbits"}]
    (three / "obs/number/zarr.json").write_text(json.dumps(document))
    assert "packed with packbits" in str(check(three))


@pytest.mark.parametrize("container", ["zarr2", pytest.param("zarr3", marks=needs_zarr_3)])
def test_chunks_that_are_lost_or_links(container: str) -> None:
    path = written(container, "in", **complete())
    chunk = "c/0" if container == "zarr3" else "0"
    for place, name in (("X/indices", "X/indices"), ("obs['_index']", "obs/_index")):
        lost = (path / name / chunk).rename("lost")
        (fault,) = [fault for fault in check(path).faults if fault.where == place]
        assert fault.problem.startswith("1 chunk is not there of 1")
        lost.rename(path / name / chunk)
    assert check(path)
    # codes may be zeros alone, which writers leave out
    codes = path / "obs/label/codes" / chunk
    codes.rename("lost")
    notes = {note.where: note.problem for note in check(path).notes}
    assert notes["obs['label']/codes"].startswith("1 chunk is not there of 1")
    codes.symlink_to(Path("lost").absolute())
    assert f"obs['label']/codes/{chunk}: is a symbolic link" in str(check(path))


def test_faults_of_archives() -> None:
    good = written("zip2", "good", **complete())
    with zipfile.ZipFile(good) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    def packed(names: list[str], method: int = zipfile.ZIP_STORED, top: str = "") -> str:
        with zipfile.ZipFile("out.zip", "w", method) as archive:
            for name in names:
                archive.writestr(top + name, files[name])
        return str(check("out.zip"))

    assert "entries are compressed" in packed(list(files), zipfile.ZIP_DEFLATED)
    assert "do not lie together at its end" in packed(sorted(files))
    assert "in its folder 'store'" in packed(list(files), top="store/")
    assert "1 reason" in packed(list(files)[::-1])


@needs_zarr_3
def test_sharded_arrays_are_noted() -> None:
    import zarr

    path = written("zarr3", **complete())
    group = zarr.open_group(path / "obsm", mode="r+")
    values, attributes = group["X_pca"][:], dict(group["X_pca"].attrs)
    del group["X_pca"]
    array = group.create_array("X_pca", data=values, chunks=(10, 5), shards=(50, 5))
    array.attrs.update(attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path)
    report = check(path)
    assert report.is_ready and "sharded" in str(report.notes), report


def test_files_that_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        check("nowhere.h5ad")
    Path("notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"notes\.txt.*no kind that is known"):
        check("notes.txt")
    with h5py.File("other.h5", "w") as file:
        file["a"] = 1
    with pytest.raises(ValueError, match="neither an AnnData nor a MuData"):
        check("other.h5")
    store = written("zarr2", **small())
    (store / "obs/.zattrs").write_text("{")
    with pytest.raises(ValueError, match="no JSON"):
        check(store)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_are_not_waited_for() -> None:
    os.mkfifo("pipe.h5ad")
    with pytest.raises(ValueError, match="a pipe, a device or the like"):
        check("pipe.h5ad")
    with pytest.raises(cellucid_prepare.PrepareError, match="a pipe, a device or the like"):
        written("h5ad", data="pipe.h5ad", **IDENTITY)


def test_empty_files_and_count_matrices_are_told_as_such() -> None:
    Path("empty.h5ad").touch()
    with pytest.raises(ValueError, match="looks like an empty file"):
        check("empty.h5ad")
    Path("folder").mkdir()
    Path("folder/matrix.mtx").write_text("%%MatrixMarket\n")
    with pytest.raises(ValueError, match=r"Market count matrix.*scx convert IN OUT\.scx"):
        check("folder")


def test_damaged_files_give_an_error_or_a_fault() -> None:
    whole = written("h5ad", **small()).read_bytes()
    packed = written("zip2", **small()).read_bytes()
    rng = np.random.default_rng(0)
    store = written("zarr2", **small())
    for number in range(60):
        path = Path("cut.h5ad")
        path.write_bytes(whole[: int(rng.integers(0, len(whole)))])
        judged_or_refused(path)
        flipped = bytearray(whole)
        flipped[int(rng.integers(0, len(whole)))] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(flipped)
        judged_or_refused(path)
        path = Path("cut.zarr.zip")
        path.write_bytes(packed[: int(rng.integers(0, len(packed)))])
        judged_or_refused(path)
        copy = Path(f"copy{number}.zarr")
        shutil.copytree(store, copy)
        files = sorted(file for file in copy.rglob("*") if file.is_file())
        some = files[int(rng.integers(0, len(files)))]
        some.write_bytes(some.read_bytes()[:-3])
        judged_or_refused(copy)


def judged_or_refused(path: Path) -> None:
    with contextlib.suppress(ValueError):
        check(path)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    path = written("h5ad", **complete())
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: AnnData of 50 cells x 40 genes in HDF5: " + (
        "ready for browsers\n"
    )
    adata().write_h5ad("plain.h5ad")
    assert main(["check", "plain.h5ad", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["is_ready"] is False
    assert "X" in [fault["where"] for fault in found["faults"]]
    assert main(["check", "nothing"]) == 1
    assert "check: error: there is no file or folder nothing\n" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["check"])
    assert ended.value.code == 2
