"""One job in the background while the caller prepares the next."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType


class OneAhead:
    """Runs jobs one after another in a thread; `submit` waits for the job before.

    The native library lets other Python threads run while it encodes, so reading and encoding
    overlap. Leaving the block waits for a running job whatever happens, also when Ctrl-C is
    pressed again: what the job works on may be closed only afterwards.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scx-encode")
        self._running: Future[None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Start `job` once the one before is done; an error of that one is raised here."""
        self.wait()
        self._running = self._executor.submit(job)

    def wait(self) -> None:
        """Wait for the running job; its error is raised here."""
        if self._running is not None:
            self._running.result()
            self._running = None

    def __enter__(self) -> OneAhead:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                self._executor.shutdown(wait=True, cancel_futures=True)
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None and exc is None:
            raise interrupt
