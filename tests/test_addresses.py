"""Whatever takes a path says of an address, and of an object in memory, that it is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest

import cellucid_prepare
import scx_core
import scx_tokenize
import scx_train

ADDRESS = "s3://bucket/cells.scx"
Call = Callable[[Any], object]


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scx_core.from_anndata(sample(), "x.scx")
    sample().write_h5ad("x.h5ad")


def sample() -> anndata.AnnData:
    return anndata.AnnData(np.eye(4, 3, dtype=np.float32))


READERS: dict[str, Call] = {
    "open": scx_core.open,
    "read": scx_core.read,
    "mark_deleted": lambda path: scx_core.mark_deleted(path, [0]),
    "compact": lambda path: scx_core.compact(path, "y.scx"),
    "from_h5ad": lambda path: scx_core.from_h5ad(path, "y.scx"),
    "from_h5mu": lambda path: scx_core.from_h5mu(path, "y.scx"),
    "from_10x": lambda path: scx_core.from_10x(path, "y.scx"),
    "from_mtx": lambda path: scx_core.from_mtx(path, "y.scx"),
    "TrainingDataset": scx_train.TrainingDataset,
    "TrainingDataset of a list": lambda path: scx_train.TrainingDataset([path]),
    "MultimodalTrainingDataset": scx_train.MultimodalTrainingDataset,
    "IndexPlanDataset": scx_train.IndexPlanDataset,
    "SparseCellSetDataset": lambda path: scx_train.SparseCellSetDataset([path]),
    "split": lambda path: scx_train.split(path, [0.5, 0.5]),
    "run": lambda path: scx_tokenize.run("bin", path, "out", n_bins=3),
    "token_dictionary": lambda path: scx_tokenize.run(
        "sample", "x.scx", "out", n=2, token_dictionary=path
    ),
    "medians": scx_tokenize.medians,
    "check": cellucid_prepare.check,
}
WRITERS: dict[str, Call] = {
    "write": lambda path: scx_core.write(sample(), path),
    "compact": lambda path: scx_core.compact("x.scx", path),
    "from_h5ad": lambda path: scx_core.from_h5ad("x.h5ad", path),
    "to_h5ad": lambda path: scx_core.open("x.scx").to_h5ad(path),
    "temporary_folder": lambda path: scx_core.from_h5ad("x.h5ad", "y.scx", temporary_folder=path),
    "run": lambda path: scx_tokenize.run("bin", "x.scx", path, n_bins=3),
    "medians": lambda path: scx_tokenize.medians("x.scx", path),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("address", [ADDRESS, Path(ADDRESS)])
def test_addresses_are_not_read(name: str, address: str | Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{address} is an address: download it"):
        READERS[name](address)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.h5ad", "x.scx"]


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("address", [ADDRESS, Path(ADDRESS)])
def test_addresses_are_not_written_to(name: str, address: str | Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{address} is an address: write to this machine"):
        WRITERS[name](address)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.h5ad", "x.scx"]


@pytest.mark.parametrize("name", [name for name in READERS if name != "token_dictionary"])
def test_objects_in_memory_are_no_paths(name: str) -> None:
    with pytest.raises(TypeError, match=r"AnnData"):
        READERS[name](sample())
