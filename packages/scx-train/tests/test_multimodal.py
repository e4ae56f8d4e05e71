"""Several modalities at once, against the MuData that the file was written from."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_train import MultimodalTrainingDataset, TrainingDataset

RAW = {"normalize": False, "log1p": False}
NAMES = ("rna", "adt")


def expected(mdata: Any, name: str, *, layer: str | None = None) -> npt.NDArray[np.float32]:
    """The values of a modality for each cell of the MuData, zero where it lacks the cell."""
    adata = mdata[name]
    matrix = adata.X if layer is None else adata.layers[layer]
    frame = pd.DataFrame(matrix.toarray(), index=adata.obs_names)
    filled = frame.reindex(mdata.obs_names).fillna(0.0)
    return filled.to_numpy(np.float32)


def measured(mdata: Any, name: str) -> npt.NDArray[np.bool_]:
    return np.isin(mdata.obs_names, mdata[name].obs_names)


def log_normalised(counts: npt.NDArray[np.float32], target_sum: float = 1e4) -> Any:
    totals = counts.sum(axis=1, dtype=np.float64, keepdims=True)
    return np.log1p(counts * (target_sum / np.where(totals > 0, totals, np.inf)))


def test_rows_of_all_matrices_are_the_same_cells(
    multimodal: tuple[Any, Path], expected_rows: Callable[..., list[int]]
) -> None:
    mdata, path = multimodal
    with MultimodalTrainingDataset(path, ["adt", "rna"], 7, seed=3, **RAW) as dataset:
        assert dataset.modalities == ["adt", "rna"]
        assert dataset.n_obs == mdata.n_obs == 60
        assert dataset.n_vars == dataset.n_output_genes == {"adt": 8, "rna": 30}
        assert len(dataset) == 9
        for epoch in range(2):
            rows: list[int] = []
            for batch in dataset:
                assert isinstance(batch, dict)
                assert list(batch) == ["X", "measured", "obs", "cell_indices"]
                assert list(batch["X"]) == list(batch["measured"]) == ["adt", "rna"]
                for name in NAMES:
                    assert batch["X"][name].dtype == np.float32
                    at = batch["cell_indices"]
                    np.testing.assert_array_equal(batch["X"][name], expected(mdata, name)[at])
                    np.testing.assert_array_equal(
                        batch["measured"][name], measured(mdata, name)[at]
                    )
                rows += batch["cell_indices"].tolist()
            wanted = expected_rows(60, shard_size=10, group_size=8, seed=3, epoch=epoch)
            assert rows == wanted


def test_the_order_is_that_of_a_single_matrix(tmp_path: Path) -> None:
    import mudata

    adata = anndata.AnnData(sp.csr_matrix(np.ones((47, 3), dtype=np.float32)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata = mudata.MuData({"a": adata, "b": adata.copy()})
        scx_core.from_mudata(mdata, tmp_path / "both.scx", shard_size=5)
    options: dict[str, Any] = {"seed": 9, "shard_group_size": 2, "rank": 1, "world_size": 3}
    single = TrainingDataset(tmp_path / "both.scx", 4, modality="a", **options)
    several = MultimodalTrainingDataset(tmp_path / "both.scx", batch_size=4, **options)
    for one, two in zip(single, several, strict=True):
        assert isinstance(two, dict)
        np.testing.assert_array_equal(one["cell_indices"], two["cell_indices"])
        assert two["measured"]["a"].all()
    assert several.measured["b"].all()


def test_transforms_by_modality(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    with MultimodalTrainingDataset(
        path,
        batch_size=60,
        shuffle=False,
        normalize={"adt": False},
        log1p={"adt": False},
        target_sum={"rna": 100.0},
        source={"rna": "layers/counts"},
    ) as dataset:
        (batch,) = dataset
        assert isinstance(batch, dict)
        raw = expected(mdata, "rna", layer="counts")
        np.testing.assert_allclose(batch["X"]["rna"], log_normalised(raw, 100.0), rtol=1e-6)
        np.testing.assert_array_equal(batch["X"]["adt"], expected(mdata, "adt"))
        assert "rna[layers/counts] 30 genes, adt 8 genes" in repr(dataset)
    with MultimodalTrainingDataset(
        path, batch_size=60, shuffle=False, pflog={"adt": True}, pflog_alpha={"adt": 0.5}
    ) as dataset:
        assert dataset.pflog_alpha == {"rna": None, "adt": 0.5}
        (batch,) = dataset
        assert isinstance(batch, dict)
        logs = np.log1p(2.0 * expected(mdata, "adt").astype(np.float64))
        centred = logs - logs.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(batch["X"]["adt"], centred, atol=1e-6)
        assert not batch["X"]["adt"][~measured(mdata, "adt")].any()
        rna = log_normalised(expected(mdata, "rna"))
        np.testing.assert_allclose(batch["X"]["rna"], rna, rtol=1e-6)


def test_an_overdispersion_is_estimated_from_the_cells_of_the_modality(
    multimodal: tuple[Any, Path],
) -> None:
    _, path = multimodal
    with MultimodalTrainingDataset(path, pflog={"adt": True}) as dataset:
        alpha = dataset.pflog_alpha["adt"]
    mdata, _ = multimodal
    counts = mdata["adt"].X.toarray().astype(np.float64)
    mean, variance = counts.mean(axis=0), counts.var(axis=0, ddof=1)
    wanted = np.sum(mean**2 * (variance - mean)) / np.sum(mean**4)
    assert wanted > 0
    assert alpha == pytest.approx(wanted)
    with TrainingDataset(path, modality="adt", pflog=True) as single:
        assert single.pflog_alpha == alpha


def test_panels_by_modality(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    with pytest.warns(UserWarning, match=r"hvg_indices\['rna'\] is not ascending"):
        dataset = MultimodalTrainingDataset(
            path, batch_size=60, shuffle=False, hvg_indices={"rna": [5, 2, 5]}
        )
    assert dataset.n_output_genes == {"rna": 2, "adt": 8}
    assert {name: found.tolist() for name, found in dataset.gene_indices.items()} == {
        "rna": [2, 5],
        "adt": list(range(8)),
    }
    assert dataset.var_names["rna"].tolist() == ["gene 2", "gene 5"]
    assert dataset.var_names["adt"].tolist() == mdata["adt"].var_names.tolist()
    (batch,) = dataset
    assert isinstance(batch, dict)
    # totals are those of all genes
    np.testing.assert_allclose(
        batch["X"]["rna"], log_normalised(expected(mdata, "rna"))[:, [2, 5]], rtol=1e-6
    )
    assert "rna 2 of 30 genes, adt 8 genes" in repr(dataset)


def test_dtypes_by_modality(multimodal: tuple[Any, Path]) -> None:
    _, path = multimodal
    exact = MultimodalTrainingDataset(path, batch_size=11)
    half = MultimodalTrainingDataset(path, batch_size=11, dtype={"rna": "float16"})
    both = MultimodalTrainingDataset(path, batch_size=11, dtype="bfloat16")
    sizes = [
        dataset.memory_budget()["breakdown"]["batch_buffer_bytes"]
        for dataset in (exact, half, both)
    ]
    assert sizes[0] == 2 * sizes[2] > sizes[1] > sizes[2]
    for first, second, third in zip(exact, half, both, strict=True):
        assert isinstance(first, dict) and isinstance(second, dict) and isinstance(third, dict)
        assert [second["X"][name].dtype for name in NAMES] == [np.float16, np.float32]
        np.testing.assert_array_equal(second["X"]["rna"], first["X"]["rna"].astype(np.float16))
        np.testing.assert_array_equal(second["X"]["adt"], first["X"]["adt"])
        assert all(third["X"][name].dtype == np.uint16 for name in NAMES)
    with pytest.raises(ValueError, match="dtype='float64'"):
        MultimodalTrainingDataset(path, dtype={"adt": "float64"})  # type: ignore[dict-item]
    with pytest.raises(KeyError, match="dtype has an entry for 'atac'"):
        MultimodalTrainingDataset(path, dtype={"atac": "float16"})


def test_layouts_by_modality(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    dataset = MultimodalTrainingDataset(path, batch_size=11, layout={"rna": "csr"}, **RAW)
    for batch in dataset:
        assert isinstance(batch, dict)
        at = batch["cell_indices"]
        assert isinstance(batch["X"]["rna"], sp.csr_matrix)
        np.testing.assert_array_equal(batch["X"]["rna"].toarray(), expected(mdata, "rna")[at])
        np.testing.assert_array_equal(batch["X"]["adt"], expected(mdata, "adt")[at])
    dataset.close()


def test_tuples(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    with MultimodalTrainingDataset(
        path, ["adt", "rna"], 9, obs_columns=["donor"], return_dict=False, **RAW
    ) as dataset:
        for batch in dataset:
            assert isinstance(batch, tuple)
            adt, rna, rest = batch
            assert list(rest) == ["measured", "obs", "cell_indices"]
            at = rest["cell_indices"]
            np.testing.assert_array_equal(adt, expected(mdata, "adt")[at])
            np.testing.assert_array_equal(rna, expected(mdata, "rna")[at])
            np.testing.assert_array_equal(rest["obs"]["donor"], at)


def test_one_modality_streams_its_own_cells(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    with MultimodalTrainingDataset(path, ["adt"], **RAW) as dataset:
        assert dataset.n_obs == 40
        (batch,) = dataset
    assert isinstance(batch, dict)
    assert sorted(batch["cell_indices"]) == np.flatnonzero(measured(mdata, "adt")).tolist()
    assert batch["measured"]["adt"].all()


def test_cells_that_both_have(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    with MultimodalTrainingDataset(path) as dataset:
        masks = dataset.measured
    with MultimodalTrainingDataset(path, rows=masks["rna"] & masks["adt"]) as dataset:
        assert dataset.n_obs == 30
        (batch,) = dataset
    assert isinstance(batch, dict)
    assert batch["measured"]["rna"].all() and batch["measured"]["adt"].all()
    shared = measured(mdata, "rna") & measured(mdata, "adt")
    assert sorted(batch["cell_indices"]) == np.flatnonzero(shared).tolist()


def test_obs_of_the_file_and_of_modalities(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    columns = ["donor", "rna:phase", "depth", "passed", "adt:note"]
    with MultimodalTrainingDataset(
        path, batch_size=60, shuffle=False, obs_columns=columns, obsm=["umap", "rna:X_pca"]
    ) as dataset:
        (batch,) = dataset
    assert isinstance(batch, dict)
    obs = batch["obs"]
    assert list(obs) == columns
    np.testing.assert_array_equal(obs["donor"], np.arange(60))
    at = {name: mdata[name].obs.reindex(mdata.obs_names) for name in NAMES}
    phase = obs["rna:phase"]
    assert isinstance(phase, dict)
    np.testing.assert_array_equal(phase["codes"], at["rna"]["phase"].cat.codes)
    np.testing.assert_array_equal(obs["depth"], at["adt"]["depth"].to_numpy())
    np.testing.assert_array_equal(obs["passed"], at["adt"]["passed"].astype(float).to_numpy())
    note = obs["adt:note"]
    assert isinstance(note, dict)
    labels = [None if code < 0 else note["categories"][code] for code in note["codes"]]
    assert labels == [None if pd.isna(x) else x for x in at["adt"]["note"]]
    for key, name in (("umap", "adt"), ("rna:X_pca", "rna")):
        wanted = pd.DataFrame(mdata[name].obsm[key.split(":")[-1]], index=mdata[name].obs_names)
        np.testing.assert_array_equal(
            batch["obsm"][key], wanted.reindex(mdata.obs_names).to_numpy()
        )


@pytest.fixture
def ambiguous(tmp_path: Path) -> Path:
    import mudata

    parts = {}
    for name in NAMES:
        parts[name] = anndata.AnnData(sp.csr_matrix(np.ones((12, 3), dtype=np.float32)))
        parts[name].obs["n"] = np.arange(12)
        parts[name].obsm["X"] = np.ones((12, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata = mudata.MuData(parts)
        mdata.obs = mdata.obs[[]]
        scx_core.from_mudata(mdata, tmp_path / "ambiguous.scx", shard_size=5)
    return tmp_path / "ambiguous.scx"


def test_names_that_several_modalities_have(ambiguous: Path) -> None:
    with pytest.raises(ValueError, match=r"'n' is one of each of rna, adt .* 'rna:n' or 'adt:n'"):
        MultimodalTrainingDataset(ambiguous, obs_columns=["n"])
    with pytest.raises(ValueError, match="obsm entry 'X' is one of each"):
        MultimodalTrainingDataset(ambiguous, obsm=["X"])
    with MultimodalTrainingDataset(ambiguous, obs_columns=["adt:n"]) as dataset:
        (batch,) = dataset
    assert isinstance(batch, dict)
    # no gaps: whole numbers stay whole
    column = batch["obs"]["adt:n"]
    assert isinstance(column, np.ndarray) and column.dtype == np.int64
    np.testing.assert_array_equal(column, batch["cell_indices"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"modalities": ["rna", "atac"]}, KeyError, r"no modality 'atac'; it has .*'rna', 'adt'"),
        ({"modalities": "rna"}, TypeError, r"modalities='rna' must be a list .*\['rna', 'adt'\]"),
        ({"modalities": []}, ValueError, "modalities is empty"),
        ({"normalize": {"atac": True}}, KeyError, "normalize has an entry for 'atac'.*rna, adt"),
        ({"modalities": ["rna"], "log1p": {"adt": True}}, KeyError, "entry for 'adt'"),
        ({"hvg_indices": [1, 2]}, TypeError, "hvg_indices must be a dict"),
        ({"hvg_indices": {"adt": [8]}}, ValueError, r"hvg_indices\['adt'\] holds 8.*0 to 7"),
        ({"source": {"adt": "layers/counts"}}, KeyError, "'adt' .*no layer 'counts'"),
        ({"source": "raw"}, ValueError, "'rna' .*has no raw"),
        ({"layout": {"rna": "csr"}, "pflog": True}, ValueError, "exclude each other"),
        (
            {"obs_columns": ["phase", "age"]},
            KeyError,
            r"no obs column 'age'; it has (?!.*rna:phase.*rna:phase)(?=.*donor).*rna:phase",
        ),
        ({"obsm": ["tsne"]}, KeyError, "no obsm entry 'tsne'.*rna:X_pca.*adt:umap"),
        (
            {"modalities": {"rna", "adt"}},
            TypeError,
            "modalities must be .* not set, which has no order",
        ),
        ({"source": 3}, TypeError, "source=3 must be a str"),
        ({"source": {"adt": None}}, TypeError, "source=None must be a str"),
        ({"return_dict": 1}, TypeError, "return_dict=1 must be True or False"),
        ({"normalize": {"rna": "yes"}}, TypeError, "normalize='yes'"),
    ],
)
def test_refusals(
    multimodal: tuple[Any, Path], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        MultimodalTrainingDataset(multimodal[1], **options)


def test_a_file_without_modalities(make_file: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="single modality without a name: use TrainingDataset"):
        MultimodalTrainingDataset(make_file())


def test_shards_that_differ(
    multimodal: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from scx_core.writing import _write

    mdata, _ = multimodal
    whole = _write.write_matrix

    def with_other_shards(file: Any, plan: Any, settings: Any, *rest: Any) -> None:
        size = 15 if plan.modality_id == 2 else settings.shard_size
        whole(file, plan, replace(settings, shard_size=size), *rest)

    monkeypatch.setattr(_write, "write_matrix", with_other_shards)
    path = tmp_path / "differ.scx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scx_core.from_mudata(mdata, path, shard_size=10)
    with pytest.raises(
        ValueError,
        match=r"'rna' and 'adt' .*shard 0 has rows 0 to 9 in the one and rows 0 to 14 in the other",
    ):
        MultimodalTrainingDataset(path)
    for name in NAMES:  # one by one they can be streamed
        with MultimodalTrainingDataset(path, [name]) as dataset:
            assert sum(len(rows) for rows in cells(iter(dataset))) == dataset.n_obs


def test_counts_warning_names_the_modality(multimodal: tuple[Any, Path], tmp_path: Path) -> None:
    mdata, _ = multimodal
    mdata["adt"].X = sp.csr_matrix(mdata["adt"].X * 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scx_core.from_mudata(mdata, tmp_path / "halves.scx", shard_size=10)
    with pytest.warns(UserWarning, match="X of 'adt' of .* holds 0.5") as caught:
        MultimodalTrainingDataset(tmp_path / "halves.scx").close()
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultimodalTrainingDataset(tmp_path / "halves.scx", normalize={"adt": False}).close()


def cells(batches: Iterator[Any]) -> list[list[int]]:
    return [batch["cell_indices"].tolist() for batch in batches]


def test_life_is_that_of_a_training_dataset(multimodal: tuple[Any, Path]) -> None:
    _, path = multimodal
    dataset = MultimodalTrainingDataset(path, batch_size=8, seed=1)
    assert not dataset.closed
    first, second = cells(iter(dataset)), cells(iter(dataset))
    assert first != second
    assert dataset.epoch == 2
    dataset.close()
    dataset.close()
    assert dataset.closed
    assert repr(dataset).endswith("8 batches of 8, closed)")
    dataset.set_epoch(1)
    assert cells(iter(dataset)) == second
    assert not dataset.closed
    running = iter(dataset)
    next(running)
    dataset.close()
    with pytest.raises(RuntimeError, match="closed while this epoch was running"):
        next(running)


def test_going_on_in_the_middle(multimodal: tuple[Any, Path]) -> None:
    _, path = multimodal
    options: dict[str, Any] = {"batch_size": 8, "seed": 1, "drop_last": True}
    dataset = MultimodalTrainingDataset(path, **options)
    assert len(dataset) == 7
    batches = iter(dataset)
    for _ in range(3):
        next(batches)
    state = json.loads(json.dumps(dataset.state_dict()))
    resumed = MultimodalTrainingDataset(path, **options)
    resumed.load_state_dict(state)
    assert cells(iter(resumed)) == cells(batches)
    with (
        TrainingDataset(path, 8, modality="rna", seed=1, drop_last=True) as other,
        pytest.raises(ValueError, match="state was saved with"),
    ):
        other.load_state_dict(state)
    with (
        MultimodalTrainingDataset(path, ["rna"], **options) as fewer,
        pytest.raises(ValueError, match="state was saved with"),
    ):
        fewer.load_state_dict(state)


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({"hvg_indices": {"adt": [0, 3]}}, "hvg_indices['adt'] names other genes here"),
        ({"normalize": {"adt": False}}, "saved with normalize['adt']=True"),
        ({"log1p": False}, "saved with log1p['rna']=True"),
        ({"target_sum": {"rna": 10.0}}, "saved with target_sum['rna']=10000.0"),
        ({"pflog": {"rna": True}, "pflog_alpha": 1.0}, "saved with pflog['rna']=False"),
        ({"layout": {"adt": "csr"}}, "saved with layout['adt']='dense'"),
        ({"dtype": {"rna": "float16"}}, "saved with dtype['rna']='float32'"),
        ({"source": {"rna": "layers/counts"}}, "saved with matrices='rna/X, adt/X'"),
        ({"modalities": ["adt", "rna"]}, "saved with matrices='rna/X, adt/X'"),
    ],
)
def test_states_of_other_matrices_are_refused(
    multimodal: tuple[Any, Path], others: dict[str, Any], named: str
) -> None:
    _, path = multimodal
    state = MultimodalTrainingDataset(path, ["rna", "adt"]).state_dict()
    with (
        MultimodalTrainingDataset(path, **{"modalities": ["rna", "adt"], **others}) as other,
        pytest.raises(ValueError, match=re.escape(named)),
    ):
        other.load_state_dict(state)


def test_ranks_and_workers_share_an_epoch(multimodal: tuple[Any, Path]) -> None:
    _, path = multimodal
    seen: list[int] = []
    lengths = set()
    for rank in range(2):
        for shard in range(2):
            dataset = MultimodalTrainingDataset(
                path, batch_size=5, rank=rank, world_size=2, shard=shard, num_shards=2
            )
            batches = cells(iter(dataset))
            lengths.add(len(batches))
            seen += [row for batch in batches for row in batch]
            dataset.close()
    assert sorted(seen) == list(range(60))
    assert lengths == {3}


def test_draws(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    with MultimodalTrainingDataset(path, batch_by="rna:phase", batch_size=6, **RAW) as dataset:
        labels = mdata["rna"].obs["phase"].reindex(mdata.obs_names)
        for batch in dataset:
            assert isinstance(batch, dict)
            assert labels.iloc[batch["cell_indices"]].nunique(dropna=False) == 1


def test_one_budget_for_all(multimodal: tuple[Any, Path]) -> None:
    _, path = multimodal
    with MultimodalTrainingDataset(path, batch_size=1000, threads=1) as dataset:
        budget = dataset.memory_budget()
        assert budget["breakdown"]["batch_buffer_bytes"] == 6 * 1000 * (30 + 8) * 4
        assert budget["breakdown"]["total_bytes"] == budget["estimated_mb"] * 2**20
        assert budget["mmap_mb"] == path.stat().st_size / 2**20
    with pytest.warns(UserWarning, match="cells instead of batch_size=20000"):
        small = MultimodalTrainingDataset(path, batch_size=20_000, threads=1, max_memory_mb=8)
    with small:
        budget = small.memory_budget()
        assert budget["estimated_mb"] <= 8
        assert budget["prefetch_batches"] == 2
        assert small.effective_batch_size == budget["batch_size"] < 20_000
        assert not small.budget_exceeded


def iterate(dataset: Any, results: Any) -> None:
    try:
        next(iter(dataset))
        results.put("a batch")
    except RuntimeError as error:
        results.put(str(error))


def test_another_process(multimodal: tuple[Any, Path]) -> None:
    _, path = multimodal
    with MultimodalTrainingDataset(path) as dataset:
        next(iter(dataset))
        with pytest.raises(RuntimeError, match="a MultimodalTrainingDataset cannot be sent"):
            pickle.dumps(dataset)
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forking with threads
            child = context.Process(target=iterate, args=(dataset, results))
            child.start()
        message = results.get(timeout=30)
        child.join(timeout=30)
    assert "this MultimodalTrainingDataset was built in process" in message
    assert "num_workers=0" in message


def test_a_file_that_was_replaced(multimodal: tuple[Any, Path], tmp_path: Path) -> None:
    mdata, path = multimodal
    dataset = MultimodalTrainingDataset(path)
    dataset.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scx_core.from_mudata(mdata, tmp_path / "other.scx", shard_size=20)
    (tmp_path / "other.scx").replace(path)
    with pytest.raises(RuntimeError, match="replaced by a file of other content"):
        iter(dataset)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts in /proc")
def test_epochs_that_end_early_and_close_leave_no_thread_and_no_open_file(
    multimodal: tuple[Any, Path],
) -> None:
    def now() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    _, path = multimodal
    gc.collect()  # what earlier tests left
    before = now()
    dataset = MultimodalTrainingDataset(path, batch_size=4, threads=2)
    assert now()[0] == before[0]
    for number in range(30):
        batches = iter(dataset)
        for _ in range(number % 7):
            next(batches)
        del batches
    assert now()[0] <= before[0] + 2 * (2 + 1)
    dataset.close()
    del dataset
    gc.collect()
    assert now() == before


MEASURE = """
import json, sys, time
import numpy
from scx_train import MultimodalTrainingDataset

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) / 1024

