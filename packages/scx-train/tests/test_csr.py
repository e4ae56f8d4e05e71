"""CSR batches: the values of the dense ones, in memory that is used again."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


@pytest.mark.parametrize("panel", [None, [0], [3, 7, 8, 29], list(range(30))])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("log1p", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_values_are_those_of_dense_batches(
    make_file: MakeFile, panel: list[int] | None, normalize: bool, log1p: bool, threads: int
) -> None:
    path = make_file(333, shard_size=50)
    options: dict[str, Any] = {
        "hvg_indices": panel, "normalize": normalize, "log1p": log1p, "threads": threads,
        "obs_columns": ["number"],
    }  # fmt: skip
    with (
        TrainingDataset(path, 64, **options) as dense,
        TrainingDataset(path, 64, layout="csr", **options) as csr,
    ):
        for _ in range(2):
            for expected, batch in zip(dense, csr, strict=True):
                x = batch["X"]
                assert isinstance(x, sp.csr_matrix)
                assert (x.dtype, x.indices.dtype, x.indptr.dtype) == (
                    np.float32,
                    np.int32,
                    np.int32,
                )
                assert x.shape == expected["X"].shape
                np.testing.assert_array_equal(x.toarray(), expected["X"])
                np.testing.assert_array_equal(batch["cell_indices"], expected["cell_indices"])
                np.testing.assert_array_equal(batch["obs"]["number"], batch["cell_indices"])
                assert x.nnz == np.count_nonzero(expected["X"])
                checked = sp.csr_matrix((x.data, x.indices, x.indptr), shape=x.shape)
                assert checked.has_canonical_format
                x.check_format(full_check=True)


@pytest.mark.parametrize("transforms", [{}, {"normalize": False, "log1p": False}])
def test_large_batches(make_file: MakeFile, transforms: dict[str, Any]) -> None:
    """Those beyond 4 MiB are stored past the caches, a cache line at a time."""
    path = make_file(2500, 1500, shard_size=700)
    options: dict[str, Any] = {"threads": 3, "shuffle": True, **transforms}
    with (
        TrainingDataset(path, 2400, **options) as dense,
        TrainingDataset(path, 2400, layout="csr", **options) as csr,
    ):
        for expected, batch in zip(dense, csr, strict=True):
            x = batch["X"]
            assert len(x.indptr) < 2400 or x.data.nbytes + x.indices.nbytes > 2**22
            np.testing.assert_array_equal(x.toarray(), expected["X"])
            x.check_format(full_check=True)


@pytest.mark.parametrize("panel", [None, [1, 4, 18]])
def test_scipy_takes_the_memory_as_it_is(make_file: MakeFile, panel: list[int] | None) -> None:
    """It copies arrays that see a small part of a larger one; three parts of a buffer are that."""
    with TrainingDataset(make_file(300), 64, layout="csr", hvg_indices=panel) as dataset:
        for batch in dataset:
            x = batch["X"]
            for part in (x.data, x.indices, x.indptr):
                assert not part.flags.owndata
                assert part.flags.writeable
            assert isinstance(x.data.base.base, memoryview)


@pytest.mark.parametrize("kind", ["palette", "decimals", "raw", "negative", "int64", "empty"])
@pytest.mark.parametrize("panel", [None, [1, 4, 18]])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("log1p", [False, True])
@pytest.mark.filterwarnings("ignore:X of")
def test_stored_forms(
    make_file: MakeFile, kind: str, panel: list[int] | None, normalize: bool, log1p: bool
) -> None:
    rng = np.random.default_rng(2)
    matrix = rng.poisson(0.8, size=(40, 20)).astype(np.float64)
    if kind == "palette":
        matrix = np.array([0, 0.1234567, 2.5, 1000.0])[rng.integers(0, 4, size=(40, 20))]
    elif kind == "decimals":
        matrix = np.round(matrix * rng.random((40, 20)), 2)
    elif kind == "raw":
        matrix *= rng.random((40, 20))
    elif kind == "negative":
        matrix -= rng.poisson(0.5, size=(40, 20))
    elif kind == "empty":
        matrix[:] = 0
    dtype = np.int64 if kind == "int64" else np.float32
    path = make_file(matrix=sp.csr_matrix(matrix.astype(dtype)))
    options: dict[str, Any] = {"hvg_indices": panel, "normalize": normalize, "log1p": log1p}
    with (
        TrainingDataset(path, 16, **options) as dense,
        TrainingDataset(path, 16, layout="csr", **options) as csr,
    ):
        for expected, batch in zip(dense, csr, strict=True):
            np.testing.assert_array_equal(batch["X"].toarray(), expected["X"])


@pytest.mark.parametrize("panel", [None, [1, 2, 40, 199]])
def test_memory_is_used_again_but_never_under_a_batch(
    make_file: MakeFile, panel: list[int] | None
) -> None:
    path = make_file(500, 200, shard_size=50)
    with TrainingDataset(path, 10, layout="csr", hvg_indices=panel, seed=3) as dataset:
        addresses = [batch["X"].indptr.__array_interface__["data"][0] for batch in dataset]
        assert len(set(addresses)) < 30
        dataset.set_epoch(0)
        kept = list(dataset)
        parts = [batch["X"].indices for batch in dataset]  # a part keeps the memory too
        copies = [part.copy() for part in parts]
        list(dataset)
    gc.collect()
    for part, copy in zip(parts, copies, strict=True):
        np.testing.assert_array_equal(part, copy)
    with TrainingDataset(path, 10, hvg_indices=panel, seed=3) as dataset:
        for batch, expected in zip(kept, dataset, strict=True):
            np.testing.assert_array_equal(batch["X"].toarray(), expected["X"])


def test_pflog_is_refused(make_file: MakeFile) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        TrainingDataset(make_file(5), pflog=True, layout="csr")


def test_damage_shows_when_its_batch_is_due(make_file: MakeFile) -> None:
    import scx_core

    path = make_file(100)
    with scx_core.open(path) as experiment:
        section = next(part for part in experiment.file.sections if part.name == "X_shard_4")
    data = bytearray(path.read_bytes())
    data[section.offset + section.length // 2] ^= 0xFF
    path.write_bytes(data)
    with (
        TrainingDataset(path, 8, layout="csr", shuffle=False) as dataset,
        pytest.raises(scx_core.CorruptFileError, match="X_shard_4"),
    ):
        list(dataset)
