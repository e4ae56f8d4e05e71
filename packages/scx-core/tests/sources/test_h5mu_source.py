"""The h5mu reader against the description of the same MuData in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

from hdf5_samples import counts, gathered
from scx_core.sources.base import ExperimentContent
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.h5mu import h5mu_content
from scx_core.sources.mudata_memory import content_from_mudata


@contextmanager
def opened(path: Path, memory_bytes: int = 1 << 20, **options: Any) -> Iterator[ExperimentContent]:
    with h5mu_content(path, ReadingMeans(memory_bytes, path.parent), **options) as content:
        yield content


def quietly(function: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


def modality(cells: list[str], genes: list[str], seed: int) -> anndata.AnnData:
    matrix = counts(len(cells), len(genes), 0.6, seed)
    adata = anndata.AnnData(matrix, obs=pd.DataFrame(index=cells), var=pd.DataFrame(index=genes))
    adata.obs["depth"] = np.asarray(matrix.sum(1)).ravel()
    adata.obsm["X_pca"] = np.arange(2.0 * len(cells)).reshape(-1, 2)
    adata.layers["twice"] = sp.csc_matrix(matrix * 2)
    adata.layers["dense"] = (matrix * 3).toarray()
    adata.uns["name"] = "x"
    return adata


def sample() -> mudata.MuData:
    """Partly shared cells in different orders, and modalities not in alphabetical order."""
    rna = modality(["c", "a", "d", "b"], ["g1", "g2", "shared"], 1)
    rna.raw = anndata.AnnData(counts(4, 5, 0.5, 9), var=pd.DataFrame(index=list("uvwxy")))
    protein = modality(["b", "e", "a", "c"], ["p1", "p2"], 2)
    mdata = quietly(mudata.MuData, {"rna": rna, "adt": protein})
    quietly(mdata.update)
    mdata.obs["batch"] = pd.Categorical(["x", "y", "x", "y", "x"])
    mdata.obsm["joint"] = np.arange(10.0).reshape(5, 2)
    mdata.uns["study"] = {"id": 7}
    return mdata


def assert_same_content(ours: ExperimentContent, expected: ExperimentContent) -> None:
    assert_equal(ours.obs, expected.obs, exact=True)
    assert ours.var is not None and expected.var is not None
    assert_equal(ours.var, expected.var, exact=True)
    assert ours.axis == expected.axis
    assert list(ours.modalities) == list(expected.modalities)
    for kind in ("obsm", "obsp", "varm", "varp"):
        assert_equal(getattr(ours, kind), getattr(expected, kind), exact=True)
    assert_equal(dict(ours.uns), dict(expected.uns), exact=True)
    for name, part in ours.modalities.items():
        other = expected.modalities[name]
        assert_equal(part.obs, other.obs, exact=True)
        assert_equal(part.var, other.var, exact=True)
        assert part.rows.tolist() == other.rows.tolist()
        assert part.columns.tolist() == other.columns.tolist()
        for kind in ("obsm", "obsp", "varm", "varp", "raw_varm"):
            assert_equal(dict(getattr(part, kind)), getattr(other, kind), exact=True)
        assert list(part.layers) == list(other.layers)
        matrices = [(part.X, other.X), (part.raw_X, other.raw_X)]
        matrices += [(part.layers[key], other.layers[key]) for key in part.layers]
        for source, wanted in matrices:
            assert (source is None) == (wanted is None)
            if source is not None:
                assert source.form == wanted.form
                assert source.dtype == wanted.dtype
                for block_bytes in (1, 40, 10_000):
                    assert np.array_equal(gathered(source, block_bytes), gathered(wanted))


@pytest.mark.parametrize("memory_bytes", [1, 200, 10**6])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_everything_comes_as_mudata_reads_it(
    tmp_path: Path, memory_bytes: int, compression: str | None
) -> None:
    path = tmp_path / "a.h5mu"
    quietly(sample().write, path) if compression is None else quietly(
        mudata.write_h5mu, path, sample(), compression=compression
    )
    expected = content_from_mudata(quietly(mudata.read_h5mu, path))
    with opened(path, memory_bytes) as ours:
        assert list(ours.modalities) == ["rna", "adt"]
        assert ours.modalities["adt"].rows.tolist() != sorted(ours.modalities["adt"].rows)
        assert_same_content(ours, expected)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.h5mu"]


def test_rows_in_ascending_order_are_read_straight_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.h5mu"
    mdata = quietly(mudata.MuData, {"one": modality(list("abc"), ["g"], 1)})
    quietly(mdata.write, path)
    with opened(path) as content:
        assert type(content.modalities["one"].X).__name__ == "CsrOnDisk"


def test_layers_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.h5mu"
    mdata = sample()
    del mdata["adt"].layers["twice"]
    quietly(mdata.write, path)
    with opened(path, layers=["twice"]) as content:
        assert list(content.modalities["rna"].layers) == ["twice"]
        assert content.modalities["adt"].layers == {}
    words = r"no modality has a layer 'none'; there are \['dense', 'twice'\]"
    with pytest.raises(KeyError, match=words), opened(path, layers=["none"]):
        pass


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5mu"
    quietly(sample().write, path)
    with h5py.File(path, "a") as file:
        file["mod/rna"].create_group("mod")
    words = r"/mod/rna is no AnnData; a \.scx file holds modalities of AnnData only"
    with pytest.raises(ValueError, match=words), opened(path):
        pass
    modality(["a"], ["g"], 1).write_h5ad(path)
    words = r"is not an \.h5mu file: it looks like an AnnData file.*from_h5ad"
    with pytest.raises(ValueError, match=words), opened(path):
        pass
