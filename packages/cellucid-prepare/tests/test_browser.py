"""Every container, opened in headless Chromium over HTTP: right values, and few small requests.

The page (the folder `browser`) reads HDF5 with h5wasm and Zarr with zarrita. Figures of
docs/browser.md come from here: run with `-s` to see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import pytest
import scipy.sparse as sp
from browser_server import Request, Server, serving
from browser_session import LIBRARIES, PAGES, Page, page_at, skip_unless_there
from prepare_reading import CONTAINERS, read

import cellucid_prepare
from realistic_counts import make_counts
from scx_core.experiment._to_mudata import no_columns_pulled

N_CELLS, N_GENES, MEDIAN_UMI = 5000, 2000, 3000
IDENTITY = {"dataset_id": "browser-test", "dataset_name": "Cells in a browser"}
HDF5_START_BYTES = 512 << 10
X_CHUNK = 1 << 14
ITEM_BYTES = 4

MUDATA_CONTAINERS: dict[str, dict[str, Any]] = {
    "mudata h5mu": {"format": "h5mu"},
    "mudata zarr2": {"format": "zarr", "zarr_format": 2},
    "mudata zarr3": {"format": "zarr", "zarr_format": 3},
    "mudata zip3": {"format": "zarr.zip", "zarr_format": 3},
}


@dataclass(frozen=True)
class Cost:
    """Requests of a kind of container."""

    documents: int
    """What opening takes before the first value."""
    chunk: int
    """For each chunk."""
    opening_has_values: bool
    """Whether `documents` bring the values along that opening needs."""


COSTS = {
    "h5": Cost(documents=1, chunk=1, opening_has_values=True),
    # a reader that does not know the format asks for zarr.json first, in vain
    "zarr2": Cost(documents=2, chunk=1, opening_has_values=False),
    "zarr3": Cost(documents=1, chunk=1, opening_has_values=False),
    # the length, the end, the directory, and two for each entry: its header and its bytes
    "zip2": Cost(documents=5, chunk=2, opening_has_values=False),
    "zip3": Cost(documents=5, chunk=2, opening_has_values=False),
}


def cost_of(container: str) -> Cost:
    return next(cost for name, cost in COSTS.items() if name in container)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    skip_unless_there()
    with serving({"/data": folder, "/libraries": LIBRARIES, "/page": PAGES}) as running:
        yield running


@pytest.fixture(scope="module")
def page(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with page_at(f"{server.address}/page/page.html", tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def cells(server: Server) -> anndata.AnnData:
    """Cells of twelve types; some are of no type."""
    made = make_counts(N_CELLS, N_GENES, MEDIAN_UMI, seed=1)
    made.obs.loc[made.obs_names[::17], "cell_type"] = np.nan
    made.obs["is_doublet"] = made.obs["score"].to_numpy() > 0.9
    return made


class Reads:
    """What the page asked for since the last look."""

    def __init__(self, container: str, server: Server) -> None:
        self._container = container
        self._server = server
        server.take()

    def take(self, what: str) -> list[Request]:
        taken = self._server.take()
        n_bytes = sum(request.n_bytes for request in taken)
        print(f"{self._container:13} {what:20} {len(taken):3} requests {n_bytes:8} bytes")
        assert all(request.status in (200, 206, 404) for request in taken)
        return taken


def chunks_of_gene(matrix: Any, gene: int) -> int:
    """How many chunks of each array of a sparse X hold a gene."""
    pointers = sp.csc_matrix(matrix).indptr
    start, stop = int(pointers[gene]), int(pointers[gene + 1])
    return (stop - 1) // X_CHUNK - start // X_CHUNK + 1


def check_gene(
    page: Page, reads: Reads, cost: Cost, adata: anndata.AnnData, gene: int, modality: str = ""
) -> None:
    """The values of a gene, from one or two requests for each of the two arrays and chunk."""
    found = page.ask("gene", modality, str(adata.var_names[gene]))
    column = np.zeros(adata.n_obs)
    column[found["cells"]] = found["values"]
    np.testing.assert_array_equal(column, adata.X[:, [gene]].toarray().ravel())
    n_chunks = chunks_of_gene(adata.X, gene)
    taken = reads.take(f"gene, {n_chunks} chunk(s)")
    assert len(taken) == 2 * n_chunks * cost.chunk
    assert sum(request.n_bytes for request in taken) < 2 * n_chunks * X_CHUNK * ITEM_BYTES


def check_one_chunk(reads: Reads, cost: Cost, what: str) -> None:
    """One chunk was enough; none had to come when it lies at the start of an HDF5 file."""
    taken = reads.take(what)
    allowed = (0, cost.chunk) if cost.opening_has_values else (cost.chunk,)
    assert len(taken) in allowed


def check_labels(page: Page, reads: Reads, cost: Cost, adata: anndata.AnnData, name: str) -> None:
    expected = adata.obs[name].astype(object)
    assert page.ask("labels", name) == [None if label != label else label for label in expected]
    check_one_chunk(reads, cost, "categorical column")


def check_embedding(page: Page, reads: Reads, cost: Cost, adata: anndata.AnnData, key: str) -> None:
    found = page.ask("embedding", key)
    np.testing.assert_array_equal(found, np.asarray(adata.obsm[key], np.float32).ravel())
    check_one_chunk(reads, cost, "embedding")


def check_opening(reads: Reads, cost: Cost, n_arrays: int) -> None:
    taken = reads.take("opening")
    if cost.opening_has_values:
        # with the file's metadata come all the values that opening needs
        assert [request.range for request in taken] == [f"bytes=0-{HDF5_START_BYTES - 1}"]
        assert taken[0].status == 206 and taken[0].n_bytes <= HDF5_START_BYTES
    else:
        assert len(taken) == cost.documents + n_arrays * cost.chunk


@pytest.mark.parametrize("container", CONTAINERS)
def test_anndata(
    container: str, page: Page, server: Server, cells: anndata.AnnData, folder: Path
) -> None:
    options, cost = CONTAINERS[container], cost_of(container)
    name = f"{container}.{options['format']}"
    path = cellucid_prepare.prepare(
        folder / name, data=cells, latent_key="X_pca", **options, **IDENTITY
    )
    reads = Reads(container, server)

    opened = page.open(f"/data/{name}")
    # the names of the genes, the pointers, the labels of two columns, the id and the name
    check_opening(reads, cost, n_arrays=6)
    assert opened["uns"] == {"id": IDENTITY["dataset_id"], "name": IDENTITY["dataset_name"]}
    assert opened["genes"] == {"": cells.var_names.tolist()}
    assert sorted(opened["embeddings"]) == sorted(cells.obsm)
    assert opened["columns"]["cell_type"] == {
        "encoding": "categorical",
        "labels": cells.obs["cell_type"].cat.categories.tolist(),
    }
    assert {column for column in opened["columns"] if column != "_index"} == set(cells.obs)

    check_gene(page, reads, cost, cells, 0)
    # far enough from the first, so that no chunk is there already
    over_an_edge = next(
        gene for gene in range(N_GENES // 2, N_GENES) if chunks_of_gene(cells.X, gene) == 2
    )
    check_gene(page, reads, cost, cells, over_an_edge)
    check_labels(page, reads, cost, cells, "cell_type")
    check_embedding(page, reads, cost, cells, "X_umap")

    np.testing.assert_array_equal(page.ask("numbers", "score"), cells.obs["score"])
    check_one_chunk(reads, cost, "column of numbers")
    np.testing.assert_array_equal(page.ask("numbers", "is_doublet"), cells.obs["is_doublet"])
    check_one_chunk(reads, cost, "column of booleans")
    quantiles = read(path).uns["cellucid"]["outlierQuantiles"]["fields"]["cell_type"]
    found = np.array(page.ask("quantiles", "cell_type"), np.float64)
    np.testing.assert_array_equal(found, quantiles)
    check_one_chunk(reads, cost, "outlier quantiles")
    assert page.ask("names") == cells.obs_names.tolist()
    check_one_chunk(reads, cost, "names of the cells")


def test_names_of_many_genes_take_a_second_block(page: Page, server: Server, folder: Path) -> None:
    many = make_counts(300, 20_000, MEDIAN_UMI, seed=1)
    cellucid_prepare.prepare(folder / "many.h5ad", format="h5ad", data=many, **IDENTITY)
    reads = Reads("many genes", server)
    assert page.open("/data/many.h5ad")["genes"] == {"": many.var_names.tolist()}
    blocks = [(0, HDF5_START_BYTES - 1), (HDF5_START_BYTES, 2 * HDF5_START_BYTES - 1)]
    taken = reads.take("opening")
    assert [request.range for request in taken] == [f"bytes={a}-{b}" for a, b in blocks]


@pytest.mark.parametrize("container", ["zip2", "zip3"])
def test_archive_read_from_its_end(
    container: str, page: Page, server: Server, cells: anndata.AnnData, folder: Path
) -> None:
    """A reader that knows the order of the entries opens with two requests."""
    name = f"ahead {container}.zarr.zip"
    cellucid_prepare.prepare(folder / name, data=cells, **CONTAINERS[container], **IDENTITY)
    reads = Reads(f"{container}, ahead", server)
    page.open(f"/data/{name}", read_ahead=True)
    # the end with all documents, and the start with all values of opening
    assert [request.range for request in reads.take("opening")] == [
        "bytes=-524288",
        "bytes=0-131071",
    ]
    cost = Cost(documents=2, chunk=1, opening_has_values=True)
    gene = next(gene for gene in range(500, N_GENES) if chunks_of_gene(cells.X, gene) == 1)
    check_gene(page, reads, cost, cells, gene)
    check_labels(page, reads, cost, cells, "cell_type")
    # longer than what comes with an entry's header
    check_embedding(page, reads, replace(cost, chunk=2), cells, "X_umap")


@pytest.mark.parametrize("container", CONTAINERS)
def test_dense_matrix(
    container: str, page: Page, server: Server, cells: anndata.AnnData, folder: Path
) -> None:
    options, cost = CONTAINERS[container], cost_of(container)
    dense = anndata.AnnData(cells.X[:, :50].toarray(), obs=cells.obs[["score"]], obsm=cells.obsm)
    dense.var_names = cells.var_names[:50]
    name = f"dense {container}.{options['format']}"
    cellucid_prepare.prepare(folder / name, data=dense, **options, **IDENTITY)
    reads = Reads(container, server)
    page.open(f"/data/{name}")
    check_opening(reads, cost, n_arrays=3)
    for gene in (0, 49):
        found = page.ask("gene", "", str(dense.var_names[gene]))
        np.testing.assert_array_equal(found["values"], dense.X[:, gene])
        check_one_chunk(reads, cost, "gene of a dense X")


@pytest.fixture(scope="module")
def modalities(cells: anndata.AnnData) -> mudata.MuData:
    """All genes for all cells but a few, and thirty proteins for some of them."""
    rna = anndata.AnnData(cells.X[10:], obs=cells.obs[["score"]][10:], var=cells.var)
    protein = anndata.AnnData(sp.csr_matrix(cells.X[:4000, :30]), obs=cells.obs[["score"]][:4000])
    protein.var_names = [f"protein {number}" for number in range(30)]
    with no_columns_pulled():
        made = mudata.MuData({"rna": rna, "protein": protein})
    made.obs["cell_type"] = cells.obs["cell_type"].reindex(made.obs_names)
    made.obsm["X_umap"] = cells.obsm["X_umap"][cells.obs_names.get_indexer(made.obs_names)]
    return made


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
@pytest.mark.parametrize("container", MUDATA_CONTAINERS)
def test_mudata(
    container: str,
    page: Page,
    server: Server,
    modalities: mudata.MuData,
    folder: Path,
) -> None:
    options, cost = MUDATA_CONTAINERS[container], cost_of(container)
    name = f"{container}.{options['format']}"
    cellucid_prepare.prepare(folder / name, data=modalities, **options, **IDENTITY)
    reads = Reads(container, server)
    opened = page.open(f"/data/{name}")
    # names and pointers of both modalities, the labels, the id and the name
    check_opening(reads, cost, n_arrays=7)
    assert opened["genes"] == {
        key: adata.var_names.tolist() for key, adata in modalities.mod.items()
    }
    for key, adata in modalities.mod.items():
        check_gene(page, reads, cost, adata, 7, key)
    check_labels(page, reads, cost, modalities, "cell_type")
    check_embedding(page, reads, cost, modalities, "X_umap")
