"""Parts of a file: their sizes, labels kept in proportion, groups kept whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import scx_train
from published_draws import shuffled, stream_of, words_of
from scx_train import TrainingDataset

MakeFile = Callable[..., Path]


@pytest.fixture
def path(make_file: MakeFile) -> Path:
    rng = np.random.default_rng(4)
    obs = pd.DataFrame(
        {
            "type": pd.Categorical(rng.choice(["a", "b", "c"], p=[0.7, 0.2, 0.1], size=203)),
            "donor": rng.choice([f"d{number}" for number in range(9)], size=203),
            "plate": rng.integers(5, 8, size=203),
            "rare": [f"label {row // 2}" for row in range(203)],
            "age": rng.random(203),
        }
    )
    obs.loc[3, "type"] = None
    return make_file(203, obs=obs)


def column(path: Path, name: str) -> Any:
    import scx_core

    with scx_core.open(path) as experiment:
        return experiment.to_anndata().obs[name].astype(object).to_numpy()


@pytest.mark.parametrize(
    ("fractions", "sizes"),
    [
        ([0.8, 0.1, 0.1], [163, 20, 20]),  # of 162.4, 20.3, 20.3
        ([0.7, 0.2, 0.1], [142, 41, 20]),  # of 142.1, 40.6, 20.3
        ((0.5,), [102]),  # of 101.5 and 101.5
        ([1], [203]),
        ([0.1] * 10, [21, 21, 21, 20, 20, 20, 20, 20, 20, 20]),
    ],
)
def test_sizes(path: Path, fractions: Any, sizes: list[int]) -> None:
    parts = scx_train.split(path, fractions)
    assert [len(part) for part in parts] == sizes
    together = np.concatenate(parts)
    assert len(set(together.tolist())) == len(together)
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


def documented_parts(
    labels: list[int], fractions: list[float], *, seed: int, whole: bool
) -> list[list[int]]:
    """Places of the cells of each part: by label, or `whole` groups, as docs/semantics.md says."""
    words = words_of(stream_of(seed, int.from_bytes(b"SCXSPLIT", "big"), 0))
    rest = 1 - sum(fractions)
    shares = fractions if rest < 1e-9 else [*fractions, rest]
    parts: list[list[int]] = [[] for _ in shares]
    members = {
        label: [i for i, own in enumerate(labels) if own == label] for label in sorted(set(labels))
    }

    def lacking(part: int, n_cells: int) -> float:
        return n_cells * shares[part] - len(parts[part])

    if whole:
        groups = shuffled(list(range(len(members))), words)
        for n_done, group in enumerate(groups):
            empty = [part for part in range(len(fractions)) if not parts[part]]
            choice = list(range(len(shares)))
            if empty and len(groups) - n_done <= len(empty):
                choice = empty
            part = max(choice, key=lambda part: lacking(part, len(labels)))
            parts[part] += list(members.values())[group]
    n_seen = 0
    for cells in [] if whole else members.values():
        mixed = shuffled(cells, words)
        n_seen += len(cells)
        sizes = [int(len(cells) * share + 1e-6) for share in shares]
        behind = [lacking(part, n_seen) - sizes[part] for part in range(len(shares))]
        most = sorted(range(len(shares)), key=lambda part: (-behind[part], part))
        for part in most[: len(cells) - sum(sizes)]:
            sizes[part] += 1
        for part, size in enumerate(sizes):
            parts[part] += mixed[:size]
            mixed = mixed[size:]
    return [sorted(part) for part in parts[: len(fractions)]]


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
@pytest.mark.parametrize("fractions", [[0.8, 0.1, 0.1], [0.55, 0.2], [0.1] * 6])
@pytest.mark.parametrize("deleted", [[], [0, 3, 77, 202]])
def test_parts_are_the_documented_ones(
    path: Path, seed: int, fractions: list[float], deleted: list[int]
) -> None:
    import scx_core

    values: dict[str, Any] = {name: column(path, name) for name in ("type", "donor", "plate")}
    if deleted:
        scx_core.mark_deleted(path, deleted)
    live = [row for row in range(203) if row not in deleted]
    cases: list[tuple[dict[str, str], Any]] = [
        ({}, [0] * 203),
        ({"stratify": "type"}, ["abc".find(str(label)) for label in values["type"]]),  # -1: a gap
        ({"stratify": "donor"}, [int(label[1:]) for label in values["donor"]]),
        ({"group": "donor"}, [int(label[1:]) for label in values["donor"]]),
        ({"stratify": "plate"}, values["plate"].tolist()),
    ]
    for options, labels in cases:
        own = [labels[row] for row in live]
        expected = documented_parts(own, fractions, seed=seed, whole="group" in options)
        found = scx_train.split(path, fractions, seed=seed, **options)  # type: ignore[arg-type]
        assert [part.tolist() for part in found] == [[live[i] for i in part] for part in expected]


def test_the_seed_decides(path: Path) -> None:
    one, again, other = (scx_train.split(path, [0.5, 0.5], seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one[0], other[0])
    # random: neither the first half nor every second
    assert 40 < np.sum(one[0] < 101) < 62


@pytest.mark.parametrize("name", ["type", "plate", "rare", "donor"])
def test_labels_keep_their_share(path: Path, name: str) -> None:
    fractions = [0.6, 0.25, 0.15]
    parts = scx_train.split(path, fractions, stratify=name)
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(len(part) - fraction * 203) <= 1
    labels = pd.Series(column(path, name)).astype(str)
    for label, count in labels.value_counts().items():
        for part, fraction in zip(parts, fractions, strict=True):
            assert abs((labels[part] == label).sum() - count * fraction) <= 1, label


def test_groups_stay_whole(path: Path) -> None:
    donors = column(path, "donor")
    for seed in range(5):
        parts = scx_train.split(path, [0.6, 0.2, 0.2], group="donor", seed=seed)
        assert sorted(np.concatenate(parts).tolist()) == list(range(203))
        members = [set(donors[part]) for part in parts]
        assert sum(map(len, members)) == len(set(donors)) == 9
        assert abs(len(parts[0]) - 0.6 * 203) < 40


def test_every_part_gets_a_group(make_file: MakeFile) -> None:
    obs = pd.DataFrame({"donor": ["a", "b", "c"] * 10})
    path = make_file(30, obs=obs)
    parts = scx_train.split(path, [0.8, 0.1, 0.1], group="donor")
    assert [len(part) for part in parts] == [10, 10, 10]
    with pytest.raises(ValueError, match="none of the 30 cells in 3 groups"):
        scx_train.split(path, [0.25] * 4, group="donor")


def test_parts_can_be_streamed(path: Path) -> None:
    train, rest = scx_train.split(path, [0.9, 0.1])
    seen = []
    for part in (train, rest):
        with TrainingDataset(path, 16, rows=part) as dataset:
            seen += [row for batch in dataset for row in batch["cell_indices"].tolist()]
    assert sorted(seen) == list(range(203))


def test_several_files_are_divided_together(make_file: MakeFile) -> None:
    """Labels and groups are those of all files; rows are numbered on, as in a data set of them."""
    import scx_core

    rng = np.random.default_rng(8)
    paths, frames = [], []
    for number, n_obs in enumerate([70, 1, 131]):
        obs = pd.DataFrame(
            {
                "type": pd.Categorical(rng.choice(["a", "b", "c"][number % 2 :], size=n_obs)),
                "donor": rng.choice([f"d{donor}" for donor in range(6)], size=n_obs),
            }
        )
        paths.append(make_file(n_obs, obs=obs, name=f"{number}.scx"))
        frames.append(obs.astype(str))
    scx_core.mark_deleted(paths[2], [5, 60])
    gone = {71 + 5, 71 + 60}
    every = pd.concat(frames, ignore_index=True)
    live = [row for row in range(202) if row not in gone]

    parts = scx_train.split(paths, [0.6, 0.4], stratify="type", seed=3)
    assert sorted(np.concatenate(parts).tolist()) == live
    for label, count in every["type"][live].value_counts().items():
        for part, fraction in zip(parts, [0.6, 0.4], strict=True):
            assert abs((every["type"][part] == label).sum() - count * fraction) <= 1

    parts = scx_train.split(paths, [0.5, 0.5], group="donor")
    assert sorted(np.concatenate(parts).tolist()) == live
    assert not set(every["donor"][parts[0]]) & set(every["donor"][parts[1]])

    with TrainingDataset(paths, 16, rows=parts[1], shuffle=False) as dataset:
        seen = np.concatenate([batch["cell_indices"] for batch in dataset])
    assert seen.tolist() == parts[1].tolist()
    assert [part.tolist() for part in scx_train.split(paths[:1], [0.5, 0.5])] == [
        part.tolist() for part in scx_train.split(paths[0], [0.5, 0.5])
    ]


def test_files_that_do_not_fit_are_named(make_file: MakeFile) -> None:
    one = make_file(10, obs=pd.DataFrame({"donor": ["a"] * 10}), name="one.scx")
    other = make_file(10, obs=pd.DataFrame({"donor": range(10), "age": 1}), name="other.scx")
    with pytest.raises(ValueError, match=r"'donor' holds labels in .*one\.scx and numbers in .*ot"):
        scx_train.split([one, other], [0.5], group="donor")
    with pytest.raises(KeyError, match=r"one\.scx"):
        scx_train.split([other, one], [0.5], group="age")
    with pytest.raises(ValueError, match="empty"):
        scx_train.split([], [0.5])
    with pytest.raises(TypeError, match="no order"):
        scx_train.split({one}, [0.5])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fractions", "options", "message"),
    [
        ([], {}, "empty"),
        ([0.5, 0.0], {}, "positive"),
        ([0.5, float("nan")], {}, "positive"),
        ([0.8, 0.3], {}, r"sum to 1\.1"),
        ([0.001, 0.9], {}, "none of the 203 cells"),
        ([0.5], {"stratify": "type", "group": "donor"}, "not both"),
        ([0.5], {"stratify": "age"}, "floats"),
        ([0.5], {"group": "type"}, "row 3 has no 'type'"),
        ([0.5], {"seed": -1}, "seed"),
    ],
)
def test_what_is_refused(path: Path, fractions: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scx_train.split(path, fractions, **options)


def test_types_and_columns_that_are_not_there(path: Path) -> None:
    with pytest.raises(TypeError, match="list of numbers"):
        scx_train.split(path, 0.5)  # type: ignore[arg-type]
    wrong: tuple[Any, ...] = ({0.5}, {0.5: 1}, "0.5")
    for fractions in wrong:
        with pytest.raises(TypeError, match=r"fractions=.*list of numbers"):
            scx_train.split(path, fractions)
    for share in ("0.5", None, True):
        with pytest.raises(TypeError, match=f"a share in fractions={share!r} must be a number"):
            scx_train.split(path, [0.3, share])  # type: ignore[list-item]
    for argument in ("stratify", "group"):
        with pytest.raises(TypeError, match=rf"{argument}=\['type'\] must be a str"):
            scx_train.split(path, [0.5], **{argument: ["type"]})  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="nothing"):
        scx_train.split(path, [0.5], stratify="nothing")
