"""Loaders and trainers around the iterables: two processes of accelerate and of the HF Trainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader

from scx_train import IndexPlanDataset, MultimodalTrainingDataset, TrainingDataset
from scx_train.torch import (
    MultimodalTrainingIterable,
    PlanIterable,
    TrainingIterable,
    callers,
    whole_batch,
)

MakeFile = Callable[..., Path]

# What each process gets, run by torchrun. A case is (what, dispatch_batches, num_workers, batch
# size of the DataLoader), and all of them share one start.
ACCELERATE = """
    import json, sys, warnings
    warnings.simplefilter("ignore")
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader
    from scx_train import IndexPlanDataset
    from scx_train.torch import (
        MultimodalTrainingIterable, PlanIterable, TrainingIterable, whole_batch,
    )

    PLANS = [[(row, row + 1), (row + 1, row)] for row in range(0, 36, 2)]

    def iterable(what):
        if what == "cells":
            return TrainingIterable(path, 8, obs_columns=["type", "number"])
        if what == "labels":
            return TrainingIterable(path, 7, batch_by="type")
        if what == "csr":
            return TrainingIterable(path, 8, layout="csr")
        if what == "modalities":
            return MultimodalTrainingIterable(multimodal, batch_size=6, obs_columns=["donor"])
        if what == "uneven plans":
            return PlanIterable(IndexPlanDataset, path, plans=[[(0, 1)], *PLANS])
        return PlanIterable(IndexPlanDataset, path, plans=PLANS, obs_columns=["type"])

    def rows(batch):
        if "pairs" in batch:
            return batch["pairs"].tolist()
        if "number" in batch["obs"]:  # rows and values belong together
            assert batch["obs"]["number"].tolist() == batch["cell_indices"].tolist()
            assert len(batch["obs"]["type"]["codes"]) == len(batch["X"])
        return batch["cell_indices"].tolist()

    path, multimodal, folder, cases = sys.argv[1:]
    results = []
    for what, dispatch, num_workers, batch_size in json.loads(cases):
        configuration = DataLoaderConfiguration(dispatch_batches=dispatch)
        accelerator = Accelerator(cpu=True, dataloader_config=configuration)
        collation = {} if batch_size is None else {"collate_fn": whole_batch}
        loader = DataLoader(
            iterable(what), batch_size=batch_size, num_workers=num_workers, **collation
        )
        loader = accelerator.prepare(loader)
        length = len(loader)
        try:
            epochs = [[rows(batch) for batch in loader] for _ in range(2)]
        except ValueError as error:
            # The other process waits for a batch that never comes.
            results.append(str(error))
            break
        results.append({"length": length, "epochs": epochs})
    with open(f"{folder}/rank{accelerator.process_index}.json", "w") as file:
        json.dump(results, file)
    import os
    os._exit(0)
"""


@pytest.fixture
def path(make_file: MakeFile) -> Path:
    return cells_file(make_file, 101)


def cells_file(make_file: MakeFile, n_obs: int) -> Path:
    kinds = pd.Categorical(np.array(["a", "b"])[np.arange(n_obs) % 2])
    return make_file(
        n_obs,
        name=f"cells{n_obs}.scx",
        obs=pd.DataFrame({"type": kinds, "number": np.arange(n_obs)}),
    )


def run(tmp_path: Path, script: str, *arguments: str) -> list[Any]:
    """What each of two processes wrote."""
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    result = subprocess.run(
        [*command, str(file), *arguments],
        capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    files = [tmp_path / f"rank{rank}.json" for rank in range(2)]
    assert result.returncode == 0 and files[0].exists(), result.stderr
    return [json.loads(f.read_text(encoding="utf-8")) if f.exists() else None for f in files]


def counted(ranks: list[Any], epoch: int) -> Counter[Any]:
    return Counter(
        tuple(row) if isinstance(row, list) else row
        for rank in ranks
        for batch in rank["epochs"][epoch]
        for row in batch
    )


def test_accelerate_gives_every_cell_once(
    make_file: MakeFile, multimodal: tuple[Any, Path], tmp_path: Path
) -> None:
    pytest.importorskip("accelerate")
    cases = [
        [what, dispatch, num_workers, batch_size]
        for what in ("cells", "modalities", "plans")
        for dispatch in (None, True, False)
        for num_workers, batch_size in ([(0, None), (2, 1)] if what == "cells" else [(0, None)])
    ]
    cases += [["labels", False, 0, None], ["csr", False, 0, None], ["plans", False, 2, None]]
    path = cells_file(make_file, 100)
    ranks = run(
        tmp_path, ACCELERATE, str(path), str(multimodal[1]), str(tmp_path), json.dumps(cases)
    )
    pairs = [pair for row in range(0, 36, 2) for pair in ((row, row + 1), (row + 1, row))]
    for (what, *case), *found in zip(cases, *ranks, strict=True):
        expected = {"modalities": range(60), "plans": pairs}.get(what, range(100))
        for epoch in range(2):
            assert counted(found, epoch) == Counter(expected), (what, case)
            lengths = [len(rank["epochs"][epoch]) for rank in found]
            assert lengths == [rank["length"] for rank in found], (what, case)
        assert what == "plans" or found[0]["epochs"][0] != found[0]["epochs"][1]


def test_accelerate_and_cells_that_cannot_be_divided(
    path: Path, multimodal: tuple[Any, Path], tmp_path: Path
) -> None:
    """Where accelerate dispatches, it fills the last batch up with cells of the first."""
    pytest.importorskip("accelerate")
    cases = [["cells", False, 0, None], ["cells", None, 0, None]]
    ranks = run(
        tmp_path, ACCELERATE, str(path), str(multimodal[1]), str(tmp_path), json.dumps(cases)
    )
    own, dispatched = zip(*ranks, strict=True)
    for epoch in range(2):
        assert counted(list(own), epoch) == Counter(range(101))
        counts = counted(list(dispatched), epoch)
        assert set(counts) == set(range(101)) and counts.total() == 102


@pytest.mark.parametrize(
    ("what", "message"),
    [
        # 51 and 50 cells in batches of 7, whose tails have 2 cells and 1
        ("labels", r"has 7 cells and is not the last"),
        ("csr", r"batch\['X'\] of TrainingIterable is sparse"),
        ("uneven plans", r"batch 0 of PlanIterable has 1 cells and is not the last"),
    ],
)
def test_what_cannot_be_dispatched_is_refused(
    path: Path, what: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatch = callers.Dispatch(2, n_together=2, reads=True)
    monkeypatch.setattr(callers, "find_dispatch", lambda: dispatch)
    if what == "uneven plans":
        plans = [[(0, 1)], [(0, 1), (1, 2)]]
        iterable: Any = PlanIterable(IndexPlanDataset, path, plans=plans)
    else:
        options: dict[str, Any] = {"batch_by": "type"} if what == "labels" else {"layout": "csr"}
        iterable = TrainingIterable(path, 7, **options)
    with pytest.raises(ValueError, match=f"{message}.*dispatch_batches=False"):
        list(iterable)


HF_TRAINER = """
    import json, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    from transformers import Trainer, TrainingArguments
    from scx_train.torch import TrainingIterable, whole_batch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(30, 1)
            self.seen = []

        def forward(self, X, cell_indices, obs):
            if self.training:
                self.seen.append(cell_indices.tolist())
                assert obs["number"].tolist() == cell_indices.tolist()
            return {"loss": self.layer(X).square().mean()}

    path, folder = sys.argv[1:]
    results = []
    for dispatch in (None, False):
        model = Model()
        arguments = TrainingArguments(
            output_dir=folder, use_cpu=True, num_train_epochs=2, per_device_train_batch_size=1,
            save_strategy="no", report_to="none", disable_tqdm=True, label_names=[],
            accelerator_config={"dispatch_batches": dispatch}, ddp_find_unused_parameters=False,
        )
        cells = TrainingIterable(path, 8, obs_columns=["number"])
        trainer = Trainer(model, arguments, train_dataset=cells, data_collator=whole_batch)
        trainer.train()
        assert trainer.state.global_step == len(model.seen), (trainer.state, len(model.seen))
        half = len(model.seen) // 2
        results.append({"epochs": [model.seen[:half], model.seen[half:]]})
    with open(f"{folder}/rank{arguments.process_index}.json", "w") as file:
        json.dump(results, file)
