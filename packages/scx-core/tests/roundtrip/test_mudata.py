"""What goes in comes out equal, for MuData."""

from __future__ import annotations

import warnings
from pathlib import Path

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scx_core
from anndata_samples import assert_same
from mudata_samples import assert_same_mudata, quiet, random_mudata


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    seed=st.integers(0, 2**32 - 1),
    shard_size=st.sampled_from([1, 3, 64]),
    codec=st.sampled_from(["auto", "none"]),
    block_bytes=st.sampled_from([1, 300, 2**26]),
)
def test_corpus(tmp_path: Path, seed: int, shard_size: int, codec: str, block_bytes: int) -> None:
    path = tmp_path / "corpus.scx"
    mdata = random_mudata(seed)
    with quiet():
        scx_core.from_mudata(
            mdata,
            path,
            overwrite=True,
            shard_size=shard_size,
            codec=codec,
            block_bytes=block_bytes,
        )
        with scx_core.open(path) as experiment:
            assert all(ok for _, ok in experiment.validate(deep=True))
            assert_same_mudata(experiment.to_mudata(), mdata)
            for name, adata in mdata.mod.items():
                assert_same(experiment.to_anndata(modality=name), adata)
        assert_same_mudata(scx_core.read(path), mdata)


def two_modalities() -> mudata.MuData:
    """Cells d and a in both modalities, in another order; x in prot alone; b and c in rna alone."""
    rna = anndata.AnnData(
        sp.csr_matrix(np.arange(1, 9, dtype=np.float32).reshape(4, 2)),
        obs=pd.DataFrame({"depth": [1, 2, 3, 4]}, index=list("abcd")),
        var=pd.DataFrame(index=["g1", "g2"]),
    )
    prot = anndata.AnnData(
        np.arange(10, 19, dtype=np.int16).reshape(3, 3),
        obs=pd.DataFrame({"depth": [7, 8, 9]}, index=list("dax")),
        var=pd.DataFrame(index=["p1", "p2", "p3"]),
    )
    with quiet():
        return mudata.MuData({"rna": rna, "prot": prot})


def test_rows_of_the_file_are_those_of_all_cells(tmp_path: Path) -> None:
    mdata = two_modalities()
    scx_core.write(mdata, tmp_path / "m.scx", shard_size=2)
    with scx_core.open(tmp_path / "m.scx") as experiment:
        assert experiment.is_multimodal
        assert experiment.modality_names == ["rna", "prot"]
        assert list(experiment.obs_names) == list("abcdx")
        assert experiment.shape == (5, 3)
        prot = experiment["prot"]
        np.testing.assert_array_equal(prot.rows, [3, 0, 4])
        assert (prot.n_obs, prot.n_vars) == (3, 3)
        assert prot.X is not None
        np.testing.assert_array_equal(
            prot.X[:].toarray(),
            [[13, 14, 15], [0, 0, 0], [0, 0, 0], [10, 11, 12], [16, 17, 18]],
        )
        rna = experiment.modality("rna")
        assert rna.X is not None
        np.testing.assert_array_equal(rna.X[[4, 3]].toarray(), [[0, 0], [7, 8]])
        assert "prot: 3 x 3" in repr(experiment)


def test_parts_of_a_modality_are_not_those_of_the_file(tmp_path: Path) -> None:
    scx_core.write(two_modalities(), tmp_path / "m.scx")
    with scx_core.open(tmp_path / "m.scx") as experiment:
        for what in ("X", "layers", "raw"):
            with pytest.raises(ValueError, match=rf"experiment\['rna'\].{what}"):
                getattr(experiment, what)
        with pytest.raises(ValueError, match=r"name one of \['rna', 'prot'\]"):
            experiment.to_anndata()
        with pytest.raises(KeyError, match="no modality 'atac'"):
            experiment.to_anndata(modality="atac")
    adata = anndata.AnnData(np.ones((1, 1)), obs=pd.DataFrame(index=["c"]))
    scx_core.write(adata, tmp_path / "a.scx")
    with scx_core.open(tmp_path / "a.scx") as experiment:
        with pytest.raises(ValueError, match="single modality"):
            experiment.to_mudata()
        with pytest.raises(ValueError, match="single modality"):
            experiment.to_anndata(modality="rna")
        assert experiment.modality_names == []


