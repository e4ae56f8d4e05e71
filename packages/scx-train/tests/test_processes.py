"""Forked, spawned and interrupted: it works, or says what to do, and never hangs."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from scx_train import TrainingDataset

MakeFile = Callable[..., Path]

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


IN_CHILD = """
    import os, sys
    from scx_train import TrainingDataset

    def in_child(action):
        child = os.fork()
        if child == 0:
            try:
                action()
            except BaseException as error:
                print(type(error).__name__, error, flush=True)
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
"""


@needs_fork
@pytest.mark.parametrize("moment", ["built", "streamed", "streaming"])
def test_a_forked_child_is_told_what_to_do(make_file: MakeFile, moment: str) -> None:
    result = run_python(
        IN_CHILD
        + """
    path, moment = sys.argv[1:]
    dataset = TrainingDataset(path, 8, threads=2)
    if moment == "streamed":
        list(dataset)
    iterator = iter(dataset) if moment == "streaming" else None
    if iterator is not None:
        next(iterator)
    assert in_child(lambda: iter(dataset)) == 1
    if iterator is not None:
        assert in_child(lambda: next(iterator)) == 1
    # properties, repr and close work, dropping everything too
    def touch():
        global dataset, iterator
        assert dataset.n_obs == 101 and not dataset.closed and repr(dataset)
        dataset.close()
        dataset = iterator = None
    assert in_child(touch) == 0
    # and the parent goes on
    if iterator is not None:
        assert len(list(iterator)) == 12
    assert len(list(dataset)) == 13
        """,
        make_file(101),
        moment,
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines
    for line in lines:
        assert line.startswith("RuntimeError")
        assert "num_workers=0" in line
        assert "build the data set inside the worker" in line


@needs_fork
def test_a_child_builds_its_own_after_the_parent_streamed(make_file: MakeFile) -> None:
    result = run_python(
        IN_CHILD
        + """
    path = sys.argv[1]
    dataset = TrainingDataset(path, 8)
    first = [batch["cell_indices"].tolist() for batch in dataset]
    iterator = iter(dataset)
    batch = next(iterator)
    def own():
        with TrainingDataset(path, 8) as mine:
            assert [batch["cell_indices"].tolist() for batch in mine] == first
        assert batch["X"].shape == (8, 30)  # the parent's batch can still be read
    for _ in range(5):
        assert in_child(own) == 0
        """,
        make_file(101),
    )
    assert result.returncode == 0, result.stdout + result.stderr


WORKERS = """
    import multiprocessing, sys
    from scx_train import TrainingDataset

    def rows(dataset):
        return sorted(int(row) for batch in dataset for row in batch["cell_indices"])

    def build(path, results):
        with TrainingDataset(path, 8) as dataset:
            results.put(rows(dataset))

    def use(dataset, results):
        try:
            results.put(rows(dataset))
        except RuntimeError as error:
            results.put(str(error))

    def run(context, target, argument, count):
        results = context.Queue()
        workers = [
            context.Process(target=target, args=(argument, results)) for _ in range(count)
        ]
        for worker in workers:
            worker.start()
        found = [results.get(timeout=100) for _ in workers]
        for worker in workers:
            worker.join(100)
            assert worker.exitcode == 0
        return found

    if __name__ == "__main__":
        path, method = sys.argv[1:]
        context = multiprocessing.get_context(method)
        everything = list(range(101))
        dataset = TrainingDataset(path, 8)
        assert rows(dataset) == everything
        for count in (1, 2):
            assert run(context, build, path, count) == [everything] * count
        if method == "fork":
            for message in run(context, use, dataset, 2):
                assert "num_workers=0" in message, message
        else:
            try:
                run(context, use, dataset, 1)
            except RuntimeError as error:
                assert "num_workers=0" in str(error)
            else:
                raise AssertionError("the data set was sent")
        assert rows(dataset) == everything
        print("done")
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_kind(make_file: MakeFile, tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    script = tmp_path / "workers.py"
    script.write_text(textwrap.dedent(WORKERS), encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(make_file(101)), method],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stderr


def test_sending_a_data_set_to_another_process_says_what_to_do(make_file: MakeFile) -> None:
    with TrainingDataset(make_file(5)) as dataset:
        for send in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(RuntimeError, match="num_workers=0"):
                send(dataset)


INTERRUPTED = """
    import sys, time
    from scx_core.native import pipeline as _pipeline
    from scx_train import TrainingDataset

    dataset = TrainingDataset(sys.argv[1], 8)
    iterator = iter(dataset)
    next(iterator)
    native = _pipeline.native()

    class NeverReady:
        def __getattr__(self, name):
            return getattr(native.lib, name)

        def scx_pipeline_wait(self, pipeline, timeout_ms, batch, error):
            print("waiting", flush=True)
            time.sleep(timeout_ms / 1000)
            return 12  # SCX_TIMEOUT

    _pipeline.native = lambda: type(native)(native.ffi, NeverReady(), native.path)
    try:
        next(iterator)
    except KeyboardInterrupt:
        _pipeline.native = lambda: native
        assert list(iterator) == []
        assert len(list(dataset)) == 13
        print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_a_wait_and_the_data_set_stays_usable(make_file: MakeFile) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(make_file(101))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "interrupted"


def test_the_wait_of_the_library_is_short() -> None:
    from scx_core.native import pipeline as _pipeline

    assert _pipeline.WAIT_MS <= 100


def test_leaving_the_interpreter_in_the_middle_of_an_epoch(make_file: MakeFile) -> None:
    result = run_python(
        """
    import sys
    from scx_train import TrainingDataset
    dataset = TrainingDataset(sys.argv[1], 8)
    iterator = iter(dataset)
    batch = next(iterator)
    dataset.kept, iterator.kept = iterator, dataset
        """,
        make_file(101),
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_finalizer_closes_before_the_interpreter_ends(make_file: MakeFile) -> None:
    result = run_python(
        """
    import sys, weakref
    from scx_train import TrainingDataset
    dataset = TrainingDataset(sys.argv[1], 8)
    weakref.finalize(dataset, print, "closed:", dataset.closed)  # the last one runs first
    weakref.finalize(dataset, lambda kept: print("closed:", kept.closed), dataset)
    weakref.finalize(dataset, dataset.close)
    iterator = iter(dataset)
    next(iterator)
        """,
        make_file(101),
    )
    expected = "closed: True\nclosed: False\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, expected, "")


def test_import_is_light() -> None:
    result = run_python(
        """
    import sys
    import scx_train
    heavy = {"pandas", "pyarrow", "anndata", "torch", "h5py", "scipy", "lightning"}
    print(sorted(heavy & set(sys.modules)))
        """
    )
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr
