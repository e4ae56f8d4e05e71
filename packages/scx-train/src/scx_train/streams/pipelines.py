"""The pipelines of a data set: one for each epoch that is running, used again by the next."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core.native.pipeline import CsrPipeline, DensePipeline

MatrixPipeline = DensePipeline | CsrPipeline


class JointPipeline:
    """Pipelines of several matrices that are given the same rows; a batch is a dict by name.

    Parameters
    ----------
    openers
        For each name a function that opens the pipeline.
    """

    def __init__(self, openers: Mapping[str, Callable[[], MatrixPipeline]]) -> None:
        self._parts: dict[str, MatrixPipeline] = {}
        try:
            for name, open_part in openers.items():
                self._parts[name] = open_part()
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return any(part.closed for part in self._parts.values())

    def submit(self, rows: npt.NDArray[np.int64]) -> None:
        """Put a batch of these rows at the end of every queue."""
        for part in self._parts.values():
            part.submit(rows)

    def wait(self) -> dict[str, Any]:
        """The oldest batch of each; after an error they no longer belong together: close it."""
        return {name: part.wait() for name, part in self._parts.items()}

    def cancel(self) -> None:
        """Forget all batches that were submitted and not received."""
        for part in self._parts.values():
            part.cancel()

    def will_need(self, row_start: int, row_end: int, *, hold: bool = False) -> None:
        """Have threads read the bytes of these rows, which are needed soon."""
        for part in self._parts.values():
            part.will_need(row_start, row_end, hold=hold)

    def expect_scattered(self, *, scattered: bool = True) -> None:
        """Whether batches take rows from anywhere."""
        for part in self._parts.values():
            part.expect_scattered(scattered=scattered)

    def close(self) -> None:
        """End the threads of all. Closing again does nothing."""
        for part in self._parts.values():
            part.close()


Pipeline = MatrixPipeline | JointPipeline


class PipelineShelf:
    """Lends pipelines, and keeps one that came back with its threads and its memory.

    Epochs one after the other so share one pipeline, and two at the same time have one each.

    Parameters
    ----------
    open_pipeline
        Opens a new one when none is at hand.
    """

    # Here, since it is asked when the names of modules may be gone.
    _is_finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, open_pipeline: Callable[[], Pipeline]) -> None:
        # None when closed: what it opens from, the file above all, must not be kept.
        self._open_pipeline: Callable[[], Pipeline] | None = open_pipeline
        # Reentrant: a garbage collection under the lock may end an iterator, which gives back.
        self._lock = threading.RLock()
        self._idle: Pipeline | None = None
        self._lent: list[Pipeline] = []

    def take(self) -> Pipeline:
        """A pipeline without batches, for one epoch; RuntimeError when the shelf is closed."""
        with self._lock:
            if self._open_pipeline is None:
                raise RuntimeError("the data set was closed while an epoch began")
            pipeline, self._idle = self._idle, None
            if pipeline is None:
                pipeline = self._open_pipeline()
            self._lent.append(pipeline)
            return pipeline

    def give_back(self, pipeline: Pipeline) -> None:
        """The end of an epoch; what was submitted and not received is forgotten."""
        if self._is_finalizing():
            return  # there is no next epoch, and the pipeline ends with its handle
        # Not under the lock: another thread may be waiting for a batch of this pipeline.
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            pipeline.cancel()
        with self._lock:
            self._lent = [lent for lent in self._lent if lent is not pipeline]
            if self._idle is None and self._open_pipeline is not None and not pipeline.closed:
                self._idle = pipeline
                return
        pipeline.close()

    def discard(self, pipeline: Pipeline) -> None:
        """The end of an epoch by an error: the pipeline may be what failed."""
        with self._lock:
            self._lent = [lent for lent in self._lent if lent is not pipeline]
        pipeline.close()

    def close(self) -> None:
        """Close all pipelines, the lent ones too."""
        with self._lock:
            self._open_pipeline = None
            pipelines = [*self._lent, *([] if self._idle is None else [self._idle])]
            self._lent, self._idle = [], None
        for pipeline in pipelines:
            pipeline.close()
