"""Conversions of files much larger than the memory budget stay within the budget plus 300 MB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdf5_samples import write_frame

BUDGET_MIB = 64
ALLOWED_BYTES = BUDGET_MIB * 2**20 + 300 * 10**6
N_ROWS, N_COLS, ROW_VALUES = 40_000, 2_000, 1_000

CONVERT = """
import sys, scx_core
function = getattr(scx_core, sys.argv[1])
function(*sys.argv[2:4], memory_budget=sys.argv[4], progress=False, codec=sys.argv[5])
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)


def peak_bytes(function: str, source: Path, out: Path, codec: str = "auto") -> int:
    budget = f"{BUDGET_MIB}MiB"
    command = [sys.executable, "-c", CONVERT, function, str(source), str(out), budget, codec]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(result.stdout) * 1024


def fill_compressed(group: h5py.Group, layout: str, **options: Any) -> None:
    """A matrix of 320 MB, written piece by piece: every row has the same columns."""
    n_majors, n_minors = (N_ROWS, N_COLS) if layout == "csr" else (N_COLS, N_ROWS)
    n_values = N_ROWS * ROW_VALUES
    per_major = n_values // n_majors
    group.attrs["encoding-type"] = f"{layout}_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = (N_ROWS, N_COLS)
    indptr = np.arange(0, n_values + 1, per_major, dtype=np.int64)
    group.create_dataset("indptr", data=indptr)
    step = 50
    minors = np.tile(np.arange(0, n_minors, n_minors // per_major)[:per_major], step)
    values = np.tile(np.arange(1, 51, dtype=np.float32), per_major * step // 50)
    data = group.create_dataset("data", (n_values,), np.float32, **options)
    indices = group.create_dataset("indices", (n_values,), np.int32, **options)
    for start in range(0, n_values, len(values)):
        data[start : start + len(values)] = values
        indices[start : start + len(minors)] = minors


def write_large(path: Path, layout: str, **options: Any) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file.attrs["encoding-version"] = "0.1.0"
        write_frame(file, "obs", [str(i) for i in range(N_ROWS)])
        write_frame(file, "var", [str(j) for j in range(N_COLS)])
        if layout != "dense":
            fill_compressed(file.create_group("X"), layout, **options)
            return
        matrix = file.create_dataset("X", (N_ROWS, N_COLS), np.float32, **options)
        block = (np.arange(1000 * N_COLS).reshape(1000, N_COLS) % 3 == 0).astype(np.float32)
        for start in range(0, N_ROWS, 1000):
            matrix[start : start + 1000] = block


@pytest.mark.parametrize(
    ("layout", "options"),
    [
        ("csr", {}),
        ("csc", {}),
        ("dense", {}),
        ("csr", {"compression": "gzip", "compression_opts": 1}),
    ],
)
def test_h5ad(tmp_path: Path, layout: str, options: dict[str, Any]) -> None:
    source = tmp_path / "a.h5ad"
    write_large(source, layout, **options)
    if not options:
        assert source.stat().st_size > 4 * BUDGET_MIB * 2**20
    assert peak_bytes("from_h5ad", source, tmp_path / "a.scx") < ALLOWED_BYTES


def test_h5ad_without_a_codec(tmp_path: Path) -> None:
    # one shard takes more than what is allowed
    source = tmp_path / "a.h5ad"
    write_large(source, "csr")
    out = tmp_path / "a.scx"
    assert peak_bytes("from_h5ad", source, out, codec="none") < ALLOWED_BYTES
    assert out.stat().st_size > N_ROWS * ROW_VALUES * 6


def test_mtx(tmp_path: Path) -> None:
    n_cells, n_genes, row_values = 10_000, 2_000, 400
    genes = np.arange(1, n_genes, n_genes // row_values)[:row_values]
    with (tmp_path / "matrix.mtx").open("w") as file:
        file.write("%%MatrixMarket matrix coordinate integer general\n")
        file.write(f"{n_genes} {n_cells} {n_cells * row_values}\n")
        # by genes, so that the cells must be sorted
        for gene in genes:
            file.write("".join(f"{gene} {cell} 123456\n" for cell in range(1, n_cells + 1)))
    (tmp_path / "genes.tsv").write_text("".join(f"E{j}\tS{j}\n" for j in range(n_genes)))
    (tmp_path / "barcodes.tsv").write_text("".join(f"C{i}\n" for i in range(n_cells)))
    assert peak_bytes("from_mtx", tmp_path, tmp_path / "a.scx") < ALLOWED_BYTES
