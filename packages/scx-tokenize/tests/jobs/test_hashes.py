"""Hashes of files: those of other programs, by several threads, and given up at once."""

from __future__ import annotations

import hashlib
import threading
from contextlib import closing
from pathlib import Path

import pytest
from blake3 import blake3

from scx_tokenize.jobs import _inputs as inputs
from scx_tokenize.jobs._files import (
    HASHED_BYTES,
    HASHED_IN_THREADS_BYTES,
    Stopped,
    blake3_of,
    each_in_threads,
    sha256_of,
)


@pytest.mark.parametrize("size", [0, 1, HASHED_BYTES - 1, HASHED_BYTES, 2 * HASHED_BYTES + 3])
def test_the_hash_is_that_of_the_bytes(tmp_path: Path, size: int) -> None:
    content = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("size", [0, 1, 10**6, HASHED_IN_THREADS_BYTES, 2**24 + 5])
def test_the_hash_in_threads_is_that_of_the_bytes(tmp_path: Path, size: int, threads: int) -> None:
    content = (b"0123456789abcde" * (size // 15 + 1))[:size]
    (tmp_path / "file").write_bytes(content)
    assert blake3_of(tmp_path / "file", threads=threads) == blake3(content).hexdigest()


def test_every_byte_of_an_h5ad_is_part_of_its_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "kind_of", lambda path: "h5ad")
    content = bytearray(3 * HASHED_IN_THREADS_BYTES + 1)
    path, seen = tmp_path / "a.h5ad", set()
    for place in (None, 0, HASHED_IN_THREADS_BYTES - 1, HASHED_IN_THREADS_BYTES, -1):
        if place is not None:
            content[place] ^= 1
        path.write_bytes(content)
        seen.update(inputs.content_identities([str(path)] * 3))
        assert inputs.content_identity(str(path)) in seen
    assert len(seen) == 5


def test_files_share_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def hashed(path: Path, stop: threading.Event, *, threads: int) -> str:
        used.append(threads)
        return ""

    monkeypatch.setattr(inputs, "kind_of", lambda path: "h5ad")
    monkeypatch.setattr(inputs, "blake3_of", hashed)
    monkeypatch.setattr(inputs, "usable_cpus", lambda: 8)
    for n_files, expected in ((0, []), (1, [8]), (3, [2] * 3), (20, [1] * 20)):
        used.clear()
        inputs.content_identities([f"{number}.h5ad" for number in range(n_files)])
        assert used == expected


def test_a_hash_that_nobody_waits_for_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3 * HASHED_BYTES))
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        sha256_of(tmp_path / "file", stop)
    with pytest.raises(Stopped):
        blake3_of(tmp_path / "file", stop, threads=2)


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
