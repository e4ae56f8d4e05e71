"""Hashes of files: those of other programs, by several threads, and given up at once."""

from __future__ import annotations

import hashlib
import threading
from contextlib import closing
from pathlib import Path

import pytest

from scx_tokenize.jobs._files import HASHED_BYTES, Stopped, each_in_threads, sha256_of


@pytest.mark.parametrize("size", [0, 1, HASHED_BYTES - 1, HASHED_BYTES, 2 * HASHED_BYTES + 3])
def test_the_hash_is_that_of_the_bytes(tmp_path: Path, size: int) -> None:
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_a_hash_that_nobody_waits_for_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3 * HASHED_BYTES))
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        sha256_of(tmp_path / "file", stop)


def test_results_come_in_order_and_the_rest_is_told_to_stop() -> None:
    stopped = []

    def work(number: int, stop: threading.Event) -> int:
        if number == 3:
            stopped.append(stop.wait(60))
        return number

    with closing(each_in_threads(work, range(4))) as results:
        assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert stopped in ([True], [])  # it may not even have begun
    assert list(each_in_threads(work, [])) == []


def test_an_error_is_that_of_the_first_item_that_has_one() -> None:
    def work(number: int, stop: threading.Event) -> int:
        if number:
            raise ValueError(str(number))
        return number

    with pytest.raises(ValueError, match="1"):
        list(each_in_threads(work, [0, 1, 2]))
