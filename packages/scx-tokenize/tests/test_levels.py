"""Every CPU level that this machine has gives the same bytes, whatever the number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import blake3
import numpy as np
import pytest
import scipy.sparse as sp

import scx_tokenize as tk

LEVELS = ("v2", "v3", "v4", "neon")
N_GENES = 900

# What a fresh process does: it says which level it really uses, then a digest for each result.
PROGRAM = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import scipy.sparse as sp
import test_levels
from scx_core.native.binding import native
library = native()
print(library.ffi.string(library.lib.scx_simd_level()).decode())
for path in sys.argv[2:]:
    for threads in (1, 2):
        for name, digest in test_levels.digests(sp.load_npz(path), threads).items():
            print(f"{path} {threads} {name} {digest}")
"""


def digests(batch: sp.csr_matrix, threads: int) -> dict[str, str]:
    """A hash over what each kernel gives; of slots that are specified, where some are not."""
    stats = np.random.default_rng(1).lognormal(0, 1, N_GENES)
    edges = np.array([1e-38, 1, 2, 2.5, 40, 1e7])
    panel = np.random.default_rng(2).permutation(N_GENES)[:100]
    arrays = {
        "library_size": [tk.library_size(batch, threads=threads)],
        "measured_mask": [tk.measured_mask(batch, panel, threads=threads)],
        "edges": [tk.bin_values(batch, 7, edges=edges, threads=threads)["bins"]],
    }
    top = tk.top_k(batch, 300, N_GENES, threads=threads)
    arrays["top_k"] = [top["ids"], top["values"], top["mask"], top["pad"]]
    for l_max in (40, 300):
        rank = tk.rank_tokens(batch, stats, l_max, "v1", threads=threads)
        arrays[f"rank {l_max}"] = specified(rank["ids"], rank["lengths"])
    for tie in ("left", "right", "seeded"):
        arrays[f"bins {tie}"] = [tk.bin_values(batch, 51, tie=tie, seed=5, threads=threads)["bins"]]
    for weight in ("log1p", "count"):
        drawn = tk.sample_genes(batch, 200, 3, 4, weight=weight, threads=threads)
        arrays[f"sample {weight}"] = specified(drawn["ids"], drawn["lengths"])
    for mode in ("pass_through", "log1p_raw", "normalize_log1p"):
        arrays[mode] = [tk.transform_values(batch, mode, threads=threads)]
    arrays["pflog_raw"] = [
        tk.transform_values(batch, "pflog_raw", pflog_alpha=a, n_measured=N_GENES, threads=threads)
        for a in (0.3, 3e38)
    ]
    return {
        name.replace(" ", "-"): blake3.blake3(b"".join(a.tobytes() for a in parts)).hexdigest()
        for name, parts in arrays.items()
    }


def specified(ids: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    width = len(ids) // len(lengths)
    return [ids.reshape(-1, width)[np.arange(width) < lengths[:, None]], lengths]


def run_at(level: str, paths: list[str]) -> tuple[str, dict[str, set[str]]]:
    """The level that is really used when `level` is asked for, and the digests by result."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), *paths],
        env={**os.environ, "SCX_SIMD_LEVEL": level},
        capture_output=True,
        text=True,
        check=True,
    )
    used, *lines = result.stdout.splitlines()
    found: dict[str, set[str]] = {}
    for line in lines:
        path, _, name, digest = line.rsplit(maxsplit=3)
        found.setdefault(f"{Path(path).stem} {name}", set()).add(digest)
    return used, found


@pytest.fixture
def paths(batch, tmp_path):
    written = []
    for kind in ("counts", "floats", "odd", "logged"):
        matrix = batch(200, N_GENES, kind=kind)
        sp.save_npz(tmp_path / f"{kind}.npz", matrix)
        written.append(str(tmp_path / f"{kind}.npz"))
    return written


def test_all_levels_and_threads_agree(paths):
    results = [run_at(level, paths) for level in LEVELS]
    names = results[0][1].keys()
    assert len(names) == 4 * 15
    for name in names:
        assert len(set.union(*(found[name] for _, found in results))) == 1, name
    if os.uname().machine == "x86_64":
        assert "v2" in {used for used, _ in results}  # the plainest is always there
