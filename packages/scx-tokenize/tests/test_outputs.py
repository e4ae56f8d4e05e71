"""Memory that results leave is used again, and never while anything of them is there."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import scx_tokenize as tk
from scx_tokenize import _outputs as outputs
from scx_tokenize._outputs import LARGE_BYTES, KeptMemory

N = LARGE_BYTES // 4


@pytest.fixture
def memory():
    return KeptMemory(10 * LARGE_BYTES)


def address(array):
    return array.__array_interface__["data"][0]


def test_what_is_gone_is_used_again(memory):
    first = memory.empty(2 * N, np.int32)
    first[:] = 7
    assert (first.dtype, first.shape) == (np.int32, (2 * N,))
    place = address(first)
    second = memory.empty(2 * N, np.float32)
    assert not np.shares_memory(first, second)
    del first
    third = memory.empty(2 * N - 1, np.float32)
    assert address(third) == place
    assert third.shape == (2 * N - 1,)
    assert memory.n_bytes == 4 * LARGE_BYTES


@pytest.mark.parametrize(
    "holder",
    [
        lambda array: array[5:9],
        lambda array: array.reshape(4, -1).T,
        lambda array: array.view(np.uint8)[::3],
        lambda array: memoryview(array),
        lambda array: np.asarray(array, dtype=np.int32),
        lambda array: {"ids": [array]},
        lambda array: np.frombuffer(array, dtype=np.int8, offset=7),
    ],
)
def test_anything_of_an_array_keeps_its_memory(memory, holder):
    first = memory.empty(N, np.int32)
    place = address(first)
    held = holder(first)
    del first
    gc.collect()
    assert address(memory.empty(N, np.int32)) != place
    del held
    gc.collect()
    found = [memory.empty(N, np.int32) for _ in range(3)]
    assert place in [address(array) for array in found]


def test_torch_and_arrow_keep_it_too(memory):
    pa = pytest.importorskip("pyarrow")
    first = memory.empty(N, np.int32)
    place = address(first)
    held = pa.ListArray.from_arrays(np.array([0, N], dtype=np.int32), first)
    del first
    assert address(memory.empty(N, np.int32)) != place
    assert held.offsets[1].as_py() == N
    torch = pytest.importorskip("torch")
    first = memory.empty(N, np.int32)
    place = address(first)
    held = torch.from_numpy(first)
    del first
    assert address(memory.empty(N, np.int32)) != place
    assert held.shape == (N,)


def test_no_more_is_kept_than_may_be(memory):
    held = [memory.empty(4 * N, np.int32) for _ in range(7)]
    assert memory.n_bytes == 8 * LARGE_BYTES
    assert len({address(array) for array in held}) == 7
    del held
    memory.empty(9 * N, np.int32)
    assert memory.n_bytes == 9 * LARGE_BYTES
    memory.empty(11 * N, np.int32)  # more than is kept at all
    memory.empty(3, np.int32)
    memory.empty(0, np.int32)
    assert memory.n_bytes == 9 * LARGE_BYTES


def test_small_results_do_not_take_large_blocks(memory):
    place = address(memory.empty(8 * N, np.int32))
    held = memory.empty(2 * N, np.int32)
    assert address(held) != place
    assert address(memory.empty(7 * N, np.int32)) == place


def test_results_that_are_kept_stay_as_they_are(batch, monkeypatch):
    monkeypatch.setattr(outputs, "LARGE_BYTES", 1)
    batches = [batch(40, 300, seed=seed) for seed in range(4)]
    stats = np.random.default_rng(1).lognormal(size=300)

    def work(number):
        rows = batches[number % 4]
        return (
            tk.top_k(rows, 50, 300, threads=1)["ids"],
            tk.top_k(rows, 50, 300, threads=1)["values"][::7],
            tk.rank_tokens(rows, stats, 50, "v", threads=1)["ids"].reshape(40, 50)[:, :3],
            tk.sample_genes(rows, 50, 1, 2, threads=1)["ids"],
        )

    expected = [[array.copy() for array in work(number)] for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for start in range(0, 120, 20):
            found = list(pool.map(work, range(start, start + 20)))
            for number, arrays in enumerate(found, start):
                for array, wanted in zip(arrays, expected[number % 4], strict=True):
                    np.testing.assert_array_equal(array, wanted)


def test_kernels_use_memory_again(batch):
    rows = batch(600, 300)
    place = address(tk.rank_tokens(rows, np.ones(300), 1000, "v")["ids"])
    held = tk.rank_tokens(rows, np.ones(300), 1000, "v")["ids"]
    assert address(held) == place
    assert address(tk.rank_tokens(rows, np.ones(300), 1000, "v")["ids"]) != place
