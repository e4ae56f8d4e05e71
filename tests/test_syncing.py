"""Each output is on the medium before it gets its name, and its name after that."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import cellucid_prepare
import scx_core
import scx_tokenize

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="asks /proc for the names of descriptors"
)
GENES = [f"g{number}" for number in range(6)]


class Traced:
    """The calls that bring files to the medium and under their names, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        fsync = os.fsync

        def syncing(descriptor: int) -> None:
            fsync(descriptor)
            self.order.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")

        monkeypatch.setattr(os, "fsync", syncing)
        for name in ("replace", "rename", "link"):
            monkeypatch.setattr(os, name, self.placing(getattr(os, name)))

    def placing(self, call: Callable[..., None]) -> Callable[..., None]:
        def placed(source: Any, target: Any, **options: Any) -> None:
            needed = [] if os.path.isdir(source) else [source]
            for folder, _, names in os.walk(source):
                needed += [folder, *(os.path.join(folder, name) for name in names)]
            call(source, target, **options)
            if str(target).endswith(".previous"):  # the old one, on its way out
                return
            missing = [path for path in needed if f"sync {os.path.abspath(path)}" not in self.order]
            assert not missing, f"{target} got its name before these were synced: {missing}"
            self.order.append(f"place {os.path.abspath(target)}")

        return placed

    def check(self, target: Path) -> None:
        """The target was placed, and then its folder was synced."""
        place = self.order.index(f"place {target.absolute()}")
        assert f"sync {target.parent.absolute()}" in self.order[place:]


@pytest.fixture
def adata() -> anndata.AnnData:
    counts = sp.random(20, 6, 0.5, format="csr", random_state=0, dtype=np.float32)
    counts.data = np.ceil(counts.data * 5)
    data = anndata.AnnData(counts, var=pd.DataFrame(index=GENES))
    data.obsm["X_umap"] = np.zeros((20, 2), np.float32)
    return data


@pytest.mark.parametrize("format", ["h5ad", "zarr", "zarr.zip"])
def test_prepare(
    adata: anndata.AnnData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Any
) -> None:
    target = tmp_path / f"out.{format}"
    for overwrite in (False, True):
        traced = Traced(monkeypatch)
        cellucid_prepare.prepare(
            target,
            format=format,
            data=adata,
            dataset_id="d",
            dataset_name="D",
            overwrite=overwrite,
            progress=False,
        )
        traced.check(target)
        monkeypatch.undo()


@pytest.mark.filterwarnings("ignore:.*pull_on_update.*:FutureWarning")
def test_exports(adata: anndata.AnnData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scx_core.from_anndata(adata, tmp_path / "a.scx")
    scx_core.from_mudata(mudata.MuData({"rna": adata}), tmp_path / "m.scx")
    traced = Traced(monkeypatch)
    with scx_core.open(tmp_path / "a.scx") as cells:
        cells.to_h5ad(tmp_path / "a.h5ad")
    with scx_core.open(tmp_path / "m.scx") as cells:
        cells.to_h5mu(tmp_path / "m.h5mu")
    traced.check(tmp_path / "a.h5ad")
    traced.check(tmp_path / "m.h5mu")


def test_token_jobs_and_medians(
    adata: anndata.AnnData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scx_core.from_anndata(adata, tmp_path / "a.scx")
    traced = Traced(monkeypatch)
    scx_tokenize.run("sample", tmp_path / "a.scx", tmp_path / "out", n=3, progress=False)
    scx_tokenize.medians(tmp_path / "a.scx", tmp_path / "medians.parquet", progress=False)
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            traced.check(path)
    traced.check(tmp_path / "medians.parquet")
