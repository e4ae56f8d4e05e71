"""Files that are cut or overwritten in place while they are open: errors, and no crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anndata
import numpy as np
import pytest
import scipy.sparse as sp

import scx_core
from scx_core._errors import FileBusyError
from scx_core._section_names import SectionType
from scx_core.native.container import FileReader
from scx_core.native.matrix import Matrix
from scx_core.native.members import Member
from scx_core.native.pipeline import DensePipeline

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows lets nobody cut a mapped file")

N_OBS, N_VARS = 3000, 200
MESSAGE = "was cut or overwritten while it was read"


def counts(seed: int) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    return sp.csr_matrix(rng.poisson(1.0, (N_OBS, N_VARS)).astype(np.float32))


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Two files of the same shape with other values."""
    folder = tmp_path_factory.mktemp("originals")
    contents = []
    for seed in (0, 1):
        adata = anndata.AnnData(counts(seed), uns={"seed": seed})
        adata.obs["number"] = np.arange(N_OBS) + seed
        scx_core.from_anndata(adata, folder / f"{seed}.scx", shard_size=500)
        contents.append((folder / f"{seed}.scx").read_bytes())
    return contents[0], contents[1]


@pytest.fixture
def path(tmp_path: Path, originals: tuple[bytes, bytes]) -> Path:
    path = tmp_path / "a.scx"
    path.write_bytes(originals[0])
    return path


def cut_to_nothing(path: Path, other: bytes) -> None:
    os.truncate(path, 0)


