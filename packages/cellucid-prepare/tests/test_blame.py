"""Errors name what is at fault: the output that cannot be written, or the input that is damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata as ad
import numpy as np
import pytest
import scipy.sparse as sp

import cellucid_prepare
from cellucid_prepare._cli import main
from cellucid_prepare.containers.placing import staged

resource = pytest.importorskip("resource", reason="files have no limit here")
NAMED = ["--id", "a", "--name", "A", "--quiet"]


def larger() -> ad.AnnData:
    rng = np.random.default_rng(0)
    adata = ad.AnnData(sp.csr_matrix(rng.poisson(1, (2000, 300)).astype(np.float32)))
    adata.obsm["X_umap"] = rng.normal(size=(2000, 2))
    return adata


def write_zarr(adata: ad.AnnData) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Writing zarr v2", UserWarning)
        adata.write_zarr("in.zarr")


def prepare(source: str, target: str) -> Any:
    return cellucid_prepare.prepare(
        target,
        format=target.partition(".")[2],  # type: ignore[arg-type]
        data=source,
        dataset_id="a",
        dataset_name="A",
        progress=False,
    )


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """As on a full disk, with another number of error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("source", ["in.h5ad", "in.zarr"])
@pytest.mark.parametrize(
    ("target", "limit"),
    [
        ("out.h5ad", 400_000),
        ("out.zarr", 5000),
        ("out.zarr.zip", 5000),
        ("out.zarr.zip", 50_000),
    ],
)
def test_a_full_disk_is_the_output_s(source: str, target: str, limit: int) -> None:
    if source == "in.h5ad":
        larger().write_h5ad(source)
    else:
        write_zarr(larger())
    with (
        pytest.raises(OSError, match="cannot be written: File too large") as raised,
        files_of_at_most(limit),
    ):
        prepare(source, target)
    assert raised.value.errno == errno.EFBIG
    assert raised.value.filename == os.path.abspath(target)
    assert os.listdir() == [source]


def test_a_full_disk_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    larger().write_h5ad("in.h5ad")
    with files_of_at_most(400_000):
        assert main(["in.h5ad", "out.h5ad", *NAMED]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"cellucid-prepare: error: {os.path.abspath('out.h5ad')}: "
        "cannot be written: File too large\n"
    )


LIMITED = """
import os, resource, sys
import cellucid_prepare
kind, *limits = sys.argv[1:]
name = f"out.{kind}"
for limit in map(int, limits):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        cellucid_prepare.prepare(
            name, format=kind, data=f"in.{kind}", dataset_id="a", dataset_name="A", progress=False
        )
    except OSError as error:
        print(error.errno, error.filename == os.path.abspath(name), sorted(os.listdir()))
"""


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room cannot be asked for here")
@pytest.mark.parametrize("kind", ["h5ad", "h5mu"])
def test_hdf5_survives_a_limit_anywhere(kind: str) -> None:
    matrix = np.random.default_rng(0).normal(size=(1000, 1000)).astype(np.float32)
    adata = ad.AnnData(sp.csr_matrix(matrix))
    adata.obsm["X_umap"] = matrix[:, :2].copy()
    if kind == "h5ad":
        adata.write_h5ad("in.h5ad")
    else:
        mudata = pytest.importorskip("mudata")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mudata.MuData({"rna": adata, "protein": adata[:, :20].copy()}).write("in.h5mu")
    limits = [1000, 300_000, 1_200_000, 2_400_000, 3_600_000]
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, kind, *map(str, limits)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr  # HDF5 may crash at the very end
    assert ended.stdout == len(limits) * f"{errno.EFBIG} True ['in.{kind}']\n"


