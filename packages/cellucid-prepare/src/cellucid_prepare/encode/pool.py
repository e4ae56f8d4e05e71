"""Chunks encoded by several threads and given back in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# items under way for each thread: enough that none waits while others write, few enough to need no
# memory
AHEAD = 8


class Encoder(Protocol):
    """Applies a function to items as they come; the results have the items' order."""

    def __call__(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Yield `function(item)` for every item."""
        ...


@contextmanager
def encoder(threads: int) -> Iterator[Encoder]:
    """Give an `Encoder` of that many threads, which the block may call any number of times."""
    if threads == 1:
        yield lambda function, items: map(function, items)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="cellucid-encode")

    def encode(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                del item  # may be a view of much more
                if len(waiting) > AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    try:
        yield encode
    finally:
        # what failed may still hold on to the generator above, and nothing that waits begins now;
        # what runs may write, and is waited for whatever comes: the output is removed next
        pool.shutdown(wait=True, cancel_futures=True)