def test_changed_without_update(tmp_path: Path) -> None:
    mdata = two_modalities()
    mdata.mod["rna"] = mdata.mod["rna"][:2].copy()
    with pytest.raises(ValueError, match=r"obsmap\['rna'\].*mdata.update\(\)"):
        scx_core.write(mdata, tmp_path / "m.scx")
    assert list(tmp_path.iterdir()) == []


def test_nested_and_empty_objects(tmp_path: Path) -> None:
    with quiet():
        nested = mudata.MuData({"inner": two_modalities()})
        empty = mudata.MuData({})
    with pytest.raises(TypeError, match=r"mod\['inner'\] is a MuData"):
        scx_core.write(nested, tmp_path / "m.scx")
    with pytest.raises(ValueError, match="no modality"):
        scx_core.write(empty, tmp_path / "m.scx")
    assert list(tmp_path.iterdir()) == []


def test_refusals_name_the_modality(tmp_path: Path) -> None:
    mdata = two_modalities()
    mdata.mod["prot"].layers["odd"] = np.ones((3, 3), dtype=complex)
    with pytest.raises(TypeError, match=r"mod\['prot'\].layers\['odd'\] has dtype complex128"):
        scx_core.write(mdata, tmp_path / "m.scx")
    with pytest.raises(KeyError, match="no modality has a layer 'x'"):
        scx_core.from_mudata(mdata, tmp_path / "m.scx", layers="x")
    assert list(tmp_path.iterdir()) == []


def test_long_modality_names(tmp_path: Path) -> None:
    adata = two_modalities().mod["rna"]
    with quiet():
        good, bad = mudata.MuData({"n" * 64: adata}), mudata.MuData({"ü" * 33: adata})
        scx_core.write(good, tmp_path / "m.scx")
        assert_same_mudata(scx_core.read(tmp_path / "m.scx"), good)
    with pytest.raises(ValueError, match="66 bytes"):
        scx_core.write(bad, tmp_path / "b.scx")


def test_views(tmp_path: Path) -> None:
    mdata = two_modalities()
    with quiet():
        view = mdata[["d", "x", "a"]]
        scx_core.write(view, tmp_path / "m.scx")
        assert_same_mudata(scx_core.read(tmp_path / "m.scx"), view.copy())


def test_reading_warns_of_nothing(tmp_path: Path) -> None:
    scx_core.write(two_modalities(), tmp_path / "m.scx")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scx_core.read(tmp_path / "m.scx")


def test_backed_modalities_compute_what_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("dask.array")
    mdata = two_modalities()
    scx_core.write(mdata, tmp_path / "m.scx", shard_size=2)
    lazy = scx_core.read(tmp_path / "m.scx", backed=True)
    assert type(lazy.mod["prot"].X).__module__.startswith("dask")
    for name, adata in mdata.mod.items():
        found = lazy.mod[name].to_memory().X
        found = found.toarray() if sp.issparse(found) else found
        wanted = adata.X.toarray() if sp.issparse(adata.X) else adata.X
        np.testing.assert_array_equal(found, wanted)


def test_content_that_does_not_fit(tmp_path: Path) -> None:
    from scx_core.sources.mudata_memory import content_from_mudata
    from scx_core.writing import write_experiment

    def check(match: str, **changes: object) -> None:
        content = content_from_mudata(two_modalities())
        for name, value in changes.items():
            holder = content if hasattr(content, name) and name != "obs" else None
            setattr(holder or content.modalities["prot"], name, value)
        with pytest.raises(ValueError, match=match):
            write_experiment(tmp_path / "m.scx", content)
        assert list(tmp_path.iterdir()) == []

    check("axis=2", axis=2)
    check(r"mod\['prot'\].rows names an entry twice", rows=np.array([0, 0, 1]))
    check(r"mod\['prot'\].rows has entries outside 0 to 4", rows=np.array([0, 5, 1]))
    check(r"mod\['prot'\].rows must be int64 of 3", rows=np.array([0, 1]))
    check(r"mod\['prot'\].columns has entries outside 0 to 4", columns=np.array([0, 5, 1]))
    check(r"mod\['prot'\].obs and", obs=None)
    check(r"obsm\['x'\] has 3 rows where 5", obsm={"x": np.ones((3, 1))})
    check("varm and varp over all", var=None, varm={"x": np.ones((5, 1))})
    check("0 modalities", modalities={})