def test_temporary_files_lie_beside_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    from cellucid_prepare.inputs import matrices
    from cellucid_prepare.matrix import expression

    monkeypatch.setattr(expression, "BLOCK_BYTES", 20_000)
    monkeypatch.setattr(matrices, "TURNING_BYTES", 40_000)
    folders: list[str] = []
    make = tempfile.TemporaryFile

    def recorded(*arguments: Any, **options: Any) -> Any:
        folders.append(str(options["dir"]))
        return make(*arguments, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", recorded)
    by_gene = larger()
    by_gene.X = sp.csc_matrix(by_gene.X)
    by_gene.write_h5ad("in.h5ad")
    # another order of the genes: they are turned to cells first
    other_order = list(by_gene.var_names[::-1])

    def turned() -> Path:
        return cellucid_prepare.prepare(
            "new/folder/out.h5ad",
            format="h5ad",
            data="in.h5ad",
            gene_identifiers=other_order,
            dataset_id="a",
            dataset_name="A",
            progress=False,
        )

    # while the values are checked there is no folder yet; a full disk is the output's all the same
    with (
        pytest.raises(OSError, match="cannot be written: File too large") as raised,
        files_of_at_most(1000),
    ):
        turned()
    assert raised.value.filename == os.path.abspath("new/folder/out.h5ad")
    assert set(folders) == {os.getcwd()} and os.listdir() == ["in.h5ad"]
    folders.clear()
    back = ad.read_h5ad(turned())
    assert len(set(folders)) == 2 and set(folders) == {os.getcwd(), os.path.abspath("new/folder")}
    assert (back.X != by_gene[:, other_order].X).nnz == 0
    assert os.listdir("new/folder") == ["out.h5ad"]


def test_hdf5_is_not_begun_without_space(monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from types import SimpleNamespace

    larger().write_h5ad("in.h5ad")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 18))
    with pytest.raises(OSError, match="cannot be written: No space left") as raised:
        prepare("in.h5ad", "out.h5ad")
    assert raised.value.filename == os.path.abspath("out.h5ad")
    assert os.listdir() == ["in.h5ad"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("target", ["closed/out.h5ad", "closed/new/out.zarr"])
def test_a_folder_that_is_read_only(target: str) -> None:
    larger().write_h5ad("in.h5ad")
    Path("closed").mkdir(mode=0o555)
    with pytest.raises(
        cellucid_prepare.PrepareError, match=r"may not write to the folder .*closed"
    ):
        prepare("in.h5ad", target)


def test_a_folder_that_turns_out_to_be_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    larger().write_h5ad("in.h5ad")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(cellucid_prepare.PrepareError, match="may not write to the folder"):
        prepare("in.h5ad", "out.h5ad")
    assert os.listdir() == ["in.h5ad"]


@pytest.mark.parametrize("address", ["https://example.org/a.h5ad", "s3://bucket/a.h5ad"])
def test_addresses_are_no_paths(address: str) -> None:
    larger().write_h5ad("in.h5ad")
    with pytest.raises(ValueError, match=f"{address} is an address: download it"):
        prepare(address, "out.h5ad")
    with pytest.raises(ValueError, match=f"{address} is an address: download it"):
        cellucid_prepare.check(address)
    with pytest.raises(cellucid_prepare.PrepareError, match=f"'{address}' is an address; write to"):
        cellucid_prepare.prepare(
            address, format="h5ad", data="in.h5ad", dataset_id="a", dataset_name="A"
        )
    assert os.listdir() == ["in.h5ad"]


def test_empty_paths(capsys: pytest.CaptureFixture[str]) -> None:
    larger().write_h5ad("in.h5ad")
    assert main(["", "out.h5ad", *NAMED]) == 1
    assert "an empty text names no file" in capsys.readouterr().err
    assert main(["check", ""]) == 1
    assert "an empty text names no file" in capsys.readouterr().err
    assert main(["in.h5ad", "", "--format", "h5ad", *NAMED]) == 1
    assert "OUT: is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("array", "said"),
    [
        ("X/data", "in.zarr is damaged: /X/data cannot be read"),
        ("X/indptr", "in.zarr is damaged: /X/indptr cannot be read"),
        ("obsm/X_umap", "in.zarr: /obsm/X_umap cannot be read"),
        ("var/_index", "in.zarr: /var cannot be read"),
    ],
)
def test_damage_of_a_zarr_store_names_store_and_array(array: str, said: str) -> None:
    write_zarr(larger())
    chunks = [path for path in Path("in.zarr", array).rglob("*") if path.name[0] not in ".z"]
    for chunk in filter(Path.is_file, chunks):
        chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(ValueError, match=said):
        prepare("in.zarr", "out.h5ad")
    assert os.listdir() == ["in.zarr"]


