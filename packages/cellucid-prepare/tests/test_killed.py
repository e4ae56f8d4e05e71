"""A process that is killed leaves the old output or none; the next run clears what it left."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prepare_reading import read, written
from prepare_samples import small

WRITE = """
import numpy as np, scipy.sparse as sp, pandas as pd, sys
import cellucid_prepare
n = 4000
x = sp.random(n, 500, 0.3, format="csr", random_state=0, dtype=np.float32)
cellucid_prepare.prepare(
    sys.argv[1], format=sys.argv[2], overwrite=True, embeddings={"X_umap": np.zeros((n, 2))},
    gene_expression=x, var=pd.DataFrame(index=[f"g{i}" for i in range(500)]),
    dataset_id="new", dataset_name="new", progress=False, threads=2,
)
"""


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
@pytest.mark.parametrize("container", ["h5ad", "zarr2"])
def test_killed_while_writing(container: str) -> None:
    path = written(container, **small())
    before = digest(path)
    suffix = container.rstrip("2")
    process = subprocess.Popen([sys.executable, "-c", WRITE, str(path), suffix])
    deadline = time.monotonic() + 60
    while not list(Path().glob(".out.*.tmp")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait()
    if list(Path().glob(".out.*.tmp")):
        assert digest(path) == before
    written(container, **small(), overwrite=True)
    assert digest(path) == before
    assert list(Path().glob(".out.*")) == []
    assert read(path).n_obs == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and kills")
@pytest.mark.parametrize("format", ["h5ad", "zarr", "zarr.zip"])
def test_killed_at_many_moments(format: str) -> None:
    moments = os.environ.get("CELLUCID_PREPARE_KILLS", "12")
    seed = os.environ.get("CELLUCID_PREPARE_SEED", "1")
    print(f"seed {seed}")
    script = Path(__file__).parent / "killed_writer.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), format, moments, seed],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("container", ["h5ad", "zarr2", "zip2"])
def test_what_appears_meanwhile_is_not_replaced(container: str) -> None:
    other = written(container, "other", **small())
    target = Path(f"out{''.join(other.suffixes)}")

    def appear(done: int, total: int) -> None:
        if not target.exists():
            os.rename(other, target)
            appeared.append(digest(target))

    appeared: list[str] = []
    with pytest.raises(FileExistsError, match="has appeared meanwhile: pass overwrite=True"):
        written(container, **small(), progress=appear)
    assert [digest(target)] == appeared and os.listdir() == [target.name]
    written(container, **small(), overwrite=True)


def test_one_output_has_one_writer_in_a_process() -> None:
    target = written("zarr2", **small())
    before = digest(target)
    tries: list[str] = []

    def again(done: int, total: int) -> None:
        with pytest.raises(RuntimeError, match="another call in this process is writing") as raised:
            written("zarr2", **small(), overwrite=True)
        tries.append(str(raised.value))
        assert digest(target) == before

    written("zarr2", **small(), overwrite=True, progress=again)
    assert tries and digest(target) == before and os.listdir() == [target.name]
    # whoever failed leaves the way free
    with pytest.raises(ZeroDivisionError):
        written("zarr2", **small(), overwrite=True, progress=lambda done, total: 1 // 0)
    written("zarr2", **small(), overwrite=True)


def digest(path: Path) -> str:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    content = b"".join(f.name.encode() + f.read_bytes() for f in files if f.is_file())
    return hashlib.sha256(content).hexdigest()
