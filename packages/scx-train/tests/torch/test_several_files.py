"""Several files for torch: workers share the cells of all of them."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import scx_core
from scx_train.torch import TrainingIterable


@pytest.mark.parametrize("num_workers", [0, 2])
def test_each_cell_of_all_files_comes_once(tmp_path: Path, num_workers: int) -> None:
    paths = []
    for number, genes in enumerate((["a", "b", "c"], ["c", "b", "d"])):
        matrix = sp.csr_matrix(np.full((20 + number, 3), number + 1, dtype=np.float32))
        path = tmp_path / f"{number}.scx"
        frame = pd.DataFrame(index=genes)
        scx_core.from_anndata(anndata.AnnData(matrix, var=frame), path, shard_size=4)
        paths.append(path)
    cells = TrainingIterable(paths, 6, genes="union", normalize=False, log1p=False)
    loader = torch.utils.data.DataLoader(cells, batch_size=None, num_workers=num_workers)
    batches = list(loader)
    rows = torch.cat([batch["cell_indices"] for batch in batches])
    assert sorted(rows.tolist()) == list(range(41))
    for batch in batches:
        measured = batch["measured"][batch["file_ids"].long()]
        assert torch.equal(batch["X"] > 0, measured)
        batch["measured"].fill_(True)  # each batch has its own


@pytest.mark.parametrize("form", ["folder", "pattern"])
def test_a_folder_is_what_it_was_when_the_iterable_was_built(tmp_path: Path, form: str) -> None:
    def write(name: str) -> None:
        matrix = sp.csr_matrix(np.ones((5, 3), dtype=np.float32))
        scx_core.from_anndata(anndata.AnnData(matrix), tmp_path / name)

    write("a.scx")
    write("b.scx")
    given = tmp_path if form == "folder" else tmp_path / "?.scx"
    cells = TrainingIterable(given, 2)
    write("c.scx")
    assert cells.paths == (str(tmp_path / "a.scx"), str(tmp_path / "b.scx"))
    loader = torch.utils.data.DataLoader(cells, batch_size=None, num_workers=1)
    rows = torch.cat([batch["cell_indices"] for batch in loader])
    assert sorted(rows.tolist()) == list(range(10))