def test_documents_that_are_no_json_are_damage() -> None:
    write_zarr(larger())
    # so that every document is read, and not what the store's own gathers of them
    Path("in.zarr/.zmetadata").unlink(missing_ok=True)
    store = Path("in.zarr/zarr.json")
    if store.is_file():
        document = json.loads(store.read_text())
        document.pop("consolidated_metadata", None)
        store.write_text(json.dumps(document))
    for name in (".zgroup", "zarr.json"):
        if Path("in.zarr/var", name).is_file():
            Path("in.zarr/var", name).write_bytes(b"{\xef")
    with pytest.raises(ValueError, match=r"in\.zarr"):
        prepare("in.zarr", "out.h5ad")


def test_ten_x_files_are_told_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("folder/matrix.mtx").write_text(
        "%%MatrixMarket matrix coordinate integer general\n0 0 0\n"
    )
    assert main(["folder", "out.h5ad", *NAMED]) == 1
    assert "convert it first (`scx convert IN OUT.scx`)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--embeddings", "X_umapp", "obsm['X_umapp']: is not in the data; choose one of "),
        ("--vector-fields", "speed:X_umap", "['speed']['X_umap']: is not in the data; it has no "),
        ("--layer", "counts", "layers['counts']: is not in the data; it has no layers at all"),
        ("--var-gene-id-column", "ids", "var has no columns; leave it out"),
        ("--gene-identifiers", "nope", "1 name of no gene: 'nope'"),
    ],
)
def test_a_typing_error_is_one_fault(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    larger().write_h5ad("in.h5ad")
    assert main(["in.h5ad", "out.h5ad", *NAMED, option, value, "--latent-key", "X_umap"]) == 1
    error = capsys.readouterr().err
    assert said in error and "Nothing was written" in error  # one fault, so one line
    assert os.listdir() == ["in.h5ad"]


def test_names_too_long_for_the_staged_file_are_refused_first() -> None:
    larger().write_h5ad("in.h5ad")
    with pytest.raises(cellucid_prepare.PrepareError, match="takes 256 bytes"):
        prepare("in.h5ad", "n" * 251 + ".h5ad")
    assert prepare("in.h5ad", "n" * 250 + ".h5ad").is_file()


def first_removal_interrupted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let Ctrl-C come with the first removal of a folder; the list tells of all of them."""
    remove = shutil.rmtree
    calls: list[Path] = []

    def interrupted(path: Path, **options: Any) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise KeyboardInterrupt
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    return calls


def test_interrupted_while_the_old_store_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    larger().write_h5ad("in.h5ad")
    target = prepare("in.h5ad", "out.zarr")
    calls = first_removal_interrupted(monkeypatch)

    def replace() -> None:
        with staged(target, overwrite=True) as hidden:
            hidden.mkdir()
            (hidden / "new").touch()

    with pytest.raises(KeyboardInterrupt):
        replace()
    assert len(calls) == 1
    assert os.listdir("out.zarr") == ["new"]
    assert len(os.listdir()) == 3
    replace()  # which removes what was left, and what it replaces itself
    assert os.listdir("out.zarr") == ["new"]
    assert sorted(os.listdir()) == ["in.h5ad", "out.zarr"]
