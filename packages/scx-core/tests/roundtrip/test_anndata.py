"""What goes in comes out equal, for AnnData of every kind."""

from __future__ import annotations

import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scx_core
from anndata_samples import (
    DENSE_DTYPES,
    SPARSE_DTYPES,
    SPARSE_FORMS,
    anndatas,
    assert_same,
    bits_of,
    random_matrix,
)

# scipy has no sparse matrices of some dtypes
FORMS_AND_DTYPES = [("dense", dtype) for dtype in DENSE_DTYPES] + [
    (form, dtype) for form in SPARSE_FORMS for dtype in SPARSE_DTYPES
]
SLOW = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def there_and_back(adata: anndata.AnnData, path: Path, **options: object) -> anndata.AnnData:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*names are not unique.*")
        scx_core.from_anndata(adata, path, overwrite=True, **options)
        with scx_core.open(path) as experiment:
            assert all(ok for _, ok in experiment.validate(deep=True))
            return experiment.to_anndata()


@SLOW
@given(
    adata=anndatas(),
    shard_size=st.sampled_from([1, 3, 64, 16384]),
    codec=st.sampled_from(["auto", "rowpack", "none"]),
    block_bytes=st.sampled_from([1, 300, 10_000, 2**26]),
)
def test_corpus(
    tmp_path: Path, adata: anndata.AnnData, shard_size: int, codec: str, block_bytes: int
) -> None:
    back = there_and_back(
        adata,
        tmp_path / "corpus.scx",
        shard_size=shard_size,
        codec=codec,
        block_bytes=block_bytes,
    )
    assert_same(back, adata)


@pytest.mark.parametrize("codec", ["rowpack", "none"])
@pytest.mark.parametrize(("form", "dtype"), FORMS_AND_DTYPES)
def test_every_dtype_and_form(tmp_path: Path, dtype: str, form: str, codec: str) -> None:
    rng = np.random.default_rng(7)
    x = random_matrix(rng, 20, 30, dtype, form, 0.4)
    adata = anndata.AnnData(x, obs=names(20, "c"), var=names(30, "g"))
    assert_same(there_and_back(adata, tmp_path / "x.scx", codec=codec, shard_size=8), adata)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [(form, dtype) for form, dtype in FORMS_AND_DTYPES if dtype.startswith("float")],
)
def test_nan_payloads_infinities_and_negative_zeros_keep_their_bits(
    tmp_path: Path, dtype: str, form: str
) -> None:
    patterns = {
        "float16": ("u2", [0x7E00, 0xFE01, 0x7C00, 0xFC00, 0x8000, 0x0001]),
        "float32": ("u4", [0x7FC00000, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 1]),
        "float64": (
            "u8",
            [0x7FF8 << 48, 0xFFF8_0000_0000_0123, 0x7FF0 << 48, 1 << 63, 1, 0xBFF << 52],
        ),
    }
    unsigned, numbers = patterns[dtype]
    values = np.zeros((3, 7), dtype=dtype)
    values[1, :6] = np.array(numbers, dtype=unsigned).view(dtype)
    x = values
    if form != "dense":
        triple = (values[1, :6].copy(), np.arange(6), np.array([0, 0, 6, 6]))
        x = getattr(sp, form)(sp.csr_array(triple, shape=values.shape))
    adata = anndata.AnnData(x, obs=names(3, "c"), var=names(7, "g"))
    path = tmp_path / "x.scx"
    with pytest.warns(scx_core.ScxWarning, match="NaN or infinite values were kept.*X"):
        scx_core.from_anndata(adata, path)
    back = scx_core.read(path)
    assert type(back.X) is type(adata.X)
    assert bits_of(back.X) == bits_of(adata.X)


def test_x_among_the_layers_is_no_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adata = anndata.AnnData(np.eye(3, dtype=np.float32), layers={"twice": 2 * np.eye(3)})
    matrices = {None: adata.X, "twice": adata.layers["twice"]}
    if None not in adata.layers:
        # what anndata does from 0.13 on
        monkeypatch.setattr(anndata.AnnData, "layers", property(lambda _adata: matrices))
    scx_core.from_anndata(adata, tmp_path / "all.scx")
    scx_core.from_anndata(adata, tmp_path / "none.scx", layers=[])
    with pytest.raises(KeyError, match=r"no layer 'X'; there are \['twice'\]"):
        scx_core.from_anndata(adata, tmp_path / "x.scx", layers=["X"])
    monkeypatch.undo()
    with scx_core.open(tmp_path / "all.scx") as experiment:
        assert list(experiment.layers) == ["twice"]
    with scx_core.open(tmp_path / "none.scx") as experiment:
        assert list(experiment.layers) == []


