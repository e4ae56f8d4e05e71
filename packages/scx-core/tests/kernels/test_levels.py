"""Every CPU level that this machine has gives the same bytes, and those are scipy's values."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernel_samples import N_ROWS, open_matrix, samples

LEVELS = ("v2", "v3", "v4", "neon")


def digest_of_everything(folder: Path) -> str:
    """A hash over CSR, dense and file bytes of all samples."""
    total = hashlib.sha256()
    rows = np.random.default_rng(5).integers(0, N_ROWS, 300)
    for name, matrix in samples(np.random.default_rng(4)).items():
        for codec in ("rowpack", "none"):
            path = folder / f"{name}.scx"
            stored = open_matrix(path, matrix, codec)
            total.update(path.read_bytes())
            for array in stored.gather_csr(rows):
                total.update(array.tobytes())
            for log1p in (False, True):
                dense = stored.gather_dense(rows, normalize=True, log1p=log1p)
                total.update(dense.tobytes())
            stored.close()
    return total.hexdigest()


def run_at(level: str, folder: Path) -> tuple[str, str]:
    """The level that a fresh process really uses when `level` is asked for, and its digest."""
    code = (
        f"import sys, warnings; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "warnings.simplefilter('ignore')\n"
        "from pathlib import Path\n"
        "import test_levels\n"
        "from scx_core.native.binding import native\n"
        "library = native()\n"
        "used = library.ffi.string(library.lib.scx_simd_level()).decode()\n"
        f"print(used, test_levels.digest_of_everything(Path({str(folder)!r})))\n"
    )
    environment = {**os.environ, "SCX_SIMD_LEVEL": level}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    used, digest = result.stdout.split()
    return used, digest


def test_all_levels_agree(tmp_path):
    results = [run_at(level, tmp_path) for level in LEVELS]
    used = {level for level, _ in results}
    assert len({digest for _, digest in results}) == 1, results
    if os.uname().machine == "x86_64":
        assert "v2" in used  # the plainest is always there and can be forced


@pytest.mark.parametrize("codec", ["rowpack", "none"])
def test_csr_is_what_went_in(tmp_path, codec):
    rows = np.random.default_rng(6).integers(0, N_ROWS, 500)
    for matrix in samples(np.random.default_rng(4)).values():
        stored = open_matrix(tmp_path / "x.scx", matrix, codec)
        indptr, indices, values = stored.gather_csr(rows)
        want = matrix[rows]
        np.testing.assert_array_equal(indptr, want.indptr)
        np.testing.assert_array_equal(indices, want.indices)
        assert values.dtype == want.dtype
        assert values.tobytes() == want.data.tobytes()  # bit for bit, NaN and -0.0 too
        stored.close()


def test_totals(tmp_path):
    rows = np.arange(N_ROWS)
    for codec in ("rowpack", "none"):
        for name in ("counts", "log_normalised", "int64_wide"):
            matrix = samples(np.random.default_rng(4))[name]
            stored = open_matrix(tmp_path / "x.scx", matrix, codec)
            want = np.asarray(matrix.astype(np.float64).sum(1)).ravel()
            np.testing.assert_allclose(stored.row_totals(rows), want, rtol=1e-12)
            stored.close()
