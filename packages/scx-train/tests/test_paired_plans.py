"""paired_plans: each perturbed cell with a control of its own stratum, and no other."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import scx_core
from scx_train import IndexPlanDataset, PairedPlans, paired_plans, split

MakeFile = Callable[..., Path]
MATCH = ["cell_type", "batch"]


def screen(n_obs: int = 400, *, seed: int = 0) -> pd.DataFrame:
    """Every stratum has controls but for type T in batch 2, and those of gaps."""
    rng = np.random.default_rng(seed)
    obs = pd.DataFrame(
        {
            "target": rng.choice(["none", "A", "B", "C"], n_obs),
            "cell_type": pd.Categorical(rng.choice(["T", "B"], n_obs)),
            "batch": rng.integers(1, 4, n_obs),
        }
    )
    hole = (obs["cell_type"] == "T") & (obs["batch"] == 2) & (obs["target"] == "none")
    obs.loc[hole, "target"] = "A"
    return obs


def file_of(make_file: MakeFile, obs: pd.DataFrame) -> Path:
    return make_file(len(obs), 5, obs=obs.copy())


def quiet(path: Any, *args: Any, **options: Any) -> PairedPlans:
    with pytest.warns(UserWarning, match="no control of their own stratum"):
        return paired_plans(path, *args, **options)


def test_every_perturbed_cell_once_with_a_control_of_its_stratum(make_file: MakeFile) -> None:
    obs = screen()
    plans = quiet(file_of(make_file, obs), "target", "none", MATCH, 32, 7)
    given = list(plans)
    assert [len(plan) for plan in given[:-1]] == [32] * (len(plans) - 1) and len(given) == len(
        plans
    )
    pairs = [pair for plan in given for pair in plan]
    assert all(type(plan) is list and type(plan[0]) is tuple for plan in given)
    hole = (obs["cell_type"] == "T") & (obs["batch"] == 2)
    expected = np.flatnonzero((obs["target"] != "none") & ~hole)
    assert sorted(first for first, _ in pairs) == expected.tolist()
    assert plans.n_pairs == len(expected)
    for first, second in pairs:
        assert obs["target"][second] == "none"
        assert obs["cell_type"][first] == obs["cell_type"][second]
        assert obs["batch"][first] == obs["batch"][second]


def test_strata_without_a_control_are_reported(make_file: MakeFile) -> None:
    obs = screen()
    hole = (obs["cell_type"] == "T") & (obs["batch"] == 2)
    with pytest.warns(UserWarning, match=rf"{hole.sum()} of .* cell_type='T', batch=2") as caught:
        plans = paired_plans(file_of(make_file, obs), "target", "none")
    assert caught[0].filename == __file__
    assert plans.strata_without_control == [
        {"cell_type": "T", "batch": 2, "n_cells": int(hole.sum())}
    ]
    assert plans.n_without_control == hole.sum()


def test_gaps(make_file: MakeFile) -> None:
    obs = pd.DataFrame(
        {
            "target": ["x", "none", "x", "none", None, "x", "none", "x"],
            "cell_type": ["T", "T", None, None, "T", "B", "B", "B"],
            "dose": [1.0, 1.0, 1.0, 1.0, 1.0, np.nan, np.nan, 2.0],
        }
    )
    plans = quiet(file_of(make_file, obs), "target", "none", ["cell_type", "dose"])
    assert list(plans) == [[(0, 1)]]
    assert sorted(plans.strata_without_control, key=repr) == sorted(
        [
            {"cell_type": None, "dose": 1.0, "n_cells": 1},
            {"cell_type": "B", "dose": None, "n_cells": 1},
            {"cell_type": "B", "dose": 2.0, "n_cells": 1},
        ],
        key=repr,
    )


def test_seed_and_epoch(make_file: MakeFile) -> None:
    path = file_of(make_file, screen())
    plans, again = (quiet(path, "target", "none", MATCH, 16, 3) for _ in range(2))
    assert list(plans) == list(plans) == list(again)
    assert list(quiet(path, "target", "none", MATCH, 16, 4)) != list(plans)
    assert plans.epoch == 0
    epochs = []
    for epoch in range(3):
        plans.set_epoch(epoch)
        epochs.append(list(plans))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        first, second = (dict(p for plan in epochs[i] for p in plan) for i in (one, other))
        assert list(first) != list(second)  # the order
        assert sorted(first) == sorted(second)
        assert first != second  # the controls
    plans.set_epoch(0)
    assert list(plans) == epochs[0] == list(again)


def test_an_epoch_that_began_stays(make_file: MakeFile) -> None:
    plans = quiet(file_of(make_file, screen()), "target", "none", MATCH, 16)
    expected = list(plans)
    running = iter(plans)
    found = [next(running)]
    plans.set_epoch(5)
    assert found + list(running) == expected


def test_the_plans_are_the_documented_draws(
    make_file: MakeFile,
    mix: Callable[[int], int],
    random_words: Callable[[int], Any],
) -> None:
    obs = screen(60, seed=1)
    path = file_of(make_file, obs)
    for epoch in (0, 4):
        streams = [
            mix(mix(mix(9) ^ int.from_bytes(tag, "big")) ^ epoch)
            for tag in (b"SCXPCTRL", b"SCXPPERM")
        ]
        words = iter(np.random.PCG64(streams[0]).random_raw(60).tolist())
        pairs = []
        for row in range(60):
            pool = [
                other
                for other in range(60)
                if obs["target"][other] == "none"
                and (obs.loc[other, MATCH] == obs.loc[row, MATCH]).all()
            ]
            if obs["target"][row] != "none" and pool:
                pairs.append((row, pool[int((next(words) >> 11) * 2.0**-53 * len(pool))]))
        stream = random_words(streams[1])
        for place in range(len(pairs) - 1, 0, -1):
            bound = place + 1
            low_max = (bound << (32 - bound.bit_length())) - 1
            while (product := next(stream) * bound) & 0xFFFFFFFF > low_max:
                pass
            other = product >> 32
            pairs[place], pairs[other] = pairs[other], pairs[place]
        plans = quiet(path, "target", "none", seed=9)
        plans.set_epoch(epoch)
        assert list(plans) == [pairs]


def test_controls_are_drawn_evenly(make_file: MakeFile) -> None:
    obs = pd.DataFrame({"target": ["none"] * 5 + ["x"] * 3000, "batch": 1})
    plans = paired_plans(file_of(make_file, obs), "target", "none", ["batch"])
    counts = Counter(second for plan in plans for _, second in plan)
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert all(abs(count - 600) < 5 * np.sqrt(600 * 0.8) for count in counts.values())


def test_without_columns_to_match_and_without_a_shuffle(make_file: MakeFile) -> None:
    obs = pd.DataFrame({"target": [0, 7, 0, 8, 7]})
    path = file_of(make_file, obs)
    plans = paired_plans(path, "target", 0, [], 2, shuffle=False)
    assert [[first for first, _ in plan] for plan in plans] == [[1, 3], [4]]
    assert {second for plan in plans for _, second in plan} <= {0, 2}
    short = paired_plans(path, "target", 0, [], 2, shuffle=False, drop_last=True)
    assert list(short) == list(plans)[:1] and len(short) == 1
    assert "3 pairs in 2 plans of 2, epoch 0" in repr(plans)


def test_what_is_refused(make_file: MakeFile) -> None:
    obs = screen(50)
    path = file_of(make_file, obs)
    with pytest.raises(ValueError, match=r"control_label='NONE' is no label of .*'A', 'B', 'C'"):
        paired_plans(path, "target", "NONE")
    with pytest.raises(KeyError, match="donor"):
        paired_plans(path, "target", "none", ["donor"])
    with pytest.raises(KeyError, match=r"'pert'.*\n.*'donor'"):
        paired_plans(path, "pert", "none", ["donor"])
    with pytest.raises(TypeError, match="match='batch' must be a list of names"):
        paired_plans(path, "target", "none", "batch")
    with pytest.raises(ValueError, match="batch_size=0"):
        paired_plans(path, "target", "none", batch_size=0)
    with pytest.raises(ValueError, match="seed=-1"):
        paired_plans(path, "target", "none", seed=-1)
    obs = pd.DataFrame({"target": ["x", "none"], "batch": [1, 2]})
    with pytest.raises(ValueError, match="none of the 1 perturbed cells has a control"):
        paired_plans(make_file(2, 5, obs=obs, name="two.scx"), "target", "none", ["batch"])
    obs = pd.DataFrame({"target": ["none", None], "batch": [1, 2]})
    with pytest.raises(ValueError, match="no cell is perturbed, as all labels of 'target' are"):
        paired_plans(make_file(2, 5, obs=obs, name="none.scx"), "target", "none", ["batch"])


def test_an_open_experiment_stays_open(make_file: MakeFile) -> None:
    path = file_of(make_file, screen())
    with scx_core.open(path) as experiment:
        plans = quiet(experiment, "target", "none")
        assert not experiment.closed and experiment.n_obs == 400
    assert list(plans) == list(quiet(str(path), "target", "none"))
    assert list(pickle.loads(pickle.dumps(plans))) == list(plans)


def test_deleted_cells_never_come(make_file: MakeFile) -> None:
    obs = screen()
    path = file_of(make_file, obs)
    gone = set(range(0, 400, 3))
    scx_core.mark_deleted(path, sorted(gone))
    with scx_core.open(path) as experiment:
        pairs = [pair for plan in quiet(experiment, "target", "none") for pair in plan]
    assert pairs == [pair for plan in quiet(path, "target", "none") for pair in plan]
    hole = (obs["cell_type"] == "T") & (obs["batch"] == 2)
    expected = set(np.flatnonzero((obs["target"] != "none") & ~hole)) - gone
    assert {first for first, _ in pairs} == expected
    for first, second in pairs:
        assert second not in gone and obs["target"][second] == "none"
        assert (obs.loc[first, MATCH] == obs.loc[second, MATCH]).all()
    with IndexPlanDataset(path) as dataset:
        assert sum(len(batch["pairs"]) for batch in dataset.iter_with_plans([pairs])) == len(pairs)


@pytest.mark.filterwarnings("ignore:.*no control of their own stratum")
@pytest.mark.parametrize("form", ["rows", "mask"])
def test_the_parts_of_a_split_share_no_cell(make_file: MakeFile, form: str) -> None:
    obs = screen()
    path = file_of(make_file, obs)
    scx_core.mark_deleted(path, [0, 7, 50])
    used: list[set[int]] = []
    for part in split(path, [0.6, 0.4], stratify="target"):
        rows = part if form == "rows" else np.isin(np.arange(len(obs)), part)
        plans = paired_plans(path, "target", "none", MATCH, 32, rows=rows)
        pairs = [pair for plan in plans for pair in plan]
        own = obs.iloc[part]
        strata = set(own[own["target"] == "none"].groupby(MATCH, observed=True).groups)
        expected = [
            row
            for row, target, *stratum in own[["target", *MATCH]].itertuples()
            if target != "none" and tuple(stratum) in strata
        ]
        assert sorted(first for first, _ in pairs) == expected
        used.append({row for pair in pairs for row in pair})
        assert used[-1] <= set(part.tolist())
    assert not used[0] & used[1]


def test_controls_of_other_rows(make_file: MakeFile) -> None:
    obs = pd.DataFrame({"target": ["none", "A"] * 10})
    path = file_of(make_file, obs)
    chosen: dict[str, Any] = {"rows": range(10, 20), "control_rows": np.arange(20) < 4}
    pairs = [pair for plan in paired_plans(path, "target", "none", [], **chosen) for pair in plan]
    assert sorted(first for first, _ in pairs) == [11, 13, 15, 17, 19]
    assert {second for _, second in pairs} <= {0, 2}
    only = paired_plans(path, "target", "none", [], control_rows=[2])
    assert {second for plan in only for _, second in plan} == {2} and only.n_pairs == 10
    with pytest.raises(ValueError, match=r"none of the 5 perturbed cells has a control"):
        paired_plans(path, "target", "none", [], rows=range(10, 20), control_rows=[1, 3])
    with pytest.raises(ValueError, match=r"no cell is perturbed, .* are 'none' or gaps in rows"):
        paired_plans(path, "target", "none", [], rows=[0, 2])
    with pytest.raises(ValueError, match="control_rows holds 20, but the cells are numbered"):
        paired_plans(path, "target", "none", [], control_rows=[20])


def test_cells_of_one_modality(tmp_path: Path) -> None:
    import anndata
    import mudata

    names = [f"c{i}" for i in range(8)]
    rna = anndata.AnnData(np.ones((8, 3), np.float32), obs=pd.DataFrame(index=names))
    adt = anndata.AnnData(np.ones((4, 2), np.float32), obs=pd.DataFrame(index=names[::2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = mudata.MuData({"rna": rna, "adt": adt})
        both.obs["target"] = ["none", "none", "x", "x", "x", "none", "none", "x"]
        scx_core.from_mudata(both, tmp_path / "two.scx")
    plans = paired_plans(tmp_path / "two.scx", "target", "none", [], modality="adt")
    pairs = [pair for plan in plans for pair in plan]
    assert sorted(first for first, _ in pairs) == [2, 4]
    assert {second for _, second in pairs} <= {0, 6}
    assert paired_plans(tmp_path / "two.scx", "target", "none", []).n_pairs == 4
    with pytest.raises(KeyError, match="atac"):
        paired_plans(tmp_path / "two.scx", "target", "none", [], modality="atac")


def test_as_plans_of_a_data_set(make_file: MakeFile) -> None:
    path = file_of(make_file, screen())
    plans = quiet(path, "target", "none", MATCH, 50)
    with IndexPlanDataset(path, obs_columns=["target", *MATCH], sort_by_shard=False) as dataset:
        for batch, plan in zip(dataset.iter_with_plans(plans), plans, strict=True):
            assert batch["pairs"] == plan
            obs, paired = batch["obs"], batch["obs_paired"]
            np.testing.assert_array_equal(obs["batch"], paired["batch"])
            labels = paired["target"]["categories"]  # type: ignore[call-overload]
            codes = paired["target"]["codes"]  # type: ignore[call-overload]
            assert {labels[code] for code in codes} == {"none"}


def test_another_process_makes_the_same_plans(make_file: MakeFile) -> None:
    path = file_of(make_file, screen())
    code = (
        "import json, sys, warnings; warnings.simplefilter('ignore')\n"
        "from scx_train import paired_plans\n"
        "print(json.dumps(list(paired_plans(sys.argv[1], 'target', 'none', seed=11))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    found = [[tuple(pair) for pair in plan] for plan in json.loads(done.stdout)]
    assert found == list(quiet(path, "target", "none", seed=11))


def test_many_strata(make_file: MakeFile) -> None:
    """As many strata as there are pairs: no loop over strata would show in the outcome."""
    n = 20_000
    obs = pd.DataFrame(
        {"target": np.repeat([0, 1], n), "batch": np.tile(np.arange(n), 2), "cell_type": "T"}
    )
    path = make_file(matrix=np.ones((2 * n, 1), np.float32), obs=obs, shard_size=5000)
    plans = paired_plans(path, "target", 0, ["batch", "cell_type"])
    assert sorted(p for plan in plans for p in plan) == [(n + i, i) for i in range(n)]


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions Python calls for it, those of C included."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_the_set_up_grows_as_the_strata_do(make_file: MakeFile) -> None:
    """Ten times the strata: the same calls, and ten times those about strata without a control."""
    with_control, without = [], []
    quiet(file_of(make_file, screen()), "target", "none")  # imports and caches are no part of it
    for n in (1_000, 10_000):
        obs = pd.DataFrame({"target": np.repeat([0, 1], n), "batch": np.tile(np.arange(n), 2)})
        one_shard: dict[str, Any] = {
            "matrix": np.ones((2 * n, 1), np.float32),
            "shard_size": 2 * n,
        }
        path = make_file(**one_shard, obs=obs, name=f"{n}.scx")
        with_control.append(calls_of(lambda path=path: paired_plans(path, "target", 0, ["batch"])))  # type: ignore[misc]
        obs = obs.assign(target=[0] + [1] * (2 * n - 1))
        path = make_file(**one_shard, obs=obs, name=f"{n}-.scx")
        plans = quiet(path, "target", 0, ["batch"])
        assert len(plans.strata_without_control) == n - 1
        without.append(calls_of(lambda plans=plans: plans.strata_without_control))  # type: ignore[misc]
    assert with_control[1] < 1.5 * with_control[0]
    assert without[1] < 11 * without[0]