options = {"threads": 2, "prefetch_batches": 8, "normalize": False, "log1p": False}
with MultimodalTrainingDataset(sys.argv[1], ["a"], 1, **options) as first:
    next(iter(first))
del first
before, most = own(), 0
dataset = MultimodalTrainingDataset(sys.argv[1], batch_size=128, **options)
for batch in dataset:
    time.sleep(0.01)
    most = max(most, own())
print(json.dumps([most - before, dataset.memory_budget()["estimated_mb"]]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
def test_what_is_used_is_what_is_said(tmp_path: Path) -> None:
    import mudata

    def wide(n_vars: int, seed: int) -> anndata.AnnData:
        matrix = sp.random(2000, n_vars, density=0.005, format="csr", random_state=seed)
        matrix.data = np.ceil(matrix.data * 5)
        adata = anndata.AnnData(sp.csr_matrix(matrix, dtype=np.float32))
        adata.var_names = [f"{seed}-{number}" for number in range(n_vars)]
        return adata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata = mudata.MuData({"a": wide(20_000, 1), "b": wide(30_000, 2)})
        scx_core.from_mudata(mdata, tmp_path / "wide.scx", shard_size=200)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "wide.scx")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    used, said = json.loads(done.stdout)
    assert said > 200
    assert abs(used - said) <= 0.15 * said + 50, (used, said)


def test_deleted_rows_never_come(multimodal: tuple[Any, Path]) -> None:
    mdata, path = multimodal
    deleted = [0, 25, 59]
    scx_core.mark_deleted(path, deleted)
    left = np.setdiff1d(np.arange(60), deleted)
    with MultimodalTrainingDataset(
        path, batch_size=60, shuffle=False, obs_columns=["donor", "depth"], **RAW
    ) as dataset:
        (batch,) = dataset
    assert isinstance(batch, dict)
    np.testing.assert_array_equal(batch["cell_indices"], left)
    np.testing.assert_array_equal(batch["obs"]["donor"], left)
    for name in NAMES:
        np.testing.assert_array_equal(batch["X"][name], expected(mdata, name)[left])
        np.testing.assert_array_equal(batch["measured"][name], measured(mdata, name)[left])
    depth = mdata["adt"].obs["depth"].reindex(mdata.obs_names).to_numpy()
    np.testing.assert_array_equal(batch["obs"]["depth"], depth[left])
