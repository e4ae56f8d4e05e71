"""Whatever stops a conversion, the target is either the old file or the whole new one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import scx_core
from scx_core.sources.base import CsrBlock, DenseBlock, ExperimentContent, ModalityContent
from scx_core.writing import write_experiment
from scx_core.writing._read_ahead import OneAhead

N_ROWS = 100


class FailingSource:
    """Ten blocks of ten rows; raises before block `fails_at`."""

    shape, dtype, form, index_dtypes = (N_ROWS, 3), np.dtype("f4"), "dense", None

    def __init__(self, fails_at: int, error: BaseException) -> None:
        self.fails_at = fails_at
        self.error = error

    def row_blocks(self, block_bytes: int) -> Iterator[CsrBlock | DenseBlock]:
        for number in range(N_ROWS // 10):
            if number == self.fails_at:
                raise self.error
            yield DenseBlock(np.ones((10, 3), dtype="f4"))


def content(source: object) -> ExperimentContent:
    obs = pd.DataFrame(index=[f"c{number}" for number in range(N_ROWS)])
    var = pd.DataFrame(index=["g1", "g2", "g3"])
    return ExperimentContent(obs=obs, modalities={"": ModalityContent(var=var, X=source)})


@pytest.mark.parametrize("error", [OSError("the disk is gone"), KeyboardInterrupt()])
@pytest.mark.parametrize("fails_at", [0, 1, 5, 9])
@pytest.mark.parametrize("shard_size", [7, 1000])
def test_a_source_that_fails(
    tmp_path: Path, fails_at: int, error: BaseException, shard_size: int
) -> None:
    target = tmp_path / "a.scx"
    with pytest.raises(type(error)):
        write_experiment(target, content(FailingSource(fails_at, error)), shard_size=shard_size)
    assert list(tmp_path.iterdir()) == []
    target.write_bytes(b"old")
    with pytest.raises(type(error)):
        write_experiment(target, content(FailingSource(fails_at, error)), overwrite=True)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a.scx", b"old")]


def test_a_progress_callback_that_fails(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        assert total == N_ROWS
        if done >= 50:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        write_experiment(tmp_path / "a.scx", content(FailingSource(-1, OSError())), progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_every_row_once(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    given = content(FailingSource(-1, OSError()))
    given.modalities[""].layers["a"] = FailingSource(-1, OSError())
    write_experiment(
        tmp_path / "a.scx", given, progress=lambda *now: seen.append(now), shard_size=64
    )
    assert seen[-1] == (2 * N_ROWS, 2 * N_ROWS)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


@pytest.mark.parametrize(("progress", "shown"), [(None, False), (False, False), (True, True)])
def test_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], progress: bool | None, shown: bool
) -> None:
    write_experiment(tmp_path / "a.scx", content(FailingSource(-1, OSError())), progress=progress)
    assert ("rows" in capsys.readouterr().err) == shown


def test_leaving_the_background_waits_for_its_job() -> None:
    done: list[int] = []

    def slow() -> None:
        time.sleep(0.2)
        done.append(1)

    def interrupted() -> None:
        with OneAhead() as encoder:
            encoder.submit(slow)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [1]


def test_an_error_of_the_background_comes_with_the_next_job() -> None:
    def fail() -> None:
        raise ValueError("from the background")

    with OneAhead() as encoder:
        encoder.submit(fail)
        with pytest.raises(ValueError, match="from the background"):
            encoder.submit(fail)
    with OneAhead() as encoder:
        encoder.submit(fail)
        with pytest.raises(ValueError, match="from the background"):
            encoder.wait()


WRITER = """
    import sys, time
    import numpy as np, pandas as pd
    from scx_core.sources.base import DenseBlock, ExperimentContent, ModalityContent
    from scx_core.writing import write_experiment

    class Slow:
        shape, dtype, form, index_dtypes = (100, 3), np.dtype("f4"), "dense", None
        def row_blocks(self, block_bytes):
            for number in range(100):
                if number == 40:
                    print("half", flush=True)
                    time.sleep(60)
                yield DenseBlock(np.ones((1, 3), dtype="f4"))

    obs = pd.DataFrame(index=[str(number) for number in range(100)])
    var = pd.DataFrame(index=list("abc"))
    content = ExperimentContent(obs=obs, modalities={"": ModalityContent(var=var, X=Slow())})
    write_experiment(sys.argv[1], content, shard_size=10, overwrite=True)
"""


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_stopped(
    tmp_path: Path, signal_number: signal.Signals, old: bytes | None
) -> None:
    target = tmp_path / "a.scx"
    if old is not None:
        target.write_bytes(old)
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), os.fspath(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"half\n"
    process.send_signal(signal_number)
    assert process.wait(timeout=30) != 0
    assert (target.read_bytes() if target.exists() else None) == old
    if signal_number == signal.SIGINT:
        assert [path.name for path in tmp_path.iterdir()] == ["a.scx"][: old is not None]
    write_experiment(target, content(FailingSource(-1, OSError())), overwrite=True)
    with scx_core.open(target) as experiment:
        assert experiment.n_obs == N_ROWS


def test_other_errors_in_destructors_are_reported_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("in a destructor")

    def fail(done: int, total: int) -> None:
        Failing()

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(str(args.exc_value)))
    source = FailingSource(-1, OSError())
    write_experiment(tmp_path / "a.scx", content(source), progress=fail)
    assert set(reported) == {"in a destructor"}


def test_a_reader_keeps_the_file_that_it_opened(tmp_path: Path) -> None:
    target = tmp_path / "a.scx"
    write_experiment(target, content(FailingSource(-1, OSError())))
    with scx_core.open(target) as before:
        other = content(None)
        write_experiment(target, other, overwrite=True)
        assert before.X is not None
        assert before.X[:].sum() == 3 * N_ROWS
        with scx_core.open(target) as after:
            assert after.X is None


def test_a_target_that_appears_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "a.scx"

    def appear(done: int, total: int) -> None:
        target.write_bytes(b"of someone else")

    given = content(FailingSource(-1, OSError()))
    with pytest.raises(FileExistsError):
        write_experiment(target, given, progress=appear)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("a.scx", b"of someone else")
    ]
