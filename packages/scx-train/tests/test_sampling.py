"""Draws by weight, balanced draws, and batches of one label, against numpy and plain Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import scx_train
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


@pytest.fixture
def path(make_file: MakeFile) -> Path:
    rng = np.random.default_rng(6)
    obs = pd.DataFrame(
        {
            "number": np.arange(203),
            "type": pd.Categorical(rng.choice(["a", "b", "c"], p=[0.8, 0.15, 0.05], size=203)),
            "plate": rng.integers(10, 14, size=203),
            "age": rng.random(203),
        }
    )
    obs.loc[[3, 100], "type"] = None
    return make_file(203, obs=obs)


def column(path: Path, name: str) -> npt.NDArray[Any]:
    import scx_core

    with scx_core.open(path) as experiment:
        values = experiment.to_anndata().obs[name].tolist()
    return np.array(["none" if value != value else value for value in values], dtype=object)


def epochs(path: Path, count: int = 1, batch_size: int = 8, **options: Any) -> list[list[Any]]:
    with TrainingDataset(path, batch_size, **options) as dataset:
        found = [[batch["cell_indices"].tolist() for batch in dataset] for _ in range(count)]
        assert [len(batches) for batches in found] == [len(dataset)] * count
    return found


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def stream(mix: Callable[[int], int], seed: int, tag: bytes, epoch: int) -> int:
    return mix(mix(mix(seed) ^ int.from_bytes(tag, "big")) ^ epoch)


def draws(
    mix: Callable[[int], int], weights: npt.NDArray[Any], *, seed: int, epoch: int
) -> list[int]:
    words = np.random.PCG64(stream(mix, seed, b"SCXDRAWS", epoch))
    ends = np.cumsum(weights)
    found = []
    for _ in weights:
        uniform = (int(words.random_raw()) >> 11) / 2**53
        found.append(next(row for row, end in enumerate(ends) if uniform * ends[-1] < end))
    return found


def test_weighted_draws(path: Path, mix: Callable[[int], int]) -> None:
    weights = np.random.default_rng(1).gamma(0.3, size=203)
    weights[::5] = 0
    batches = epochs(path, 2, weights=weights, seed=5)
    for epoch in range(2):
        assert [len(batch) for batch in batches[epoch]] == [8] * 25 + [3]
        assert flat(batches[epoch]) == draws(mix, weights, seed=5, epoch=epoch)
    assert batches == epochs(path, 2, weights=weights, seed=5, threads=3, prefetch_batches=1)
    assert batches[0] != epochs(path, weights=weights, seed=6)[0]


def test_draws_in_steps_are_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.arange(203.0)
    whole = epochs(path, weights=weights)
    monkeypatch.setattr("scx_train.streams.sampling.DRAWS_PER_STEP", 50)
    assert epochs(path, weights=weights) == whole


def test_draws_follow_the_weights(path: Path) -> None:
    weights = np.zeros(203)
    weights[[7, 50]] = [1.0, 3.0]
    rows = [row for batches in epochs(path, 20, weights=weights) for row in flat(batches)]
    assert set(rows) == {7, 50}
    share = rows.count(50) / len(rows)
    assert abs(share - 0.75) < 5 * np.sqrt(0.75 * 0.25 / len(rows))


def test_draws_among_chosen_rows(path: Path) -> None:
    weights = np.ones(203)
    rows = flat(epochs(path, weights=weights, rows=np.arange(40, 60))[0])
    assert len(rows) == 20
    assert set(rows) <= set(range(40, 60))


def test_balanced_draws(path: Path) -> None:
    labels = column(path, "type")
    found = [
        labels[row] for batches in epochs(path, 20, balance_by="type") for row in flat(batches)
    ]
    assert set(found) == {"a", "b", "c"}
    for label in "abc":
        spread = np.sqrt(1 / 3 * 2 / 3 / len(found))
        assert abs(found.count(label) / len(found) - 1 / 3) < 5 * spread
    # the same as the weights that say so
    counts = pd.Series(labels[labels != "none"]).value_counts()
    weights = [0.0 if label == "none" else 1.0 / counts[label] for label in labels]
    assert epochs(path, balance_by="type") == epochs(path, weights=weights)


@pytest.mark.parametrize("name", ["type", "plate"])
@pytest.mark.parametrize("tail", ["drop", "merge", "keep"])
def test_batches_of_one_label(
    path: Path,
    expected_rows: Callable[..., list[int]],
    mix: Callable[[int], int],
    random_words: Callable[[int], Iterator[int]],
    name: str,
    tail: str,
) -> None:
    labels = column(path, name)
    order = expected_rows(203, shard_size=10, group_size=8, seed=42, epoch=1)
    cut: list[list[int]] = []
    ranked = sorted(set(labels), key=lambda label: "" if label == "none" else str(label))
    for label in ranked:  # cells without a label first, as code -1
        rows = [row for row in order if labels[row] == label]
        full = len(rows) - len(rows) % 8
        pieces = [rows[start : start + 8] for start in range(0, full, 8)]
        rest = rows[full:]
        if rest and (len(rest) >= 3 or tail == "keep" or (tail == "merge" and not pieces)):
            pieces.append(rest)
        elif rest and tail == "merge":
            pieces[-1] = pieces[-1] + rest
        cut += pieces
    words = random_words(stream(mix, 42, b"SCXBATCH", 1))
    for place in range(len(cut) - 1, 0, -1):
        bound = place + 1
        low_max = (bound << (32 - bound.bit_length())) - 1
        while (product := next(words) * bound) & 0xFFFFFFFF > low_max:
            pass
        other = product >> 32
        cut[place], cut[other] = cut[other], cut[place]
    assert epochs(path, 2, batch_by=name, min_batch=3, tail=tail)[1] == cut


def test_labels_in_file_order(path: Path) -> None:
    (batches,) = epochs(path, batch_by="plate", shuffle=False)
    labels = column(path, "plate")
    assert flat(batches) == [
        row for plate in range(10, 14) for row in np.flatnonzero(labels == plate)
    ]


def test_ranks_have_the_same_label_at_the_same_step(path: Path) -> None:
    labels = column(path, "plate")
    one, two = (epochs(path, batch_by="plate", rank=rank, world_size=2)[0] for rank in range(2))
    assert len(one) == len(two)
    for first, second in zip(one, two, strict=True):
        assert len(set(labels[first]) | set(labels[second])) == 1
    seen = flat(one) + flat(two)
    assert len(seen) == len(set(seen)) >= 203 - 4


@pytest.mark.parametrize("options", [{"batch_by": "plate"}, {"balance_by": "type"}])
def test_workers_and_resuming(path: Path, options: dict[str, Any]) -> None:
    (whole,) = epochs(path, **options)
    workers = [epochs(path, shard=shard, num_shards=2, **options)[0] for shard in range(2)]
    assert [workers[number % 2][number // 2] for number in range(len(whole))] == whole
    with TrainingDataset(path, 8, **options) as dataset:
        iterator = iter(dataset)
        for _ in range(5):
            next(iterator)
        state = dataset.state_dict()
    with TrainingDataset(path, 8, **options) as dataset:
        dataset.load_state_dict(state)
        assert [batch["cell_indices"].tolist() for batch in dataset] == whole[5:]
    named = f"saved with {next(iter(options))}="
    with TrainingDataset(path, 8) as other, pytest.raises(ValueError, match=named):
        other.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0]}, r"shape \(1,\), but there are 203 rows"),
        ({"weights": np.r_[np.ones(202), -1]}, "-1.0 for row 202"),
        ({"weights": np.r_[np.ones(202), np.nan]}, "nan for row 202"),
        ({"weights": np.zeros(203)}, "0 for all cells"),
        ({"weights": np.ones(203), "batch_by": "type"}, "weights and batch_by exclude each other"),
        ({"balance_by": "type", "shuffle": False}, "shuffle=False"),
        ({"balance_by": "age"}, "floats"),
        ({"batch_by": "age"}, "floats"),
        ({"balance_by": "type", "rows": [3, 100]}, "no cell has a label"),
    ],
)
def test_what_is_refused(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingDataset(path, **options)


def test_weights_that_are_no_numbers(path: Path) -> None:
    wrong: tuple[Any, ...] = ("type", ["T"] * 203, ["1"] * 203, iter([1.0]), [[1], [1, 2]])
    for weights in wrong:
        with pytest.raises(TypeError, match=r"weights must be .* each of the 203 rows"):
            TrainingDataset(path, weights=weights)


@pytest.mark.parametrize("scale", [2.0**1020, 2.0**-1040])
def test_huge_and_tiny_weights_draw_as_others_do(path: Path, scale: float) -> None:
    weights = np.random.default_rng(2).integers(0, 16, size=203).astype(np.float64)
    assert epochs(path, weights=weights * scale) == epochs(path, weights=weights)


def test_columns_that_are_not_there(path: Path) -> None:
    with pytest.raises(KeyError, match="nothing"):
        TrainingDataset(path, batch_by="nothing")


GAPS = {
    "Int16": pd.array([7, None, 3, 7, 3, None, 7, 7] * 5, dtype="Int16"),
    "boolean": pd.array([True, None, False, True, False, None, True, True] * 5, dtype="boolean"),
    "float64": np.array([7, np.nan, 3, 7, 3, np.nan, 7, 7] * 5),  # what pandas makes of gaps
}


@pytest.mark.parametrize("dtype", GAPS)
def test_whole_numbers_and_booleans_with_gaps_are_labels(make_file: MakeFile, dtype: str) -> None:
    path = make_file(40, obs=pd.DataFrame({"label": GAPS[dtype]}))
    cells = {
        "none": {row for row in range(40) if row % 8 in (1, 5)},
        "low": {row for row in range(40) if row % 8 in (2, 4)},
        "high": {row for row in range(40) if row % 8 in (0, 3, 6, 7)},
    }
    with TrainingDataset(path, 4, batch_by="label") as dataset:
        batches = [set(batch["cell_indices"].tolist()) for batch in dataset]
    for rows in cells.values():
        parts = [batch for batch in batches if batch <= rows]
        assert set.union(*parts) == rows and sum(map(len, parts)) == len(rows)
    assert len(batches) == 3 + 3 + 5
    drawn: list[int] = []
    with TrainingDataset(path, 4, balance_by="label") as dataset:
        for _ in range(50):
            drawn += [row for batch in dataset for row in batch["cell_indices"].tolist()]
    assert not cells["none"] & set(drawn)
    share = np.mean([row in cells["low"] for row in drawn])
    assert abs(share - 0.5) < 0.06  # 5 standard deviations of 2,000 draws
    for part in scx_train.split(path, [0.5, 0.5], stratify="label"):
        assert [len(rows & set(part.tolist())) for rows in cells.values()] == [5, 5, 10]
    with pytest.raises(ValueError, match="row 1 has no 'label'"):
        scx_train.split(path, [0.5], group="label")
    known = sorted(cells["low"] | cells["high"])
    with TrainingDataset(path, 4, rows=known, batch_by="label") as dataset:
        assert len(dataset) == 3 + 5


@pytest.mark.parametrize("value", [0.5, np.inf, 2.0**60])
def test_floats_that_are_no_whole_numbers_are_no_labels(make_file: MakeFile, value: float) -> None:
    path = make_file(4, obs=pd.DataFrame({"label": [1.0, np.nan, value, 2.0]}))
    with pytest.raises(ValueError, match=re.escape(f"floats such as {value:.6g}, but labels")):
        TrainingDataset(path, batch_by="label")
