"""Situations that users of tokenisers have reported, through whole jobs and through the kernels.

Genes that are not known, keys that are missing and inputs that match nothing are in test_inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from job_samples import IDS, cells, read_tokens, shard_bytes, written

import scx_tokenize as tk

ROWS = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 7, 0, 0, 0],
        [2, 2, 2, 2, 2, 2],
        [0, 0, 0, 0, 0, 0],
        [-4, 0, 3, 1, 0, 0],
        [np.nan, 5, 0, 0, 6, 0],
        [1, 2, 3, 4, 5, 6],
        [0, 0, 0, 0, 0, 0],
    ],
    dtype=np.float32,
)
KERNELS: list[tuple[Any, dict[str, Any]]] = [
    ("rank", {"gene_medians": dict.fromkeys(IDS[:6], 1.0)}),
    ("bin", {"n_bins": 5, "tie": "seeded", "seed": 4}),
    ("sample", {"n": 40, "seed": 4}),
]


def file_of(rows: np.ndarray, path: Path) -> Path:
    names = pd.DataFrame(index=[f"c{number}" for number in range(len(rows))])
    genes = pd.DataFrame(index=IDS[: rows.shape[1]])
    return written(anndata.AnnData(sp.csr_matrix(rows), obs=names, var=genes), path)


def tokens(kernel: Any, path: Path, out: Path, **options: Any) -> list[list[int]]:
    tk.run(kernel, path, out, **options)
    return [ids.tolist() for ids in read_tokens(out)["input_ids"]]


@pytest.mark.filterwarnings("ignore:.*NaN:UserWarning")
@pytest.mark.parametrize("suffix", [".scx", ".h5ad"])
def test_empty_rows_single_genes_equal_values_negatives_and_nan(
    tmp_path: Path, suffix: str
) -> None:
    path = file_of(ROWS, tmp_path / f"a{suffix}")
    ranked = tokens("rank", path, tmp_path / "rank", **KERNELS[0][1])
    assert ranked == [[], [2], [0, 1, 2, 3, 4, 5], [], [2, 3], [4, 1], [5, 4, 3, 2, 1, 0], []]
    binned = tokens("bin", path, tmp_path / "bin", **KERNELS[1][1])
    assert binned == [[], [2], [0, 1, 2, 3, 4, 5], [], [2, 3], [1, 4], [0, 1, 2, 3, 4, 5], []]
    values = read_tokens(tmp_path / "bin")["values"]
    assert all(1 <= one <= 4 for row in values for one in row)
    drawn = tokens("sample", path, tmp_path / "sample", **KERNELS[2][1])
    assert [set(row) for row in drawn] == [
        set(), {2}, {0, 1, 2, 3, 4, 5}, set(), {2, 3}, {1, 4}, {0, 1, 2, 3, 4, 5}, set(),
    ]  # fmt: skip


@pytest.mark.parametrize(("kernel", "options"), KERNELS)
def test_rows_together_in_parts_and_reversed_have_the_same_tokens(
    tmp_path: Path, kernel: Any, options: dict[str, Any]
) -> None:
    rows = cells(100).X.toarray()[:, :6]
    path = file_of(rows, tmp_path / "a.scx")
    whole = tokens(kernel, path, tmp_path / "whole", shard_rows=100, **options)
    parts = tokens(kernel, path, tmp_path / "parts", shard_rows=25, **options)
    assert whole == parts
    if kernel == "rank":
        return
    # the kernel, with the rows' numbers, on reversed rows
    matrix = sp.csr_matrix(rows[::-1])
    identity = tk.run(kernel, path, tmp_path / "whole", shard_rows=100, **options)
    numbers = {
        "file_identity": identity["inputs"][0]["draw_identity"],
        "rows": np.arange(100)[::-1],
    }
    if kernel == "bin":
        found = tk.bin_values(matrix, **options, **numbers)["bins"]
        cut = np.split(found, matrix.indptr[1:-1])[::-1]
        values = read_tokens(tmp_path / "whole")["values"]
        assert [row.tolist() for row in cut] == [row.tolist() for row in values]
    else:
        drawn = tk.sample_genes(matrix, **options, **numbers)
        lists = drawn["ids"].reshape(100, -1)[::-1]
        lengths = drawn["lengths"][::-1]
        assert [row[:n].tolist() for row, n in zip(lists, lengths, strict=True)] == whole


def test_rows_with_fewer_exactly_and_more_than_k_genes() -> None:
    rows = sp.csr_matrix(np.array([[0, 5, 1, 0, 0], [3, 0, 2, 4, 0], [1, 2, 3, 4, 5]], np.float32))
    top = tk.top_k(rows, k=3, n_genes_total=5)
    ids, values, mask, pad = (top[name].reshape(3, 3) for name in ("ids", "values", "mask", "pad"))
    assert ids.tolist() == [[1, 2, tk.pad_id(5)], [3, 0, 2], [4, 3, 2]]
    assert values.tolist() == [[5, 1, 0], [4, 3, 2], [5, 4, 3]]
    assert not mask.any()
    assert pad.tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert min(tk.pad_id(5), tk.gene_mask_id(5)) >= 5


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_equal_and_nearly_equal_ratios_have_a_fixed_order(tmp_path: Path, threads: int) -> None:
    near = np.float32(3.0)
    # 6 / 3 and 2 / 1 are equal; 2 / nextafter(1) and 2 / 1 differ in float32; medians that
    # differ beyond float32 are the same
    medians = {
        IDS[0]: 1.0,
        IDS[1]: float(near),
        IDS[2]: float(np.nextafter(np.float32(1), np.float32(2))),
        IDS[3]: 1.0 + 1e-12,
        IDS[4]: 0.5,
        IDS[5]: 2.0,
    }
    rows = np.tile(np.array([[2, 6, 2, 2, 1, 4]], np.float32), (300, 1))
    path = file_of(rows, tmp_path / "a.scx")
    made = tokens("rank", path, tmp_path / "out", gene_medians=medians, threads=threads)
    assert made == [[0, 1, 3, 4, 5, 2]] * 300


def test_thread_counts_give_the_same_files(tmp_path: Path) -> None:
    path = written(cells(120), tmp_path / "a.scx")
    for kernel, options in (KERNELS[1], KERNELS[2]):
        for threads in (1, 3):
            out = tmp_path / f"{kernel}{threads}"
            tk.run(kernel, path, out, threads=threads, shard_rows=50, **options)
        assert shard_bytes(tmp_path / f"{kernel}1") == shard_bytes(tmp_path / f"{kernel}3")