def test_pbmc68k_reduced(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adata = scanpy.datasets.pbmc68k_reduced()
    back = there_and_back(adata, tmp_path / "pbmc.scx", shard_size=100)
    assert np.isnan(adata.varm["PCs"]).any()
    assert_same(back, adata, exact=False)
    del back.varm["PCs"], adata.varm["PCs"]
    assert_same(back, adata)


def test_views_are_written_as_what_they_show(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for form in ["csr_matrix", "csc_matrix", "dense"]:
        adata = anndata.AnnData(
            random_matrix(rng, 50, 20, "float32", form, 0.5),
            obs=names(50, "c"),
            var=names(20, "g"),
            layers={"counts": random_matrix(rng, 50, 20, "int32", form, 0.5)},
        )
        adata.raw = adata.copy()
        view = adata[rng.permutation(50)[:31], [3, 2, 19]]
        back = there_and_back(view, tmp_path / "view.scx", block_bytes=500, shard_size=7)
        assert view.is_view
        assert_same(back, view.copy())


def test_backed_objects_are_read_by_blocks(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for form in ["csr_matrix", "csc_matrix", "dense"]:
        adata = anndata.AnnData(
            random_matrix(rng, 40, 9, "float32", form, 0.5), obs=names(40, "c"), var=names(9, "g")
        )
        adata.raw = adata.copy()
        adata.write_h5ad(tmp_path / "a.h5ad")
        backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
        back = there_and_back(backed, tmp_path / "a.scx", block_bytes=200)
        assert_same(back, anndata.read_h5ad(tmp_path / "a.h5ad"))
        part = there_and_back(backed[5:30], tmp_path / "b.scx", block_bytes=200)
        assert_same(part, anndata.read_h5ad(tmp_path / "a.h5ad")[5:30].copy())
        assert backed.file.is_open
        backed.file.close()
        back = there_and_back(backed, tmp_path / "c.scx")
        assert_same(back, anndata.read_h5ad(tmp_path / "a.h5ad"))
        assert not backed.file.is_open


def test_dask_matrices_are_computed_by_chunks(tmp_path: Path) -> None:
    dask_array = pytest.importorskip("dask.array")
    rng = np.random.default_rng(5)
    values = random_matrix(rng, 40, 9, "float32", "dense", 0.5)
    lazy = dask_array.from_array(values, chunks=(7, 4))
    adata = anndata.AnnData(lazy, obs=names(40, "c"), var=names(9, "g"))
    back = there_and_back(adata, tmp_path / "a.scx")
    assert bits_of(back.X) == bits_of(values)
    view = there_and_back(adata[5:30, [3, 1]], tmp_path / "b.scx")
    assert bits_of(view.X) == bits_of(values[5:30][:, [3, 1]])


def test_wide_index_arrays_come_back_wide(tmp_path: Path) -> None:
    x = sp.random(9, 5, 0.5, "csr", dtype=np.float32, random_state=0)
    for indices, indptr in [("int64", "int64"), ("int32", "int64"), ("int64", "int32")]:
        x.indices, x.indptr = x.indices.astype(indices), x.indptr.astype(indptr)
        adata = anndata.AnnData(x, obs=names(9, "c"), var=names(5, "g"))
        back = there_and_back(adata, tmp_path / "x.scx")
        assert (back.X.indices.dtype, back.X.indptr.dtype) == (indices, indptr)
        assert_same(back, adata)


def test_keys_that_look_like_names_of_sections(tmp_path: Path) -> None:
    keys = ["", "..", "a/b", "X_shard_0", "shard_1", "ü", "_index", "a_shard_0/shard_3", " "]
    adata = anndata.AnnData(
        np.eye(3, dtype=np.float32),
        obs=names(3, "c"),
        var=names(3, "g"),
        layers={key: np.full((3, 3), number) for number, key in enumerate(keys)},
        obsm={key: np.full((3, 2), number) for number, key in enumerate(keys)},
        varp={key: np.full((3, 3), number) for number, key in enumerate(keys)},
    )
    adata.raw = adata
    adata.raw.varm["q/r"] = np.ones((3, 2))
    assert_same(there_and_back(adata, tmp_path / "keys.scx"), adata)


def test_chosen_layers(tmp_path: Path) -> None:
    layers = {key: np.full((2, 3), number) for number, key in enumerate("abc")}
    adata = anndata.AnnData(obs=names(2, "c"), var=names(3, "g"), layers=layers)
    for chosen, expected in [(["c", "a"], ["a", "c"]), ([], []), ("b", ["b"]), (None, list("abc"))]:
        back = there_and_back(adata, tmp_path / "l.scx", layers=chosen)
        assert list(back.layers) == expected
    with pytest.raises(KeyError, match=r"no layer 'd'.*'a', 'b', 'c'"):
        scx_core.from_anndata(adata, tmp_path / "l2.scx", layers=["d"])
    assert not (tmp_path / "l2.scx").exists()


def test_files_of_equal_objects_are_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    x = random_matrix(rng, 300, 40, "float32", "csr_matrix", 0.3)
    adata = anndata.AnnData(x, obs=names(300, "c"), var=names(40, "g"))
    for name, threads, block_bytes in [("a", 1, 2**26), ("b", 2, 777), ("c", 0, 1)]:
        scx_core.from_anndata(
            adata, tmp_path / name, shard_size=64, threads=threads, block_bytes=block_bytes
        )
    contents = {(tmp_path / name).read_bytes() for name in "abc"}
    assert len(contents) == 1


def test_the_object_stays_as_it_is(tmp_path: Path) -> None:
    indptr, indices = np.array([0, 3, 5, 6]), np.array([3, 1, 2, 1, 1, 0])
    data = np.array([1, 2, 3, 4, 5, 0], dtype=np.float32)
    x = sp.csr_matrix((data.copy(), indices.copy(), indptr.copy()), shape=(3, 4))
    adata = anndata.AnnData(x, obs=names(3, "c"), var=names(4, "g"))
    with pytest.warns(scx_core.ScxWarning) as caught:
        scx_core.from_anndata(adata, tmp_path / "x.scx")
    assert [str(warning.message) for warning in caught] == [
        "matrices were made canonical; X: 1 repeated entries added up, 1 stored zeros dropped, "
        "1 rows put into column order"
    ]
    np.testing.assert_array_equal(adata.X.indices, indices)
    np.testing.assert_array_equal(adata.X.data, data)
    back = scx_core.read(tmp_path / "x.scx")
    np.testing.assert_array_equal(back.X.toarray(), [[0, 2, 3, 1], [0, 9, 0, 0], [0, 0, 0, 0]])
    assert back.X.nnz == 4


def test_rows_out_of_order_are_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    triple = (np.array([1, 2, 3], dtype=np.float32), np.array([2, 0, 1]), np.array([0, 2, 3]))
    adata = anndata.AnnData(
        sp.csr_matrix(triple, shape=(2, 3)), obs=names(2, "c"), var=names(3, "g")
    )
    with caplog.at_level("INFO", logger="scx_core"):
        assert_same(there_and_back(adata, tmp_path / "x.scx"), adata)
    assert caplog.messages == ["X: 1 rows put into column order"]


@pytest.mark.parametrize(
    ("values", "columns", "message"),
    [([1, 2], [1, 1], "1 repeated entries added up"), ([1, 0], [0, 1], "1 stored zeros dropped")],
)
def test_entries_that_change_are_warned_of(
    tmp_path: Path, values: list[int], columns: list[int], message: str
) -> None:
    triple = (np.array(values, dtype=np.int32), np.array(columns), np.array([0, 2]))
    layers = {"odd": sp.csr_matrix(triple, shape=(1, 2))}
    adata = anndata.AnnData(obs=names(1, "c"), var=names(2, "g"), layers=layers)
    with pytest.warns(scx_core.ScxWarning, match=rf"layers\['odd'\]: {message}$") as caught:
        scx_core.from_anndata(adata, tmp_path / "x.scx")
    assert caught[0].filename == __file__


def test_short_forms(tmp_path: Path) -> None:
    adata = anndata.AnnData(np.eye(3, dtype=np.float32), obs=names(3, "c"), var=names(3, "g"))
    scx_core.write(adata, tmp_path / "x.scx", codec="none")
    assert_same(scx_core.read(tmp_path / "x.scx"), adata)


def names(n: int, prefix: str) -> pd.DataFrame:
    return pd.DataFrame(index=[f"{prefix}{number}" for number in range(n)])
