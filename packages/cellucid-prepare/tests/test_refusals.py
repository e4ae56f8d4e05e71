"""What cannot be written is refused, in every container alike, with its place and before a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import listing, refusal_leaves_nothing, refused_everywhere, written
from prepare_samples import cell_names, coordinates, graph, obs, small

import cellucid_prepare

WITH_NAN = [[np.nan, 1], *[[0, 0]] * 5]
# as objects from the beginning: what pandas 3 makes of lists of text could not hold it
LONE_SURROGATE = pd.Series(["\ud800", *"bcdef"], index=cell_names(), dtype=object)
COLUMNS: dict[str, tuple[str, Any]] = {
    "mixed": (r"obs\['a'\].* int .*row 1: 2", np.array(["1", 2, 3, "x", "y", "z"], object)),
    "flags with a gap": (r"obs\['a'\].* bool ", np.array([True, None] * 3, object)),
    "dates": (r"obs\['a'\].*datetime64", pd.date_range("2020", periods=6)),
    "durations": (r"obs\['a'\].*timedelta64", pd.to_timedelta(range(6))),
    "complex": (r"obs\['a'\].*complex128", np.ones(6) * 1j),
    "infinite": (r"obs\['a'\].*2 values", [1, np.inf, 2, -np.inf, 3, 4.0]),
    "mixed labels": (r"obs\['a'\].*label", pd.Categorical(np.array(["b", 1] * 3, object))),
    "NUL": (r"obs\['a'\].*NUL", ["a\0b", "b", "c", "d", "e", "f"]),
    "surrogate": (r"obs\['a'\].*Unicode", LONE_SURROGATE),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns(case: str) -> None:
    message, values = COLUMNS[case]
    refused_everywhere(message, **small(obs=obs(a=values)))


@pytest.mark.parametrize("name", ["G1/S", ".", "..", "", "_index", "a\0b", "a\n", "zarr.json"])
def test_names_of_columns(name: str) -> None:
    refused_everywhere("name", **small(obs=obs(**{name: [1] * 6})))


def test_names_that_collide() -> None:
    refused_everywhere("case alone", **small(obs=obs(A=["x"] * 6, a=["y"] * 6)))
    table = obs(a=[1] * 6, b=[2] * 6)
    table.columns = pd.Index(["a", "a"])
    refused_everywhere("used twice", **small(obs=table))


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (
            r"obsm\['X_umap'\].*1 cell.*1 NaN",
            {"embeddings": {"X_umap": np.full((6, 2), [[np.nan, 1]] + [[0, 0]] * 5)}},
        ),
        ("velocity.*3 columns.*2", {"vector_fields": {"velocity": {"X_umap": coordinates(3)}}}),
        ("velocity.*NaN", {"vector_fields": {"velocity": {"X_umap": np.full((6, 2), np.nan)}}}),
        (
            "X: .*4 NaN are not, the first in row 0, gene 'g0'",
            {"gene_expression": sp.csr_matrix(np.array(WITH_NAN) @ np.ones((2, 4)))},
        ),
        (
            "obsp.*symmetric.*2 cells",
            {"connectivities": sp.triu(graph())},
        ),
        ("own neighbours", {"connectivities": graph() + sp.eye(6)}),
        ("negative", {"connectivities": -graph()}),
        ("dataset_id", {"dataset_id": "a b"}),
        ("dataset_name.*U.200B", {"dataset_name": "a\u200b"}),
        ("citation_url", {"citation_text": "x", "citation_url": "ftp://x"}),
        ("gene_identifiers.*'zz'", {"gene_identifiers": ["g1", "zz"]}),
        ("latent_key", {"latent_key": "X_pca"}),
        ("obs_keys", {"obs_keys": ["a"]}),
        ("threads", {"threads": 0}),
    ],
)
def test_other_parts(message: str, changes: dict[str, Any]) -> None:
    refused_everywhere(message, **small(**changes))


def test_all_faults_are_reported_together() -> None:
    error = refusal_leaves_nothing(
        "4 faults",
        **small(
            obs=obs(a=pd.date_range("2020", periods=6), b=[np.inf] * 6),
            dataset_id="",
            connectivities=-graph(),
        ),
    )
    assert isinstance(error, cellucid_prepare.PrepareTypeError)
    places = [fault.where for fault in error.faults]
    assert places == ["dataset_id", "obs['a']", "obs['b']", "obsp['connectivities']"]
    assert [fault.n_cells for fault in error.faults][2] == 6
    many = {f"c{number}": [np.inf] * 6 for number in range(25)}
    assert "and 5 more" in str(refusal_leaves_nothing("25 faults", **small(obs=obs(**many))))


def test_the_input_stays_as_it_is() -> None:
    arguments = small(
        obs=obs(a=pd.Categorical(["x", "y"] * 3), t=["a", "a", "b", "b", "c", None]),
        gene_expression=sp.coo_matrix(([1, 2, 0], ([0, 0, 1], [0, 0, 1])), shape=(6, 4)),
        connectivities=graph(),
    )
    table, matrix = arguments["obs"].copy(), arguments["gene_expression"].copy()
    written("h5ad", **arguments)
    pd.testing.assert_frame_equal(arguments["obs"], table)
    for name in ("row", "col", "data"):
        np.testing.assert_array_equal(
            getattr(arguments["gene_expression"], name), getattr(matrix, name)
        )


def test_existing_outputs() -> None:
    path = written("h5ad", **small())
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        written("h5ad", **small(dataset_name="another"))
    assert path.read_bytes() == before
    written("h5ad", **small(dataset_name="another"), overwrite=True)
    assert path.read_bytes() != before
    folder = Path("no.zarr")
    folder.mkdir()
    (folder / "thesis.txt").write_text("keep")
    with pytest.raises(cellucid_prepare.PrepareError, match="no Zarr store"):
        written("zarr2", "no", **small(), overwrite=True)
    assert (folder / "thesis.txt").read_text() == "keep"


def test_the_published_name_of_overwriting() -> None:
    path = written("h5ad", **small())
    before = path.read_bytes()
    written("h5ad", **small(dataset_name="another"), force=True)
    assert path.read_bytes() != before
    for name in ("overwrite", "force"):
        with pytest.raises(cellucid_prepare.PrepareError, match=f"{name}: 1 is neither True"):
            written("h5ad", "other", **small(), **{name: 1})


def data_of(kind: str, path: Path) -> Any:
    if kind == "path":
        return path
    if kind == "lazy":
        return anndata.experimental.read_lazy(path)
    data = anndata.read_h5ad(path, backed="r")
    return data if kind == "backed" else data[:3]


@pytest.mark.parametrize("name", ["overwrite", "force"])
@pytest.mark.parametrize("kind", ["path", "backed", "view", "lazy"])
def test_an_input_is_never_replaced(kind: str, name: str) -> None:
    source = written("h5ad", "in", **small())
    Path("hard.h5ad").hardlink_to(source)
    Path("link").symlink_to(Path.cwd())
    before = source.read_bytes()
    for out in ("in", "hard", "link/in"):
        with pytest.raises(cellucid_prepare.PrepareError, match="is the file that is read"):
            written("h5ad", out, data=data_of(kind, source), **{name: True})
    assert source.read_bytes() == before
    assert {path.name for path in Path().iterdir()} == {"in.h5ad", "hard.h5ad", "link"}


@pytest.mark.parametrize("kind", ["path", "lazy"])
def test_a_zarr_folder_is_replaced_neither_by_itself_nor_inside(kind: str) -> None:
    source = written("zarr2", "in", **small())
    data = source if kind == "path" else anndata.experimental.read_lazy(source)
    before = listing(source)
    with pytest.raises(cellucid_prepare.PrepareError, match="is the file that is read"):
        written("zarr2", "in", data=data, overwrite=True)
    with pytest.raises(cellucid_prepare.PrepareError, match=r"lies in .*in\.zarr, which is read"):
        written("h5ad", "in.zarr/new", data=data)
    assert listing(source) == before


def test_arrays_of_files_are_not_replaced() -> None:
    folder = written("zarr2", "out", **small())
    np.save(folder / "umap.npy", coordinates())
    before = listing(folder)
    umap = np.load(folder / "umap.npy", mmap_mode="r")
    with pytest.raises(cellucid_prepare.PrepareError, match=r"holds .*umap\.npy, which is read"):
        written("zarr2", "out", **small(embeddings={"X_umap": umap}), overwrite=True)
    assert listing(folder) == before


@pytest.mark.parametrize("container", ["h5ad", "zarr2", "zip3"])
def test_a_failure_while_writing_leaves_the_old_output(
    container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cellucid_prepare.containers import base

    written(container, **small())
    before = listing(Path())
    original = base._write_numbers
    calls = 0

    def failing(path: str, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError("the disk is full")
        original(path, *arguments)

    monkeypatch.setattr(base, "_write_numbers", failing)
    with pytest.raises(OSError, match="full"):
        written(container, **small(dataset_name="new"), overwrite=True)
    with pytest.raises(OSError, match="full"):
        written(container, "new/folder/out", **small())
    assert listing(Path()) == before


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("container", ["zarr2", "zarr3"])
def test_a_chunk_that_finds_the_disk_full_leaves_the_old_output(
    container: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cellucid_prepare.containers.zarr_store import FolderStore

    written(container, **small())
    before = listing(Path())
    original = FolderStore.put
    failed: list[str] = []

    def failing(store: FolderStore, path: str, content: bytes) -> None:
        if path.startswith("X/"):
            failed.append(path)
            raise OSError("the disk is full")
        original(store, path, content)

    monkeypatch.setattr(FolderStore, "put", failing)
    with pytest.raises(OSError, match="full"):
        written(container, **small(dataset_name="new"), overwrite=True, threads=threads)
    assert failed
    assert listing(Path()) == before
