"""The pipeline under the data set: order of batches, limits, errors, and its constants."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import scx_core
from scx_core._section_names import SectionType
from scx_core.native import pipeline as _pipeline
from scx_core.native.binding import native
from scx_core.native.matrix import Matrix
from scx_core.native.members import Member
from scx_core.native.pipeline import DensePipeline, epoch_stream, shuffle

MakeFile = Callable[..., Path]
Rows = npt.NDArray[np.int64]


def rows(*numbers: int) -> Rows:
    return np.array(numbers, dtype=np.int64)


@pytest.fixture
def matrix(make_file: MakeFile) -> Iterator[Matrix]:
    values = np.repeat(np.arange(1, 102, dtype=np.float32)[:, None], 5, axis=1)
    with scx_core.open(make_file(matrix=values)) as experiment:
        yield Matrix(experiment.file, section_type=SectionType.CSR_SHARD, name="X")


def test_constants_are_those_of_the_header() -> None:
    lib = native().lib
    assert _pipeline.THREADS_MAX == lib.SCX_PIPELINE_THREADS_MAX
    assert _pipeline.BATCHES_MAX == lib.SCX_PIPELINE_BATCHES_MAX
    assert _pipeline.BATCH_ROWS_MAX == lib.SCX_BATCH_ROWS_MAX
    assert lib.SCX_TAG_SHARD_ORDER == _pipeline.TAG_SHARD_ORDER
    assert lib.SCX_TAG_ROW_ORDER == _pipeline.TAG_ROW_ORDER


def test_batches_come_in_the_order_of_submission(matrix: Matrix) -> None:
    asked = [rows(5, 5, 0), rows(), rows(100), rows(*range(101))]
    with DensePipeline([Member.whole(matrix)], batches=4, threads=3) as pipeline:
        for batch in asked:
            pipeline.submit(batch)
        for batch in asked:
            values = pipeline.wait()
            assert values.shape == (len(batch), 5)
            np.testing.assert_array_equal(values, np.repeat(batch[:, None] + 1, 5, axis=1))


def test_submitted_rows_are_copied(matrix: Matrix) -> None:
    with DensePipeline([Member.whole(matrix)]) as pipeline:
        batch = rows(3, 4)
        pipeline.submit(batch)
        batch[:] = 0
        np.testing.assert_array_equal(pipeline.wait()[:, 0], [4, 5])


def test_limits_and_misuse(matrix: Matrix) -> None:
    with DensePipeline([Member.whole(matrix, path="cells.scx")], batches=2) as pipeline:
        with pytest.raises(KeyError, match="submit one first"):
            pipeline.wait()
        for bad in (rows(101), rows(0, -1)):
            with pytest.raises(IndexError, match=r"row (101|-1).*101 rows"):
                pipeline.submit(bad)
        pipeline.submit(rows(1))
        pipeline.submit(rows(2))
        with pytest.raises(RuntimeError, match=r"cells\.scx: 2 batches are under way"):
            pipeline.submit(rows(3))
        np.testing.assert_array_equal(pipeline.wait()[:, 0], [2])
        with pytest.raises(IndexError):
            pipeline.will_need(0, 102)
        with pytest.raises(IndexError):
            pipeline.will_need(3, 2)
        pipeline.will_need(0, 101)
        pipeline.cancel()
        with pytest.raises(KeyError):
            pipeline.wait()
    with pytest.raises(RuntimeError, match="closed"):
        pipeline.submit(rows(1))
    with pytest.raises(RuntimeError, match="closed"):
        pipeline.wait()


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (np.array([1], dtype=np.int32), TypeError),
        (np.array([1.0]), TypeError),
        (np.arange(10, dtype=np.int64)[::2], ValueError),
        ([1], TypeError),
    ],
)
def test_rows_that_are_no_int64_array(matrix: Matrix, bad: Any, error: type[Exception]) -> None:
    with DensePipeline([Member.whole(matrix)]) as pipeline, pytest.raises(error, match="rows"):
        pipeline.submit(bad)


@pytest.mark.parametrize(
    "options",
    [
        {"batches": 0},
        {"batches": 1025},
        {"threads": 65},
        {"normalize": True, "target_sum": 0.0},
    ],
)
def test_options_that_are_refused(matrix: Matrix, options: dict[str, Any]) -> None:
    before = set(_pipeline._IN_USE)
    values = {name: options.pop(name) for name in set(options) - {"batches", "threads"}}
    with pytest.raises((ValueError, IndexError, RuntimeError)):
        DensePipeline([Member.whole(matrix, **values)], **options)
    assert set(_pipeline._IN_USE) <= before


def test_a_wait_ends_when_another_thread_closes(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = DensePipeline([Member.whole(matrix)])
    waiting = threading.Event()
    library = native()

    class NeverReady:
        def __getattr__(self, name: str) -> Any:
            return getattr(library.lib, name)

        def scx_pipeline_wait(self, *_: Any) -> int:
            waiting.set()
            return int(library.lib.SCX_TIMEOUT)

    errors: list[BaseException] = []

    def wait() -> None:
        try:
            pipeline.wait()
        except RuntimeError as error:
            errors.append(error)

    replaced = type(library)(library.ffi, NeverReady(), library.path)
    with monkeypatch.context() as patched:
        patched.setattr(_pipeline, "native", lambda: replaced)
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(60)
        pipeline.close()
        thread.join(60)
    assert re.search("closed", str(errors[0]))


def test_what_a_stuck_thread_reads_from_is_kept(
    matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = native()

    class Stuck:
        def __getattr__(self, name: str) -> Any:
            return getattr(library.lib, name)

        def scx_pipeline_close(self, pipeline: Any, deadline_ms: int) -> int:
            assert library.lib.scx_pipeline_close(pipeline, deadline_ms) == 0
            return int(library.lib.SCX_TIMEOUT)

    gc.collect()
    before = set(_pipeline._IN_USE)
    replaced = type(library)(library.ffi, Stuck(), library.path)
    with monkeypatch.context() as patched:
        patched.setattr(_pipeline, "native", lambda: replaced)
        DensePipeline([Member.whole(matrix)]).close()
    (key,) = set(_pipeline._IN_USE) - before
    (kept,) = _pipeline._IN_USE.pop(key)
    assert kept.matrix is matrix


def test_a_shuffle_goes_on_from_its_position() -> None:
    stream = epoch_stream(seed=3, tag=_pipeline.TAG_ROW_ORDER, epoch=2**64 - 1)
    first, second = np.arange(1000), np.arange(77)
    position = shuffle(first, stream=stream)
    assert sorted(first) == list(range(1000))
    assert position >= 999
    end = shuffle(second, stream=stream, position=position)
    again = np.arange(77)
    assert shuffle(again, stream=stream, position=position) == end
    np.testing.assert_array_equal(again, second)
    assert shuffle(np.arange(1), stream=stream, position=17) == 17


@pytest.mark.parametrize("values", [np.arange(5, dtype=np.int32), np.arange(10)[::2]])
def test_a_shuffle_takes_int64_only(values: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="values"):
        shuffle(values, stream=1)
