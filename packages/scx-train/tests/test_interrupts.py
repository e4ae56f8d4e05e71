"""Ctrl-C while batches come and go: it is never swallowed, and costs no memory."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import scx_core
from scx_core._section_names import SectionType
from scx_core.native.binding import native
from scx_core.native.matrix import Matrix
from scx_core.native.members import Member
from scx_core.native.pipeline import CsrPipeline, DensePipeline
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]
KINDS = (DensePipeline, CsrPipeline)


@pytest.fixture
def matrix(make_file: MakeFile) -> Iterator[Matrix]:
    values = np.ones((64, 5), dtype=np.float32)
    with scx_core.open(make_file(matrix=values)) as experiment:
        yield Matrix(experiment.file, section_type=SectionType.CSR_SHARD, name="X")


def python_calls_at_the_end_of(held: list[Any]) -> list[str]:
    """Names of the Python functions that run when the last reference is gone."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    held.clear()
    sys.setprofile(None)
    return called


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_let_go_without_python(matrix: Matrix, kind: Any) -> None:
    """What is raised in a destructor is only reported: Ctrl-C may come in any Python function."""
    with kind([Member.whole(matrix)]) as pipeline:
        pipeline.submit(np.arange(8, dtype=np.int64))
        batches = [pipeline.wait()]
        assert python_calls_at_the_end_of(batches) == []


def test_a_section_is_let_go_without_python(make_file: MakeFile) -> None:
    with scx_core.open(make_file()) as experiment:
        sections = [experiment.file.section_bytes(0)]
        assert len(sections[0]) > 0
        assert python_calls_at_the_end_of(sections) == []


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_a_batch_that_came_with_the_interrupt_is_used_again(
    matrix: Matrix, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(8, dtype=np.int64)
    seen: list[int] = []

    def interrupted(self: Any, batch: Any) -> Any:
        seen.append(int(native().ffi.cast("uintptr_t", batch.data)))
        raise KeyboardInterrupt

    def place_of_next(pipeline: Any) -> int:
        pipeline.submit(rows)
        batch = pipeline.wait()
        values = batch if isinstance(batch, np.ndarray) else batch.values
        return int(values.ctypes.data)

    with kind([Member.whole(matrix)], batches=1, threads=1) as pipeline:
        with monkeypatch.context() as patch:
            patch.setattr(kind, "_array", interrupted)
            pipeline.submit(rows)
            with pytest.raises(KeyboardInterrupt):
                pipeline.wait()
        assert [place_of_next(pipeline)] == seen


def test_closing_passes_an_interrupt_on(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = DensePipeline([Member.whole(matrix)])
    pipeline.submit(np.arange(8, dtype=np.int64))
    end = pipeline._end

    def interrupted(handle: Any) -> None:
        end(handle)
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pipeline.close()
    pipeline.close()
    assert pipeline.closed


def test_a_handle_that_garbage_collection_finalised_first(matrix: Matrix) -> None:
    pipeline = DensePipeline([Member.whole(matrix)])
    pipeline.submit(np.arange(8, dtype=np.int64))
    native().ffi.release(pipeline._handle)  # as the collection of a cycle may do it
    pipeline.close()
    assert pipeline.closed


def test_cycles_of_epochs_that_were_left_early(make_file: MakeFile) -> None:
    path = make_file(101)
    for _ in range(20):
        dataset = TrainingDataset(path, 8)
        iterator = iter(dataset)
        cycle: list[Any] = [iterator, dataset, next(iterator)]
        cycle.append(cycle)
        del dataset, iterator, cycle
        gc.collect()


def train(dataset: TrainingDataset, timer: threading.Timer) -> None:
    timer.start()
    while timer.is_alive():
        for _ in dataset:
            pass
    timer.join()


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process there")
def test_ctrl_c_in_a_loop_over_batches_ends_the_loop(
    make_file: MakeFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    with TrainingDataset(make_file(n_obs=4000, shard_size=500), batch_size=1) as dataset:
        for delay_ms in range(3, 33, 2):
            timer = threading.Timer(delay_ms / 1000, os.kill, (os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                train(dataset, timer)
        assert sum(len(batch["cell_indices"]) for batch in dataset) == 4000
    assert reported == []
