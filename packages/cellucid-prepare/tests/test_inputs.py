"""The same components give the same bytes, wherever they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from prepare_reading import (
    READS_ZARR_3,
    elements,
    open_store,
    read,
    read_lazily,
    refusal_leaves_nothing,
    written,
)
from prepare_samples import complete

import cellucid_prepare
import scx_core
from scx_core.experiment._to_mudata import no_columns_pulled

IDENTITY = {"dataset_id": "id", "dataset_name": "name"}


def adata(*, dense: bool = False) -> anndata.AnnData:
    arguments = complete()
    matrix = arguments["gene_expression"]
    result = anndata.AnnData(
        matrix.toarray() if dense else matrix, obs=arguments["obs"], var=arguments["var"]
    )
    result.obsm.update({key: array.astype("f4") for key, array in arguments["embeddings"].items()})
    result.obsm["velocity_umap"] = arguments["vector_fields"]["velocity"]["X_umap"]
    result.obsp["connectivities"] = arguments["connectivities"]
    # a view has no labels that none of its cells has
    result.obs["ordered"] = result.obs["ordered"].cat.remove_unused_categories()
    result.strings_to_categoricals()
    return result


@pytest.mark.parametrize("dense", [False, True])
def test_every_source_gives_the_same_bytes(dense: bool) -> None:
    whole = adata(dense=dense)
    whole.write_h5ad("in.h5ad")
    scx_core.from_anndata(whole, "in.scx", progress=False)
    backed = anndata.read_h5ad("in.h5ad", backed="r")
    sources: dict[str, Any] = {
        "memory": whole,
        "view": whole[np.arange(whole.n_obs)],
        "backed": backed,
        "path": "in.scx",
        **read_lazily("in.h5ad"),
    }
    expected = written(
        "h5ad",
        "by_hand",
        obs=whole.obs,
        var=whole.var,
        gene_expression=whole.X,
        embeddings={key: whole.obsm[key] for key in ("X_umap", "X_pca")},
        vector_fields={"velocity": {"X_umap": whole.obsm["velocity_umap"]}},
        connectivities=whole.obsp["connectivities"],
        **IDENTITY,
    ).read_bytes()
    for name, data in sources.items():
        assert written("h5ad", name, data=data, **IDENTITY).read_bytes() == expected, name
    with scx_core.open("in.scx") as experiment:
        assert written("h5ad", "open", data=experiment, **IDENTITY).read_bytes() == expected
    backed.file.close()


def test_ranges_of_genes_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from cellucid_prepare.matrix import expression

    for dense in (False, True):
        data = adata(dense=dense)
        expected = written("h5ad", f"whole{dense}", data=data, **IDENTITY).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(expression.Expression, "__init__", _with_small_ranges(expression))
            patch.setattr(expression, "BLOCK_BYTES", 500)
            patch.setattr(expression, "gives_stretches", lambda source, places: False)
            parts = written("h5ad", f"parts{dense}", data=data, **IDENTITY).read_bytes()
        assert parts == expected


def _with_small_ranges(module: Any) -> Any:
    original = module.Expression.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options, range_bytes=1000)

    return init


def test_what_was_prepared_can_be_prepared_again() -> None:
    first = written("h5ad", "first", **complete())
    second = written("h5ad", "second", data=anndata.read_h5ad(first))
    with open_store(first) as before, open_store(second) as after:
        assert elements(before) == elements(after)
    third = written("h5ad", "third", data=anndata.read_h5ad(second))
    assert third.read_bytes() == second.read_bytes()


def test_values_that_come_twice_are_added_up_and_stored_zeros_dropped() -> None:
    matrix = sp.csr_matrix((6, 4), dtype=np.float32)
    matrix.indptr = np.array([0, 2, 3, 4, 4, 4, 4])
    matrix.indices = np.array([1, 1, 0, 3])
    matrix.data = np.array([1, 2, 5, 0], dtype=np.float32)
    data = anndata.AnnData(matrix, obsm={"X_umap": np.zeros((6, 2))})
    back = read(written("h5ad", data=data, **IDENTITY)).X
    assert back.nnz == 2 and back[0, 1] == 3 and back[1, 0] == 5


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_repeated_names_become_unique_and_keep_their_columns() -> None:
    data = anndata.AnnData(
        np.arange(8, dtype="f4").reshape(2, 4),
        var=pd.DataFrame(index=["a", "a", "b", "a-1"]),
        obsm={"X_umap": np.zeros((2, 2))},
    )
    back = read(written("h5ad", data=data, **IDENTITY))
    assert back.var_names.tolist() == ["a", "a-2", "b", "a-1"]
    np.testing.assert_array_equal(back[:, "a-2"].X.ravel(), [1, 5])
    some = read(written("h5ad", "some", data=data, gene_identifiers=["a-1", "a-2"], **IDENTITY))
    np.testing.assert_array_equal(some.X, [[3, 1], [7, 5]])


def test_outlier_quantiles_by_their_definition() -> None:
    arguments = complete()
    back = read(written("h5ad", **arguments))
    quantiles = back.uns["cellucid"]["outlierQuantiles"]
    assert quantiles["minPoints"] == 3 and set(quantiles["fields"]) == {
        "label", "flag", "flag_gap", "text", "ordered"
    }  # fmt: skip
    latent = arguments["embeddings"]["X_pca"].astype("f4").astype("f8")
    codes = arguments["obs"]["label"].cat.codes.to_numpy()
    expected = np.full(len(codes), np.nan, np.float32)
    for code in range(3):
        cells = np.flatnonzero(codes == code)
        centre = sum(latent[cell] for cell in cells) / len(cells)
        distances = np.array([np.sqrt(sum((latent[cell] - centre) ** 2)) for cell in cells])
        ranks = [(distances <= distance).sum() for distance in distances]
        expected[cells] = np.array(ranks, np.float32) / np.float32(len(cells))
    np.testing.assert_array_equal(quantiles["fields"]["label"], expected)


def multimodal() -> mudata.MuData:
    rna = adata()
    protein = anndata.AnnData(
        np.arange(60, dtype="f4").reshape(30, 2),
        obs=pd.DataFrame({"depth": range(30)}, index=rna.obs_names[40:10:-1]),
        var=pd.DataFrame(index=["p0", "g1"]),
        obsm={"X_own": np.arange(60.0).reshape(30, 2)},
    )
    with no_columns_pulled():
        result = mudata.MuData({"prot": protein, "rna": rna})
    result.obsm["X_joint"] = np.random.default_rng(0).normal(size=(result.n_obs, 2))
    result.obs["batch"] = pd.Categorical(["x", "y"] * (result.n_obs // 2))
    return result


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
def test_mudata_in_every_container() -> None:
    data = multimodal()
    outputs = [
        cellucid_prepare.prepare("a.h5mu", format="h5mu", data=data, **IDENTITY),
        cellucid_prepare.prepare("a.zarr", format="zarr", data=data, **IDENTITY),
        cellucid_prepare.prepare("a.zarr.zip", format="zarr.zip", data=data, **IDENTITY),
    ]
    third = cellucid_prepare.prepare("b.zarr", format="zarr", data=data, zarr_format=3, **IDENTITY)
    if READS_ZARR_3:
        outputs.append(third)
    found = []
    for path in outputs:
        with open_store(path) as root:
            found.append(elements(root))
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        assert {name for name in other if other[name] != found[0][name]} == set()
    back = mudata.read_h5mu("a.h5mu")
    assert list(back.mod) == ["prot", "rna"]
    assert mudata.read_zarr("a.zarr").shape == back.shape == data.shape
    np.testing.assert_array_equal(back["prot"].X, data["prot"].X)
    assert (back["rna"].X != data["rna"].X).nnz == 0
    assert back.obs["batch"].tolist() == data.obs["batch"].tolist()
    np.testing.assert_array_equal(back.obsmap["prot"].ravel(), data.obsmap["prot"].ravel())
    assert Path("a.h5mu").read_bytes().startswith(b"MuData (format-version=0.1.0;")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
def test_one_modality_is_an_anndata_in_the_order_of_the_cells() -> None:
    data = multimodal()
    one = read(written("h5ad", data=data, modalities=["rna"], **IDENTITY))
    assert one.obs_names.tolist() == data.obs_names.tolist()
    assert (one.X != data["rna"][one.obs_names].X).nnz == 0
    np.testing.assert_array_equal(one.obsm["X_umap"], data["rna"][one.obs_names].obsm["X_umap"])
    refusal_leaves_nothing("20 cells", data=data, modalities=["prot"], **IDENTITY)
    refusal_leaves_nothing("several", data=data, **IDENTITY)


def shuffled() -> mudata.MuData:
    """A modality in another order than the cells, and columns, a graph and arrays in both."""
    rna = adata()
    rna = rna[np.random.default_rng(3).permutation(rna.n_obs)].copy()
    rna.obs["batch"] = "of rna"
    protein = anndata.AnnData(
        np.ones((rna.n_obs, 2), "f4"),
        obs=pd.DataFrame({"depth": range(rna.n_obs)}, index=adata().obs_names),
        var=pd.DataFrame(index=["p0", "p1"]),
    )
    with no_columns_pulled():
        result = mudata.MuData({"prot": protein, "rna": rna})
    result.obs["batch"] = pd.Categorical(["x", "y"] * (result.n_obs // 2))
    result.obsm["X_joint"] = np.random.default_rng(0).normal(size=(result.n_obs, 2))
    return result


def each_source(data: mudata.MuData) -> dict[str, Any]:
    data.write("in.h5mu")
    data.write_zarr("in.zarr")
    scx_core.from_mudata(data, "in.scx", progress=False)
    return {"object": data, "h5mu": "in.h5mu", "zarr": "in.zarr", "scx": "in.scx"}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
def test_one_modality_brings_its_columns_and_graph(caplog: pytest.LogCaptureFixture) -> None:
    data = shuffled()
    rna = data["rna"][data.obs_names]
    for name, source in each_source(data).items():
        one = read(written("h5ad", name, data=source, modalities=["rna"], **IDENTITY))
        assert one.obs_names.tolist() == data.obs_names.tolist()
        assert one.obs["number"].tolist() == rna.obs["number"].tolist()
        assert one.obs["label"].tolist() == rna.obs["label"].tolist()
        # what the MuData has itself stays
        assert one.obs["batch"].tolist() == data.obs["batch"].tolist()
        assert "of 'batch' the MuData has columns of its own" in caplog.text
        caplog.clear()
        expected = rna.obsp["connectivities"].toarray().astype("f4")
        np.testing.assert_array_equal(one.obsp["connectivities"].toarray(), expected)
        for key in ("X_umap", "X_pca", "velocity_umap"):
            np.testing.assert_array_equal(one.obsm[key], rna.obsm[key].astype("f4"))
        np.testing.assert_array_equal(one.obsm["X_joint"], data.obsm["X_joint"].astype("f4"))
    weights = sp.lil_matrix((data.n_obs, data.n_obs))
    weights[0, 1] = weights[1, 0] = 0.5
    data.obsp["connectivities"] = weights.tocsr()
    one = read(written("h5ad", "root", data=data, modalities=["rna"], **IDENTITY))
    assert one.obsp["connectivities"].nnz == 2


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
def test_an_embedding_that_mudata_and_modality_both_have_is_refused() -> None:
    data = shuffled()
    data.obsm["X_umap"] = data.obsm["X_joint"]
    for source in each_source(data).values():
        refusal_leaves_nothing(
            r"mod\['rna'\]\.obsm\['X_umap'\]: the MuData itself holds an obsm\['X_umap'\]",
            data=source, modalities=["rna"], **IDENTITY,
        )  # fmt: skip
    # a field of the modality over an embedding that only the MuData has
    del data["rna"].obsm["X_umap"]
    one = read(written("h5ad", data=data, modalities=["rna"], vector_field_default="velocity",
                       **IDENTITY))  # fmt: skip
    assert one.uns["cellucid"]["defaults"]["vectorFieldDefault"] == "velocity"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
def test_defaults_name_members_of_modalities() -> None:
    data = shuffled()
    chosen: dict[str, Any] = {
        "latent_key": "rna:X_pca",
        "obs_keys": ["rna:measured", "prot:depth", "rna:label", "batch"],
        "embedding_defaults": {"2d": "rna:X_umap", "3d": ("rna:X_pca", [2, 0, 1])},
        "modality": "rna",
        "centroid_min_points": 2,
    }
    path = cellucid_prepare.prepare("a.h5mu", format="h5mu", data=data, **chosen, **IDENTITY)
    assert cellucid_prepare.check(path).is_ready
    stored = mudata.read_h5mu(path).uns["cellucid"]
    # the quantiles are those of the same points given as an embedding of all cells
    latent = data["rna"][data.obs_names].obsm["X_pca"]
    other = cellucid_prepare.prepare(
        "b.h5mu", format="h5mu", data=data, embeddings={"X_all": latent}, latent_key="X_all",
        centroid_min_points=2, **IDENTITY,
    )  # fmt: skip
    expected = mudata.read_h5mu(other).uns["cellucid"]["outlierQuantiles"]["fields"]
    assert list(expected) == ["batch"]
    found = stored["outlierQuantiles"]["fields"]["batch"]
    np.testing.assert_array_equal(found, expected["batch"])
    again = cellucid_prepare.prepare("c.h5mu", format="h5mu", data=path)
    assert again.read_bytes() == path.read_bytes()
    one = read(written("h5ad", data=path, modalities=["rna"])).uns["cellucid"]["defaults"]
    assert one["latentKey"] == "X_pca" and one["embedding2d"] == "X_umap"
    assert one["embedding3d"]["key"] == "X_pca" and list(one["obsKeys"]) == ["label", "batch"]
    with pytest.raises(cellucid_prepare.PrepareError, match="20 cells have no place"):
        cellucid_prepare.prepare(
            "d.h5mu", format="h5mu", data=multimodal(), latent_key="prot:X_own", **IDENTITY
        )


def test_flags_in_obsm_are_no_embedding() -> None:
    data = adata()
    expected = written("h5ad", "without", data=data, **IDENTITY).read_bytes()
    data.obsm["X_flags"] = np.ones((data.n_obs, 2), bool)
    assert written("h5ad", "with", data=data, **IDENTITY).read_bytes() == expected


def test_what_is_no_data_is_named() -> None:
    for data in (pd.DataFrame({"a": [1]}), 5, np.ones((2, 2))):
        refusal_leaves_nothing(f"data: is a {type(data).__name__}", data=data, **IDENTITY)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning:mudata")
def test_a_modality_whose_cells_were_reordered_behind_its_mudata() -> None:
    data = shuffled()
    data.mod["rna"] = data["rna"][::-1].copy()
    refusal_leaves_nothing(
        r"obsmap\['rna'\]: 50 cells.*update", data=data, modalities=["rna"], **IDENTITY
    )
    with no_columns_pulled():
        data.update()
    back = read(written("h5ad", data=data, modalities=["rna"], **IDENTITY))
    rna = data["rna"][back.obs_names]
    np.testing.assert_array_equal(back.obsm["X_umap"], rna.obsm["X_umap"].astype("f4"))


@pytest.mark.filterwarnings("ignore")
def test_a_mudata_within_a_mudata_is_named() -> None:
    data = mudata.MuData({"rna": adata(), "both": multimodal()})
    refusal_leaves_nothing(r"mod\['both'\]: is a MuData itself", data=data, **IDENTITY)
