"""What cannot be held is refused by its name, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_core.sources.anndata_memory import content_from_anndata
from scx_core.writing import write_experiment


def small(x: object = None, **parts: object) -> anndata.AnnData:
    obs = pd.DataFrame(index=["a", "b"])
    var = pd.DataFrame(index=["g1", "g2", "g3"])
    return anndata.AnnData(np.ones((2, 3)) if x is None else x, obs=obs, var=var, **parts)


def refused(tmp_path: Path, adata: anndata.AnnData, error: type[Exception], match: str) -> None:
    target = tmp_path / "target.scx"
    with pytest.raises(error, match=match):
        scx_core.from_anndata(adata, target)
    assert list(tmp_path.iterdir()) == []
    target.write_bytes(b"old")
    with pytest.raises(error, match=match):
        scx_core.from_anndata(adata, target, overwrite=True)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("target.scx", b"old")
    ]
    target.unlink()


@pytest.mark.parametrize("dtype", ["complex64", "longdouble", "object", "U3"])
def test_dtypes_without_a_place(tmp_path: Path, dtype: str) -> None:
    values = np.ones((2, 3)).astype(dtype)
    refused(tmp_path, small(values), TypeError, "^X has dtype")
    layered = small(layers={"counts": values})
    refused(tmp_path, layered, TypeError, r"^layers\['counts'\] has dtype")


def test_sparse_dtypes_without_a_place(tmp_path: Path) -> None:
    refused(
        tmp_path, small(sp.csr_matrix(np.eye(2, 3), dtype="c16")), TypeError, "X has dtype comp"
    )


def test_masked_arrays(tmp_path: Path) -> None:
    masked = np.ma.masked_array(np.ones((2, 3)), mask=np.eye(2, 3))
    refused(tmp_path, small(layers={"m": masked}), TypeError, r"layers\['m'\] is a masked.*filled")


def test_obs_columns(tmp_path: Path) -> None:
    adata = small()
    adata.obs["odd"] = pd.Series([{"a": 1}, {"b": 2}], index=adata.obs_names, dtype=object)
    refused(tmp_path, adata, TypeError, r"obs\['odd'\]")


def test_entries_of_obsm(tmp_path: Path) -> None:
    adata = small(
        obsm={"good": np.ones((2, 2)), "odd": np.array([[1 + 2j, "x"]] * 2, dtype=object)}
    )
    refused(tmp_path, adata, TypeError, r"obsm\['odd'\]")


def test_keys_that_cannot_name_a_section(tmp_path: Path) -> None:
    refused(tmp_path, small(layers={"a\0b": np.ones((2, 3))}), ValueError, "NUL")
    refused(tmp_path, small(layers={"\ud800": np.ones((2, 3))}), ValueError, "surrogate")
    refused(tmp_path, small(obsm={"k" * 901: np.ones((2, 3))}), ValueError, "901 bytes")


def test_uns_is_named_in_a_warning_or_an_error(tmp_path: Path) -> None:
    adata = small(uns={"fine": 1, "deep": {"odd": object()}})
    with pytest.raises(ValueError, match=r"uns\['deep'\]\['odd'\]"):
        scx_core.from_anndata(adata, tmp_path / "a.scx", strict_uns=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(UserWarning, match=r"uns\['deep'\]\['odd'\]"):
        scx_core.from_anndata(adata, tmp_path / "a.scx")
    assert scx_core.open(tmp_path / "a.scx").uns["fine"] == 1


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"codec": "zstd"}, ValueError, "codec='zstd'.*auto, rowpack, none"),
        ({"shard_size": 0}, ValueError, "shard_size=0"),
        ({"shard_size": 1.5}, TypeError, "shard_size"),
        ({"shard_size": True}, TypeError, "shard_size"),
        ({"threads": -1}, ValueError, "threads=-1"),
        ({"block_bytes": 0}, ValueError, "block_bytes=0"),
        ({"progress": "yes"}, TypeError, "progress='yes' must be None, True, False or a function"),
    ],
)
def test_options(
    tmp_path: Path, options: dict[str, object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        scx_core.from_anndata(small(), tmp_path / "a.scx", **options)
    assert list(tmp_path.iterdir()) == []


def test_existing_files(tmp_path: Path) -> None:
    target = tmp_path / "a.scx"
    target.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        scx_core.from_anndata(small(), target)
    assert target.read_bytes() == b"old"
    scx_core.from_anndata(small(), target, overwrite=True)
    assert scx_core.open(target).shape == (2, 3)
    with pytest.raises(OSError, match="nowhere"):
        scx_core.from_anndata(small(), tmp_path / "nowhere" / "a.scx")


@pytest.mark.parametrize("value", ["a.h5ad", np.ones((2, 2)), None])
def test_other_objects(tmp_path: Path, value: object) -> None:
    for function in (scx_core.from_anndata, scx_core.from_mudata, scx_core.write):
        with pytest.raises(
            TypeError, match=r"takes (a mudata|an anndata)\.\w+( or a mudata\.MuData)?, not"
        ):
            function(value, tmp_path / "a.scx")


def test_damaged_sparse_matrices(tmp_path: Path) -> None:
    def broken(indptr: list[int], indices: list[int]) -> anndata.AnnData:
        adata = small(sp.csr_matrix(np.ones((2, 3))))
        adata.X.indptr = np.array(indptr, dtype=np.int32)
        adata.X.indices = np.array(indices, dtype=np.int32)
        return adata

    refused(tmp_path, broken([0, 3, 6], [0, 1, 2, 0, 1, 3]), (ValueError, IndexError), "3")
    refused(tmp_path, broken([0, 3, 6], [0, 1, 2, 0, 1, -1]), (ValueError, IndexError), "-1")
    refused(tmp_path, broken([0, 7, 6], [0, 1, 2, 0, 1, 2]), ValueError, "X: rows.*damaged")
    refused(tmp_path, broken([0, 3, 9], [0, 1, 2, 0, 1, 2]), ValueError, "X: rows.*damaged")


def test_content_that_does_not_fit(tmp_path: Path) -> None:
    def check(match: str, **changes: object) -> None:
        content = content_from_anndata(small())
        for name, value in changes.items():
            setattr(content.modalities[""], name, value)
        with pytest.raises(ValueError, match=match):
            write_experiment(tmp_path / "a.scx", content)
        assert list(tmp_path.iterdir()) == []

    source = content_from_anndata(small()).modalities[""].X
    check("X is 2 x 3, but obs and var make it 2 x 2", var=pd.DataFrame(index=["g1", "g2"]))
    check(r"obsm\['p'\] has 3 rows where 2", obsm={"p": np.ones((3, 2))})
    check(r"varp\['p'\] has shape \(2, 2\)", varp={"p": np.ones((2, 2))})
    check("raw has values but no var", raw_X=source)
    check("raw has a var but no matrix", raw_var=pd.DataFrame(index=["g"]))
    check(
        r"raw.X is 2 x 3, but obs and var make it 2 x 1",
        raw_X=source,
        raw_var=pd.DataFrame(index=["g"]),
    )
    check("need a named modality", rows=np.arange(2))


def test_sources_that_break_their_word(tmp_path: Path) -> None:
    from scx_core.sources.base import DenseBlock

    class Source:
        shape, dtype, form, index_dtypes = (2, 3), np.dtype("f4"), "dense", None

        def __init__(self, *blocks: np.ndarray) -> None:
            self.blocks = blocks

        def row_blocks(self, block_bytes: int) -> object:
            return (DenseBlock(block) for block in self.blocks)

    rows = np.ones((1, 3), dtype="f4")
    for blocks, match in [
        ((rows,), "yields 1 rows instead of 2"),
        ((rows, rows, rows), "yields 3 rows instead of 2"),
        ((rows, rows.astype("f8")), "rows from 1 on have dtype float64"),
        ((rows, rows[:, :2]), "do not have 3 columns"),
    ]:
        content = content_from_anndata(small())
        content.modalities[""].layers["odd"] = Source(*blocks)
        with pytest.raises(ValueError, match=rf"layers\['odd'\].*{match}"):
            write_experiment(tmp_path / "a.scx", content)
        assert list(tmp_path.iterdir()) == []
