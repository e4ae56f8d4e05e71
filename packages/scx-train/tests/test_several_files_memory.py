"""Hundreds of files as one data set: what they take is what the budget says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_core._genes import GeneLists, join_genes
from scx_train import TrainingDataset

N_FILES = 300

MEASURE = """
import json, os, sys
import numpy, pandas, scipy.sparse
from scx_train import TrainingDataset

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:"))) / 1024

paths, options = json.loads(sys.argv[1]), json.loads(sys.argv[2])
TrainingDataset(paths[:1], 1, hvg_indices=[0]).close()
before, n_open = own(), len(os.listdir("/proc/self/fd"))
dataset = TrainingDataset(paths, 64, allow_repeated_files=True, **options)
most = own()
for batch in dataset:
    most = max(most, own())
n_more = len(os.listdir("/proc/self/fd")) - n_open
print(json.dumps([most - before, dataset.memory_budget()["estimated_mb"], n_more]))
"""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three files of 20,000 genes each, in orders of their own, again and again."""
    folder = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    made = []
    for number in range(3):
        matrix = sp.random(10, 20_000, density=0.01, format="csr", random_state=number)
        matrix.data = np.ceil(matrix.data * 5)
        names = [f"ENSG{gene:011d}.{number}" for gene in rng.permutation(20_000)]
        var = pd.DataFrame({"symbol": [f"symbol {name}" for name in names]}, index=names)
        adata = anndata.AnnData(sp.csr_matrix(matrix.astype(np.float32)), var=var)
        adata.raw = adata
        made.append(str(folder / f"{number}.scx"))
        scx_core.from_anndata(adata, made[-1])
    return (made * N_FILES)[:N_FILES]


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
@pytest.mark.parametrize(
    ("same", "options"),
    [
        (True, {}),
        (True, {"source": "raw"}),
        (False, {"genes": "union"}),
        (False, {"genes": "intersection", "layout": "csr"}),
        (True, {"genes": "union", "gene_key": "symbol", "hvg_indices": [1, 2]}),
    ],
    ids=str,
)
def test_many_files_take_little_memory(
    paths: list[str], same: bool, options: dict[str, Any]
) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MEASURE,
            json.dumps(paths[:1] * N_FILES if same else paths),
            json.dumps(options),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    used, said, n_descriptors = json.loads(done.stdout)
    assert used <= 1.15 * said + 50, (used, said)
    assert n_descriptors <= 3


def test_the_budget_counts_files_and_their_genes(paths: list[str]) -> None:
    sizes = []
    for chosen in (paths[:3], paths):
        with TrainingDataset(chosen, 1, genes="union", allow_repeated_files=True) as dataset:
            sizes.append(dataset.memory_budget()["breakdown"]["python_overhead_bytes"])
    measured = (N_FILES - 3) * 20_000
    assert measured < sizes[1] - sizes[0] < 3 * measured


def test_equal_lists_are_one_and_equal_names_too() -> None:
    lists = GeneLists()
    for genes in (["ab", "cd"], ["cd", "ab"], ["ab", "cd"]):
        lists.add(np.array(["".join(gene) for gene in genes], dtype=object))
    first, second, third = lists.of_files
    assert first is third
    assert second.tolist() == ["cd", "ab"]
    assert second[1] is first[0]
    joined = join_genes(["0", "1", "2"], lists.of_files, genes="union")
    assert [None if each is None else each.tolist() for each in joined.columns] == [
        None,
        [1, 0],
        None,
    ]
