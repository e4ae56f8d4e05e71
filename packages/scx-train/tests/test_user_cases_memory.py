"""What users have met with memory and processes, in the numbers they met it with.

That no sequence of epochs leaks memory, threads or open files stands in test_lifecycle.py, what the
parts of a budget are in test_memory.py, and what workers take together in
torch/test_user_cases_workers.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import scx_core
from scx_core import CorruptFileError
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]
MB = 2**20

EPOCH = """
    import json, os, resource, sys
    from pathlib import Path
    from scx_train import TrainingDataset

    path, added_mb = sys.argv[1], int(sys.argv[2])
    options = {"batch_size": 32, "threads": 1, "normalize": False, "log1p": False}
    with TrainingDataset(path, 8, hvg_indices=[0], threads=1) as first:
        next(iter(first))
    if added_mb:
        status = Path("/proc/self/status").read_text()
        data = next(int(line.split()[1]) for line in status.splitlines() if "VmData" in line)
        limit = data * 1024 + added_mb * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    seen = 0
    with TrainingDataset(path, **options) as dataset:
        for _ in range(2):
            seen += sum(len(batch["cell_indices"]) for batch in dataset)
        budget = dataset.memory_budget()
    print(json.dumps([seen, dataset.n_obs, budget]))
"""


def epochs(prefix: list[str], path: Path, *, added_mb: int) -> None:
    """Two epochs in a process of its own; checks that they were whole."""
    result = subprocess.run(
        [*prefix, sys.executable, "-c", textwrap.dedent(EPOCH), str(path), str(added_mb)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    seen, n_obs, budget = json.loads(result.stdout)
    assert seen == 2 * n_obs
    # the map has a line of its own and is in no other
    assert budget["mmap_mb"] == path.stat().st_size / MB
    assert budget["estimated_mb"] == budget["breakdown"]["total_bytes"] / MB
    assert budget["estimated_mb"] < budget["mmap_mb"] / 2


@pytest.mark.skipif(sys.platform != "linux", reason="limits the data of a process as Linux does")
def test_a_file_larger_than_what_the_process_may_allocate(large_file: Path) -> None:
    limit_mb = 40
    assert large_file.stat().st_size > 50 * MB
    epochs([], large_file, added_mb=limit_mb)


@pytest.fixture
def small_group() -> Iterator[list[str]]:
    """A command that runs another one in a group of processes that may have 128 MB of memory.

    That counts the pages of files too, so that the kernel has to take some of them away.
    """
    # What such a group adds to the test before this one, which limits what a process may allocate:
    # there the pages of the file count too, and have to be taken away while they are read.
    without = (
        "; that an epoch allocates less than the file has is shown without one, by "
        "test_a_file_larger_than_what_the_process_may_allocate"
    )
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemd-run") is None:
        pytest.skip("no systemd here to make a group of limited memory" + without)
    scope = ["--scope", "--quiet", "-p", "MemoryMax=128M", "-p", "MemorySwapMax=0"]
    for command in (["systemd-run", "--user"], ["sudo", "-n", "systemd-run"]):
        if shutil.which(command[0]) is None:
            continue
        prefix = [*command, *scope]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            yield prefix
            return
    pytest.skip("systemd makes no group of limited memory for this user" + without)


def test_a_file_larger_than_the_memory_of_its_group(small_group: list[str], tmp_path: Path) -> None:
    import anndata
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    matrix = sp.csr_matrix(1 + rng.random((12_000, 2_000), dtype=np.float32))
    path = tmp_path / "large.scx"
    scx_core.from_anndata(anndata.AnnData(matrix), path, shard_size=500, codec="none")
    assert path.stat().st_size > 128 * MB
    epochs([*small_group, "env", "OPENBLAS_NUM_THREADS=1"], path, added_mb=0)


def test_a_writer_replaces_the_file_of_a_running_epoch(make_file: MakeFile) -> None:
    before = np.full((64, 5), 3, dtype=np.float32)
    path = make_file(matrix=before, shard_size=8)
    other = make_file(matrix=before + 1, shard_size=8, name="other.scx")
    with TrainingDataset(path, 8, normalize=False, log1p=False) as dataset:
        batches = iter(dataset)
        next(batches)
        os.replace(other, path)
        rest = list(batches)
        assert len(rest) == 7
        assert all((batch["X"] == 3).all() for batch in rest)  # the old content, to the end
        assert all((batch["X"] == 3).all() for batch in dataset)
    with TrainingDataset(path, 8, normalize=False, log1p=False) as dataset:
        assert all((batch["X"] == 4).all() for batch in dataset)


def test_a_file_cut_by_4_kb_is_refused_at_once(make_file: MakeFile) -> None:
    path = make_file(500, 100)
    size = path.stat().st_size
    assert size > 8192
    os.truncate(path, size - 4096)
    with pytest.raises(CorruptFileError, match=path.name):
        TrainingDataset(path)
