"""Which matrix is streamed, of which modality, with which embeddings and gene names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import TrainingDataset


def counts(n_obs: int, n_vars: int, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).poisson(0.7, size=(n_obs, n_vars)).astype(np.float32)


@pytest.fixture
def adata() -> anndata.AnnData:
    full = counts(53, 40, 1)
    raw = anndata.AnnData(sp.csr_matrix(full))
    raw.var_names = [f"gene {number}" for number in range(40)]
    adata = raw[:, ::2].copy()
    adata.raw = raw
    adata.layers["spliced/1"] = sp.csr_matrix(counts(53, 20, 2))
    adata.obsm["X_pca"] = np.random.default_rng(3).normal(size=(53, 4)).astype(np.float32)
    adata.obsm["place"] = np.arange(106).reshape(53, 2)
    adata.obsm["frame"] = pd.DataFrame({"a": np.arange(53.0)}, index=adata.obs_names)
    return adata


@pytest.fixture
def path(adata: anndata.AnnData, tmp_path: Path) -> Path:
    scx_core.from_anndata(adata, tmp_path / "cells.scx", shard_size=10)
    return tmp_path / "cells.scx"


def stream(path: Path, **options: Any) -> dict[str, Any]:
    """An epoch in file order, in one batch."""
    options = {"normalize": False, "log1p": False, "shuffle": False, **options}
    with TrainingDataset(path, 1000, **options) as dataset:
        (batch,) = dataset
        assert dataset.n_output_genes == len(dataset.var_names) == len(dataset.gene_indices)
        assert dataset.n_obs == len(batch["X"])
        return dict(batch)


@pytest.mark.parametrize("panel", [None, [1, 5, 6]])
def test_matrices(adata: anndata.AnnData, path: Path, panel: list[int] | None) -> None:
    take = slice(None) if panel is None else panel
    for source, expected in [
        ("X", adata.X),
        ("layers/spliced/1", adata.layers["spliced/1"]),
        ("raw", adata.raw.X),
    ]:
        values = stream(path, source=source, hvg_indices=panel)["X"]
        np.testing.assert_array_equal(values, expected.toarray()[:, take])


def test_genes_of_the_columns(adata: anndata.AnnData, path: Path) -> None:
    with TrainingDataset(path, hvg_indices=[3, 7]) as dataset:
        assert dataset.n_vars == 20
        assert dataset.gene_indices.tolist() == [3, 7]
        assert dataset.gene_indices.dtype == np.int64
        assert dataset.var_names.tolist() == ["gene 6", "gene 14"]
    assert dataset.var_names.tolist() == ["gene 6", "gene 14"]
    assert dataset.closed
    with TrainingDataset(path, source="raw") as dataset:
        assert dataset.n_vars == 40
        assert dataset.var_names.tolist() == adata.raw.var_names.tolist()
        assert dataset.gene_indices.tolist() == list(range(40))
    # read after the close
    assert TrainingDataset(path, hvg_indices=[0]).var_names.tolist() == ["gene 0"]


def test_embeddings(adata: anndata.AnnData, path: Path) -> None:
    with TrainingDataset(path, 8, obsm=["X_pca", "place"]) as dataset:
        for batch in dataset:
            rows = batch["cell_indices"]
            assert list(batch["obsm"]) == ["X_pca", "place"]
            assert batch["obsm"]["X_pca"].dtype == np.float32
            np.testing.assert_array_equal(batch["obsm"]["X_pca"], adata.obsm["X_pca"][rows])
            np.testing.assert_array_equal(batch["obsm"]["place"], adata.obsm["place"][rows])
    with TrainingDataset(path) as dataset:
        assert "obsm" not in next(iter(dataset))


def test_what_is_not_there(path: Path) -> None:
    with pytest.raises(KeyError, match=r"no layer 'spliced'.*spliced/1"):
        TrainingDataset(path, source="layers/spliced")
    with pytest.raises(ValueError, match="'X', 'raw' or 'layers/NAME'"):
        TrainingDataset(path, source="counts")
    with pytest.raises(TypeError, match="source=None"):
        TrainingDataset(path, source=None)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match=r"'X_umap'.*X_pca, place"):
        TrainingDataset(path, obsm=["X_umap"])
    with pytest.raises(ValueError, match=r"obsm\['frame'\] is a DataFrame"):
        TrainingDataset(path, obsm=["frame"])


def test_no_raw(multimodal: tuple[Any, Path]) -> None:
    with pytest.raises(ValueError, match="no raw"):
        TrainingDataset(multimodal[1], source="raw", modality="rna")


@pytest.mark.parametrize("name", ["rna", "adt"])
def test_a_modality_streams_its_own_cells(multimodal: tuple[Any, Path], name: str) -> None:
    mdata, path = multimodal
    own = mdata[name]
    position = {cell: row for row, cell in enumerate(mdata.obs_names)}
    rows = np.array([position[cell] for cell in own.obs_names])
    order = np.argsort(rows)
    batch = stream(path, modality=name, obs_columns=["donor"])
    np.testing.assert_array_equal(batch["cell_indices"], rows[order])
    np.testing.assert_array_equal(batch["X"], own.X.toarray()[order])
    np.testing.assert_array_equal(batch["obs"]["donor"], mdata.obs["donor"].to_numpy()[rows[order]])
    with TrainingDataset(path, modality=name, hvg_indices=[2, 5]) as dataset:
        assert dataset.modality == name
        assert dataset.var_names.tolist() == own.var_names[[2, 5]].tolist()
        assert f"[{name}]" in repr(dataset)
        dataset.close()
        assert len(list(dataset)) == 1  # opened again, the same modality


def test_layers_and_embeddings_and_obs_of_a_modality(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    batch = stream(path, modality="rna", source="layers/counts", obsm=["X_pca"])
    np.testing.assert_array_equal(batch["X"], mdata["rna"].layers["counts"].toarray())
    np.testing.assert_array_equal(batch["obsm"]["X_pca"], mdata["rna"].obsm["X_pca"])
    adt = mdata["adt"]
    columns = ["depth", "passed", "note"]
    batch = stream(path, modality="adt", obs_columns=columns, obsm=["umap"])
    cells = mdata.obs_names[batch["cell_indices"]]
    places = adt.obs_names.get_indexer(cells)
    np.testing.assert_array_equal(batch["obsm"]["umap"], adt.obsm["umap"][places])
    np.testing.assert_array_equal(batch["obs"]["depth"], adt.obs["depth"].to_numpy()[places])
    np.testing.assert_array_equal(batch["obs"]["passed"], adt.obs["passed"].to_numpy()[places])
    note = batch["obs"]["note"]
    labels = np.array(note["categories"])[note["codes"]]
    np.testing.assert_array_equal(labels, adt.obs["note"].to_numpy()[places])
    phase = stream(path, modality="rna", obs_columns=["phase"])["obs"]["phase"]
    labels = np.array(phase["categories"])[phase["codes"]]
    np.testing.assert_array_equal(labels, mdata["rna"].obs["phase"].astype(str))


def test_chosen_rows_of_a_modality(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    chosen = np.arange(0, 40)
    with TrainingDataset(path, modality="adt", rows=chosen) as dataset:
        seen = sorted(int(row) for batch in dataset for row in batch["cell_indices"])
    has = np.isin(mdata.obs_names, mdata["adt"].obs_names)
    assert seen == np.flatnonzero(has)[np.flatnonzero(has) < 40].tolist()


def test_without_a_modality_the_first_by_the_alphabet_with_a_warning(
    multimodal: tuple[Any, Path],
) -> None:
    with pytest.warns(UserWarning, match="'adt' is read, the first of adt, rna") as caught:
        dataset = TrainingDataset(multimodal[1])
    assert caught[0].filename == __file__
    assert dataset.modality == "adt"
    dataset.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(dataset)
        dataset.close()


def test_modality_is_ignored_without_modalities(path: Path) -> None:
    with TrainingDataset(path, modality="rna") as dataset:
        assert dataset.modality is None
        assert len(list(dataset)) == 1


def test_a_modality_that_is_not_there(multimodal: tuple[Any, Path]) -> None:
    with pytest.raises(KeyError, match=r"no modality 'atac'.*rna"):
        TrainingDataset(multimodal[1], modality="atac")


def test_states_know_the_matrix(multimodal: tuple[Any, Path]) -> None:
    with TrainingDataset(multimodal[1], modality="rna") as dataset:
        state = dataset.state_dict()
    with (
        TrainingDataset(multimodal[1], modality="rna", source="layers/counts") as other,
        pytest.raises(ValueError, match=r"matrix='rna/X'.*rna/layers/counts"),
    ):
        other.load_state_dict(state)