"""


def test_the_hf_trainer_gives_every_cell_once(make_file: MakeFile, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = cells_file(make_file, 100)
    ranks = run(tmp_path, HF_TRAINER, str(path), str(tmp_path))
    for found in zip(*ranks, strict=True):
        for epoch in range(2):
            assert counted(list(found), epoch) == Counter(range(100))


def test_a_loader_that_would_stack_batches_is_refused(path: Path) -> None:
    for options in ({}, {"batch_size": 512}, {"batch_size": 1, "num_workers": 1}):
        loader = DataLoader(TrainingIterable(path, 8), **options)
        with pytest.raises(ValueError, match="batch_size=None"):
            next(iter(loader))
    loader = DataLoader(TrainingIterable(path, 8), batch_size=1, collate_fn=whole_batch)
    assert sum(len(batch["X"]) for batch in loader) == 101
    loader = DataLoader(TrainingIterable(path, 8), batch_size=2, collate_fn=whole_batch)
    with pytest.raises(ValueError, match="took 2 batches at a time"):
        next(iter(loader))
    transformers = pytest.importorskip("transformers")
    loader = DataLoader(
        TrainingIterable(path, 8), batch_size=1, collate_fn=transformers.default_data_collator
    )
    with pytest.raises(ValueError, match=r"data_collator=scx_train\.torch\.whole_batch"):
        next(iter(loader))


class Cells(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """Single cells, which a DataLoader may put together."""

    def __init__(self, batches: TrainingIterable) -> None:
        self.batches = batches

    def __iter__(self) -> Any:
        for batch in self.batches:
            yield from batch["cell_indices"]


def test_a_data_set_of_the_users_may_stack(path: Path) -> None:
    loader = DataLoader(Cells(TrainingIterable(path, 8, shuffle=False)), batch_size=50)
    assert [batch.tolist() for batch in loader] == [
        list(range(50)), list(range(50, 100)), [100],
    ]  # fmt: skip


def test_a_data_set_in_a_loader_names_its_iterable(
    path: Path, multimodal: tuple[Any, Path]
) -> None:
    with pytest.raises(TypeError, match=r"scx_train.torch.TrainingIterable\(...\)"):
        next(iter(DataLoader(TrainingDataset(path), batch_size=None)))
    dataset = MultimodalTrainingDataset(multimodal[1])
    with pytest.raises(TypeError, match=r"scx_train.torch.MultimodalTrainingIterable\(...\)"):
        next(iter(DataLoader(dataset, batch_size=None)))


def test_reprs(path: Path, multimodal: tuple[Any, Path]) -> None:
    for iterable, dataset in (
        (TrainingIterable(path, 8), TrainingDataset(path, 8)),
        (MultimodalTrainingIterable(multimodal[1]), MultimodalTrainingDataset(multimodal[1])),
    ):
        assert repr(iterable) == repr(dataset).replace("Dataset(", "Iterable(", 1)
    plans = PlanIterable(IndexPlanDataset, path, plans=[[(0, 1)], [(1, 2)]])
    assert repr(plans) == f"PlanIterable(IndexPlanDataset, {str(path)!r}, 2 plans)"