def cut_to_half(path: Path, other: bytes) -> None:
    os.truncate(path, len(other) // 2)


def copy_over(path: Path, other: bytes) -> None:
    path.write_bytes(other)  # as cp does: cuts the file, and writes into it


def copy_slowly(path: Path, other: bytes) -> None:
    """Caught in the middle."""
    path.write_bytes(other[: len(other) // 3])


WAYS = [cut_to_nothing, cut_to_half, copy_over, copy_slowly]
Way = Callable[[Path, bytes], None]
every_way = pytest.mark.parametrize("overwrite", WAYS)


def hide(path: Path) -> Path:
    """Rename a file, so that whoever has it open cannot look at its size and time."""
    return path.rename(path.with_name("hidden.scx"))


@every_way
def test_rows_and_tables(path: Path, originals: tuple[bytes, bytes], overwrite: Way) -> None:
    experiment = scx_core.open(path)
    np.testing.assert_array_equal(experiment.X[:5].toarray(), counts(0)[:5].toarray())
    overwrite(path, originals[1])
    for read in (
        lambda: experiment.X[:],
        lambda: experiment.X[[7]],
        lambda: experiment.gather_rows([2999, 1]),
        lambda: experiment.obs,
        lambda: experiment.uns,
        lambda: experiment.obs_column("number"),
        lambda: experiment.var_names,
    ):
        with pytest.raises(FileBusyError, match=MESSAGE):
            read()
    if overwrite is copy_over:
        with scx_core.open(path) as again:
            np.testing.assert_array_equal(again.X[:].toarray(), counts(1).toarray())


@pytest.mark.parametrize("overwrite", [cut_to_nothing, cut_to_half])
def test_pages_that_are_gone(path: Path, originals: tuple[bytes, bytes], overwrite: Way) -> None:
    """Nothing is seen of the change but the pages themselves; by several threads of the user's."""
    experiment = scx_core.open(path)
    view = experiment.X
    overwrite(hide(path), originals[1])
    failures: list[BaseException] = []

    def gather() -> None:
        try:
            view[:]
        except FileBusyError as error:
            failures.append(error)

    threads = [threading.Thread(target=gather) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 4
    assert all(MESSAGE in str(error) for error in failures)


@pytest.mark.parametrize("hidden", [False, True])
@every_way
def test_batches(
    path: Path,
    originals: tuple[bytes, bytes],
    overwrite: Way,
    hidden: bool,
) -> None:
    wanted = counts(0).toarray()
    with FileReader(path) as reader:
        matrix = Matrix(reader, section_type=SectionType.CSR_SHARD, name="X")
        rows = np.arange(N_OBS).reshape(10, -1)
        with DensePipeline(
            [Member.whole(matrix, path=str(path))], batches=8, threads=2
        ) as pipeline:
            pipeline.submit(rows[0])
            np.testing.assert_array_equal(pipeline.wait(), wanted[rows[0]])
            pipeline.submit(rows[1])
            if hidden and overwrite in (cut_to_nothing, cut_to_half):
                overwrite(hide(path), originals[1])
            else:
                overwrite(path, originals[1])
            n_failed = 0
            for part in rows[2:]:
                try:
                    pipeline.submit(part)
                    batch = pipeline.wait()
                except FileBusyError:
                    n_failed += 1
                else:
                    # the batch before; what came is right
                    assert any(np.array_equal(batch, wanted[one]) for one in rows)
            assert n_failed > 0


def test_a_view_of_a_section_reads_zeros_and_tells(path: Path) -> None:
    reader = FileReader(path)
    section = next(section for section in reader.sections if section.name == "obs")
    view = reader.section_bytes(section.index)
    before = bytes(view)
    reader.expect_unchanged()
    os.truncate(hide(path), 0)
    after = bytes(view)
    assert len(after) == len(before)
    assert after.count(0) == len(after)
    with pytest.raises(FileBusyError, match=MESSAGE):
        reader.expect_unchanged()


def test_what_leaves_the_content_alone_is_no_change(
    path: Path, originals: tuple[bytes, bytes], tmp_path: Path
) -> None:
    experiment = scx_core.open(path)
    wanted = counts(0)[[3, 8]].toarray()
    scx_core.mark_deleted(path, [8])  # appends
    np.testing.assert_array_equal(experiment.X[[3, 8]].toarray(), wanted)
    os.utime(path)
    np.testing.assert_array_equal(experiment.X[[3, 8]].toarray(), wanted)
    other = tmp_path / "b.scx"
    other.write_bytes(originals[1])
    other.replace(path)  # another file in its place
    np.testing.assert_array_equal(experiment.X[[3, 8]].toarray(), wanted)
    path.unlink()
    np.testing.assert_array_equal(experiment.X[[3, 8]].toarray(), wanted)


# ---- what may end the process: in one of its own ----

PROGRAM = """
import faulthandler, mmap, os, signal, sys, warnings
warnings.simplefilter("ignore")
import scx_core
from scx_core._errors import FileBusyError

path, plain, steps = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
experiment = None
view = None
for step in steps:
    if step == "faulthandler":
        faulthandler.enable()
    elif step == "handler":
        signal.signal(signal.SIGBUS, lambda *_: print("called", flush=True))
    elif step == "open":
        experiment = scx_core.open(path)
        view = experiment.file.section_bytes(0)
        experiment.X[:3]
    elif step == "read":
        experiment.X[:3]
    elif step == "fork":
        child = os.fork()
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    elif step == "cut":
        os.rename(path, path + ".hidden")
        os.truncate(path + ".hidden", 0)
    elif step == "fails":
        try:
            experiment.X[:]
        except FileBusyError:
            print("refused", flush=True)
    elif step == "touch":
        print(sum(view), flush=True)
    elif step == "kill":
        os.kill(os.getpid(), signal.SIGBUS)
        for _ in range(1000): pass  # the interpreter calls Python's handlers between steps
    elif step == "foreign":
        with open(plain, "r+b") as file:
            file.truncate(1 << 16)
            mapped = mmap.mmap(file.fileno(), 1 << 16)
            file.truncate(0)
        mapped[5000]
print("end", flush=True)
"""


def run(path: Path, steps: str) -> subprocess.CompletedProcess[str]:
    plain = path.with_name("plain")
    plain.write_bytes(b"x")
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(plain), steps],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("steps", "printed"),
    [
        ("open,cut,fails,touch", "refused 0 end"),
        ("open,fork,cut,touch", "0 end"),
        ("faulthandler,open,cut,fails", "refused end"),
        # once anything was read, ours is in front again
        ("open,faulthandler,read,cut,fails", "refused end"),
        ("open,faulthandler,read,faulthandler,read,cut,fails,touch", "refused 0 end"),
        ("handler,open,kill,cut,fails", "called refused end"),
    ],
)
def test_a_cut_file_does_not_end_the_process(path: Path, steps: str, printed: str) -> None:
    result = run(path, steps)
    assert result.stdout.split() == printed.split(), result.stderr
    assert result.returncode == 0
    assert "Bus error" not in result.stderr


@pytest.mark.parametrize(
    ("steps", "n_reports"),
    [
        ("open,foreign", 0),
        ("open,kill", 0),
        ("faulthandler,open,foreign", 1),
        ("faulthandler,open,cut,fails,foreign", 1),
        ("faulthandler,open,kill", 1),
        ("open,faulthandler,foreign", 1),
        ("open,faulthandler,read,foreign", 1),
        ("open,faulthandler,read,kill", 1),
    ],
)
def test_other_bus_errors_go_where_they_went_before(path: Path, steps: str, n_reports: int) -> None:
    result = run(path, steps)
    assert result.returncode == -signal.SIGBUS, result.stderr
    assert result.stderr.count("Bus error") == n_reports
    assert "end" not in result.stdout
