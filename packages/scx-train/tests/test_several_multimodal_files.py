"""Several modalities of several files as one data set, against anndata.concat, pandas and numpy."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scanpy
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import scx_core
from scx_train import MultimodalTrainingDataset, TrainingDataset

RAW = {"normalize": False, "log1p": False}
GENES = [f"g{number}" for number in range(12)]
PROTEINS = [f"p{number}" for number in range(5)]
ORDERED: dict[str, Any] = {"batch_size": 1000, "shuffle": False}


def counts(n_obs: int, genes: list[str], seed: int, names: list[str]) -> anndata.AnnData:
    rng = np.random.default_rng(seed)
    values = rng.geometric(0.4, (n_obs, len(genes))) * (rng.random((n_obs, len(genes))) < 0.6)
    adata = anndata.AnnData(sp.csr_matrix(values.astype(np.float32)))
    adata.obs_names, adata.var_names = names, genes
    return adata


def donor(
    number: int,
    *,
    n_obs: int = 20,
    genes: list[str] = GENES,
    proteins: list[str] = PROTEINS,
    n_rna: int | None = None,
    n_adt: int | None = None,
) -> dict[str, anndata.AnnData]:
    """The first `n_rna` and the last `n_adt` of a donor's cells, by modality."""
    names = [f"donor{number}-cell{row}" for row in range(n_obs)]
    of_rna, of_adt = names[:n_rna], names[-n_adt if n_adt else 0 :]
    return {
        "rna": counts(len(of_rna), genes, 10 + number, of_rna),
        "adt": counts(len(of_adt), proteins, 20 + number, of_adt),
    }


def write(parts: dict[str, anndata.AnnData], path: Path, **options: Any) -> pd.Index:
    """Write a file; returns the names of its cells, in the order of its rows."""
    import mudata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata = mudata.MuData(parts)
        obs = options.pop("obs", None)
        for name in obs or ():
            mdata.obs[name] = obs[name]
        scx_core.from_mudata(mdata, path, shard_size=8, overwrite=True, **options)
    return mdata.obs_names


Save = Callable[..., tuple[list[Path], list[pd.Index]]]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    def write_all(*donors: dict[str, anndata.AnnData]) -> tuple[list[Path], list[pd.Index]]:
        paths = [tmp_path / f"donor{number}.scx" for number in range(len(donors))]
        names = [write(parts, path) for parts, path in zip(donors, paths, strict=True)]
        return paths, names

    return write_all


def values_of(
    donors: list[dict[str, anndata.AnnData]], cells: list[pd.Index], name: str, genes: list[str]
) -> npt.NDArray[np.float32]:
    """The values of a modality for the cells of all files, zero where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = anndata.concat([parts[name] for parts in donors], join="outer").to_df()
    everything = pd.Index(np.concatenate(cells))
    frame = whole.reindex(index=everything, columns=genes).fillna(0.0)
    return frame.to_numpy(np.float32)


def measured_of(
    donors: list[dict[str, anndata.AnnData]], cells: list[pd.Index], name: str
) -> list[bool]:
    return [
        cell in set(parts[name].obs_names)
        for parts, names in zip(donors, cells, strict=True)
        for cell in names
    ]


def whole_epoch(dataset: MultimodalTrainingDataset) -> dict[str, Any]:
    """One epoch, in the order of the rows."""
    batches: list[Any] = list(dataset)
    rows = np.concatenate([batch["cell_indices"] for batch in batches])
    order = np.argsort(rows)
    joined: dict[str, Any] = {"cell_indices": rows[order]}
    joined["file_ids"] = np.concatenate([batch["file_ids"] for batch in batches])[order]
    for key in ("X", "measured"):
        joined[key] = {}
        for name in dataset.modalities:
            parts = [batch[key][name] for batch in batches]
            whole = sp.vstack(parts).toarray() if sp.issparse(parts[0]) else np.concatenate(parts)
            joined[key][name] = whole[order]
    return joined


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_cells_of_all_files_row_for_row(save: Save, layout: Any) -> None:
    donors = [donor(0), donor(1, n_obs=13, n_rna=10, n_adt=9), donor(2, n_obs=1)]
    paths, cells = save(*donors)
    with MultimodalTrainingDataset(
        paths, ["adt", "rna"], batch_size=7, layout={"rna": layout}, **RAW
    ) as dataset:
        assert dataset.paths == tuple(map(str, paths))
        assert dataset.n_obs == 34
        assert dataset.row_offsets.tolist() == [0, 20, 33, 34]
        assert dataset.n_vars == dataset.n_output_genes == {"adt": 5, "rna": 12}
        assert dataset.var_names["adt"].tolist() == PROTEINS
        found = whole_epoch(dataset)
        for name in ("rna", "adt"):
            genes = GENES if name == "rna" else PROTEINS
            wanted = measured_of(donors, cells, name)
            assert dataset.measured[name].tolist() == wanted
            assert found["measured"][name].tolist() == wanted
            np.testing.assert_array_equal(found["X"][name], values_of(donors, cells, name, genes))
            assert dataset.measured_genes[name].shape == (3, len(genes))
            assert dataset.measured_genes[name].all()
            assert [match.share_known for match in dataset.gene_matches[name]] == [1, 1, 1]
        assert found["cell_indices"].tolist() == list(range(34))
        assert found["file_ids"].tolist() == [0] * 20 + [1] * 13 + [2]
        (batch, *_) = dataset
        assert isinstance(batch, dict)
        assert list(batch) == [
            "X", "measured", "obs", "cell_indices", "file_ids", "measured_genes",
        ]  # fmt: skip
        assert batch["file_ids"].dtype == np.int32
        assert not batch["measured_genes"]["rna"].flags.writeable


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"shard_group_size": 2, "rank": 1, "world_size": 2},
        {"shard": 1, "num_shards": 2, "drop_last": True},
        {"weights": np.arange(53.0)},
        {"rows": np.arange(0, 53, 2)},
    ],
    ids=str,
)
def test_the_order_is_that_of_a_training_dataset(save: Save, options: dict[str, Any]) -> None:
    paths, _ = save(donor(0), donor(1, n_obs=33))
    joint = MultimodalTrainingDataset(paths, batch_size=6, seed=9, **options)
    single = TrainingDataset(paths, 6, seed=9, modality="adt", **options)
    for _ in range(3):
        for one, two in zip(joint, single, strict=True):
            assert isinstance(one, dict)
            np.testing.assert_array_equal(one["cell_indices"], two["cell_indices"])
            np.testing.assert_array_equal(one["file_ids"], two["file_ids"])
            np.testing.assert_array_equal(one["X"]["adt"], two["X"])
    joint.close()
    single.close()


def test_defaults_and_names_are_those_of_a_training_dataset() -> None:
    import inspect

    one = inspect.signature(TrainingDataset).parameters
    two = inspect.signature(MultimodalTrainingDataset).parameters
    assert set(one) - set(two) == {"modality"}
    assert set(two) - set(one) == {"modalities", "return_dict"}
    for name in set(one) & set(two):
        assert one[name].default == two[name].default, name
        assert one[name].kind == two[name].kind, name


def test_each_modality_has_genes_of_its_own(save: Save) -> None:
    donors = [
        donor(0),
        donor(1, genes=GENES[::-1][:9], proteins=["p3", "p1", "other"]),
        donor(2, genes=[*GENES[4:], "only here"]),
    ]
    paths, cells = save(*donors)
    with MultimodalTrainingDataset(
        paths,
        genes={"rna": "union", "adt": ["p3", "p0", "p1"]},
        hvg_indices={"rna": [2, 5, 12]},
        min_known_genes={"adt": 0.6},
        **ORDERED,
        **RAW,
    ) as dataset:
        (batch,) = dataset
        assert isinstance(batch, dict)
        assert dataset.n_vars == {"rna": 13, "adt": 3}
        names = {name: found.tolist() for name, found in dataset.var_names.items()}
        assert names == {"rna": ["g2", "g5", "only here"], "adt": ["p3", "p0", "p1"]}
        matches = dataset.gene_matches
        assert [match.n_known for match in matches["rna"]] == [9, 9, 8]
        assert [round(match.share_known, 3) for match in matches["adt"]] == [1, 0.667, 1]
        assert [match.path for match in matches["adt"]] == [str(path) for path in paths]
    for name in ("rna", "adt"):
        wanted = values_of(donors, cells, name, names[name])
        np.testing.assert_array_equal(batch["X"][name], wanted)
        for number, parts in enumerate(donors):
            own = [gene in parts[name].var_names for gene in names[name]]
            assert batch["measured_genes"][name][number].tolist() == own
    np.testing.assert_array_equal(batch["file_ids"], np.repeat([0, 1, 2], 20))


def test_totals_are_over_all_genes_of_a_file_and_modality(save: Save) -> None:
    donors = [donor(0), donor(1, genes=[*GENES[5:], "h0", "h1"], proteins=PROTEINS[::-1])]
    paths, _ = save(*donors)
    with MultimodalTrainingDataset(
        paths, genes="intersection", target_sum={"adt": 100.0}, **ORDERED
    ) as dataset:
        (batch,) = dataset
        assert isinstance(batch, dict)
        names = dataset.var_names
        alone = {}
        for name in ("rna", "adt"):  # each as the file's own data set has it
            with TrainingDataset(
                paths,
                modality=name,
                genes="intersection",
                target_sum=1e4 if name == "rna" else 100.0,
                **ORDERED,
            ) as single:
                assert single.var_names.tolist() == names[name].tolist()
                (alone[name],) = single
    for name, target in (("rna", 1e4), ("adt", 100.0)):
        parts = []
        for each in donors:
            adata = each[name].copy()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Some cells have zero counts")
                scanpy.pp.normalize_total(adata, target_sum=target)
            scanpy.pp.log1p(adata)
            parts.append(adata.to_df()[names[name].tolist()].to_numpy())
        np.testing.assert_allclose(batch["X"][name], np.concatenate(parts), rtol=1e-5)
        np.testing.assert_array_equal(batch["X"][name], alone[name]["X"])


def test_pflog_of_one_modality(save: Save) -> None:
    donors = [donor(0, n_obs=60, n_adt=40), donor(1, n_obs=60, proteins=PROTEINS[::-1])]
    paths, cells = save(*donors)
    with MultimodalTrainingDataset(
        paths, genes="union", pflog={"adt": True}, dtype={"rna": "float16"}, **ORDERED
    ) as dataset:
        (batch,) = dataset
        assert isinstance(batch, dict)
        alpha = dataset.pflog_alpha["adt"]
    assert alpha is not None and batch["X"]["rna"].dtype == np.float16
    values = values_of(donors, cells, "adt", PROTEINS).astype(np.float64)
    mask = np.array(measured_of(donors, cells, "adt"))
    mean, variance = values[mask].mean(axis=0), values[mask].var(axis=0, ddof=1)
    assert alpha == pytest.approx(np.sum(mean**2 * (variance - mean)) / np.sum(mean**4))
    logs = np.log1p(4 * alpha * values)
    wanted = logs - logs.mean(axis=1, keepdims=True)
    wanted[~mask] = 0
    np.testing.assert_allclose(batch["X"]["adt"], wanted, rtol=1e-4, atol=1e-5)


def test_columns_of_obs_and_embeddings(save: Save, tmp_path: Path) -> None:
    donors = [donor(0, n_rna=15), donor(1, n_obs=10)]
    for number, parts in enumerate(donors):
        rna = parts["rna"]
        rna.obs["phase"] = pd.Categorical(["G1", "S", "G1", "G2M", None] * (rna.n_obs // 5))
        if number:
            rna.obs["phase"] = rna.obs["phase"].cat.reorder_categories(["S", "G2M", "G1"])
        parts["adt"].obs["depth"] = np.arange(parts["adt"].n_obs)
        rna.obs["n"] = np.arange(rna.n_obs)
        rna.obsm["X_pca"] = np.random.default_rng(number).normal(size=(rna.n_obs, 2))
    paths = [tmp_path / "0.scx", tmp_path / "1.scx"]
    kinds = [["T"] * 10 + ["B"] * 10, ["NK", "B"] * 5]
    cells = [
        write(parts, path, obs={"kind": kind})
        for parts, path, kind in zip(donors, paths, kinds, strict=True)
    ]
    columns = ["kind", "phase", "adt:depth", "n"]
    with MultimodalTrainingDataset(
        paths, obs_columns=columns, obsm=["X_pca"], **ORDERED
    ) as dataset:
        (batch,) = dataset
    assert isinstance(batch, dict)
    obs: Any = batch["obs"]
    everything = np.concatenate(cells)
    frames = {name: pd.concat([parts[name].obs for parts in donors]) for name in ("rna", "adt")}
    labels = [obs["kind"]["categories"][code] for code in obs["kind"]["codes"]]
    assert labels == kinds[0] + kinds[1]
    assert obs["phase"]["categories"] == ["G1", "G2M", "S"]
    phases = frames["rna"]["phase"].astype(object).reindex(everything)
    for code, phase in zip(obs["phase"]["codes"], phases, strict=True):
        assert (code == -1) if pd.isna(phase) else (obs["phase"]["categories"][code] == phase)
    assert obs["adt:depth"].dtype == np.int64
    np.testing.assert_array_equal(obs["adt:depth"], frames["adt"]["depth"].reindex(everything))
    assert obs["n"].dtype == np.float64  # five cells of the first file lack it
    np.testing.assert_array_equal(obs["n"], frames["rna"]["n"].reindex(everything))
    pca = pd.concat(
        [pd.DataFrame(p["rna"].obsm["X_pca"], index=p["rna"].obs_names) for p in donors]
    )
    np.testing.assert_array_equal(batch["obsm"]["X_pca"], pca.reindex(everything))
    with MultimodalTrainingDataset(paths, batch_by="kind", batch_size=4) as dataset:
        for batch in dataset:
            assert isinstance(batch, dict)
            kinds_of = np.concatenate(kinds)[batch["cell_indices"]]
            assert len(set(kinds_of)) == 1


def test_tuples_and_a_list_of_one_file(save: Save) -> None:
    (path,), _ = save(donor(0, n_rna=12))
    alone = MultimodalTrainingDataset(path, ["rna", "adt"], 8)
    listed = MultimodalTrainingDataset([path], ["rna", "adt"], 8, return_dict=False)
    for one, two in zip(alone, listed, strict=True):
        assert isinstance(one, dict) and isinstance(two, tuple)
        rna, adt, rest = two
        np.testing.assert_array_equal(one["X"]["rna"], rna)
        np.testing.assert_array_equal(one["X"]["adt"], adt)
        np.testing.assert_array_equal(one["cell_indices"], rest["cell_indices"])
        assert list(rest) == ["measured", "obs", "cell_indices", "file_ids", "measured_genes"]
        assert "file_ids" not in one and "measured_genes" not in one
    assert alone.paths == listed.paths
    assert alone.row_offsets.tolist() == listed.row_offsets.tolist() == [0, 20]
    assert alone.gene_matches == {"rna": (), "adt": ()}
    assert alone.measured_genes["adt"].tolist() == [[True] * 5]


def test_ranks_workers_and_going_on(save: Save) -> None:
    paths, _ = save(donor(0, n_rna=13), donor(1, n_obs=33))
    seen: list[int] = []
    for rank in range(2):
        for shard in range(2):
            options = {"rank": rank, "world_size": 2, "shard": shard, "num_shards": 2}
            with MultimodalTrainingDataset(paths, batch_size=6, **options) as dataset:
                for batch in dataset:
                    assert isinstance(batch, dict)
                    seen += batch["cell_indices"].tolist()
    assert sorted(seen) == list(range(53))
    dataset = MultimodalTrainingDataset(paths, batch_size=8, genes="union")
    iterator = iter(dataset)
    next(iterator)
    state = json.loads(json.dumps(dataset.state_dict()))
    again = MultimodalTrainingDataset(paths, batch_size=8, genes="union")
    again.load_state_dict(state)
    for one, two in zip(iterator, again, strict=True):
        assert isinstance(one, dict) and isinstance(two, dict)
        np.testing.assert_array_equal(one["cell_indices"], two["cell_indices"])
        np.testing.assert_array_equal(one["X"]["adt"], two["X"]["adt"])
    with pytest.raises(ValueError, match="other files"):
        MultimodalTrainingDataset(paths[::-1], batch_size=8).load_state_dict(state)
    with pytest.raises(ValueError, match="the genes that the files have in common are others"):
        MultimodalTrainingDataset(
            paths, batch_size=8, genes={"rna": "union", "adt": PROTEINS[:2]}
        ).load_state_dict(state)


def test_deleted_rows_and_closing(save: Save) -> None:
    donors = [donor(0), donor(1)]
    paths, cells = save(*donors)
    scx_core.mark_deleted(paths[1], [0, 5])
    dataset = MultimodalTrainingDataset(paths, batch_size=7, **RAW)
    assert dataset.n_obs == 38 and dataset.n_obs_physical == 40
    found = whole_epoch(dataset)
    left = np.setdiff1d(np.arange(40), [20, 25])
    np.testing.assert_array_equal(found["cell_indices"], left)
    np.testing.assert_array_equal(
        found["X"]["adt"], values_of(donors, cells, "adt", PROTEINS)[left]
    )
    dataset.close()
    assert dataset.closed
    assert len(list(dataset)) == 6
    size = sum(path.stat().st_size for path in paths)
    assert dataset.memory_budget()["mmap_mb"] == pytest.approx(size / 2**20)
    assert "and 1 more': 38 cells × (rna 12 genes, adt 5 genes)" in repr(dataset)
    dataset.close()
    with pytest.raises(RuntimeError, match="cannot be sent"):
        pickle.dumps(dataset)
    write(donor(5), paths[1])
    with pytest.raises(RuntimeError, match="replaced by a file of other content"):
        iter(dataset)


def test_what_a_caller_does_to_his_dicts_later_changes_nothing(save: Save) -> None:
    paths, _ = save(donor(0), donor(1, proteins=PROTEINS[::-1]))
    genes: Any = {"adt": iter(["p1", "p0"])}
    names = ["adt"]
    dataset = MultimodalTrainingDataset(paths, names, genes=genes)
    genes["adt"] = "union"
    names.append("rna")
    dataset.close()
    (batch,) = dataset
    assert isinstance(batch, dict)
    assert list(batch["X"]) == ["adt"] and batch["X"]["adt"].shape == (40, 2)
    assert dataset.var_names["adt"].tolist() == ["p1", "p0"]
    dataset.close()


def test_a_file_without_cells_takes_no_part(save: Save) -> None:
    paths, _ = save(donor(0, n_obs=5), donor(1, n_obs=0), donor(2, n_obs=6))
    with MultimodalTrainingDataset(paths, **ORDERED) as dataset:
        (batch,) = dataset
    assert isinstance(batch, dict)
    assert batch["file_ids"].tolist() == [0] * 5 + [2] * 6


def test_refusals_name_the_file_and_the_modality(save: Save, tmp_path: Path) -> None:
    paths, _ = save(
        donor(0),
        donor(1, proteins=[*PROTEINS[:-1], "x"]),
        {"rna": donor(2)["rna"]},
        {"rna": donor(3)["rna"], "adt": donor(3)["adt"], "hto": donor(4)["adt"]},
        donor(4, proteins=["q0", "q1"]),
    )

    def refused(error: type[Exception], message: str, *files: int, **options: Any) -> None:
        with pytest.raises(error, match=message):
            MultimodalTrainingDataset([paths[file] for file in files], **options)

    refused(ValueError, r"modality 'adt': the files have .*1 of 5 genes of .*donor0\.scx", 0, 1)
    refused(KeyError, r"donor2\.scx has no modality 'adt'; it has", 0, 2, modalities=["rna", "adt"])
    refused(KeyError, r"2\.scx has no modality 'adt', which .*0\.scx has.*\['rna'\]", 0, 2)
    refused(KeyError, r"0\.scx has no modality 'hto', which .*3\.scx .*\['rna', 'adt'\]", 0, 3)
    refused(
        ValueError,
        r"modality 'adt': .*donor4\.scx: 0 of its 2 genes",
        0,
        4,
        genes={"adt": PROTEINS},
    )
    refused(KeyError, r"modality 'rna' of .*0\.scx has no var column 'id'", 0, 1, gene_key="id")
    refused(KeyError, "genes has an entry for 'atac'.*rna, adt", 0, genes={"atac": "union"})
    refused(KeyError, "gene_key has an entry for 'atac'", 0, gene_key={"atac": "id"})
    refused(KeyError, "min_known_genes has an entry for 'atac'", 0, min_known_genes={"atac": 1})
    refused(TypeError, "genes must be .*a dict by modality.*not list", 0, genes=["g1", "g2"])
    refused(ValueError, "genes='inner' must be 'intersection'", 0, 1, genes="inner")
    refused(ValueError, "min_known_genes=2 must be from 0 to 1", 0, min_known_genes={"rna": 2})
    refused(TypeError, "a name in genes", 0, genes={"rna": [3]})
    refused(ValueError, "an empty list")
    for options in ({"genes": "union"}, {"gene_key": "id"}, {"genes": {"rna": ["g1"]}}):
        with pytest.raises(ValueError, match="give path as a list"):
            MultimodalTrainingDataset(paths[0], **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="from 0 to 1"):
        MultimodalTrainingDataset(paths[0], min_known_genes={"adt": -1})
    with pytest.raises(TypeError, match="a path or a list of paths, not int"):
        MultimodalTrainingDataset(7)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        MultimodalTrainingDataset([paths[0], tmp_path / "none.scx"])
    single = tmp_path / "single.scx"
    scx_core.from_anndata(donor(0)["rna"], single)
    with pytest.raises(ValueError, match=r"single\.scx is a file of a single modality"):
        MultimodalTrainingDataset([paths[0], single])


def test_modalities_in_another_order_are_the_same_ones(save: Save) -> None:
    donors = [donor(0), dict(reversed(donor(1).items()))]
    paths, cells = save(*donors)
    with MultimodalTrainingDataset(paths, **ORDERED, **RAW) as dataset:
        assert dataset.modalities == ["rna", "adt"]
        (batch,) = dataset
    assert isinstance(batch, dict)
    np.testing.assert_array_equal(batch["X"]["adt"], values_of(donors, cells, "adt", PROTEINS))


def test_shards_that_differ_within_a_file(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    from scx_core.writing import _write

    paths, _ = save(donor(0), donor(1))
    whole = _write.write_matrix

    def with_other_shards(file: Any, plan: Any, settings: Any, *rest: Any) -> None:
        size = 15 if plan.modality_id == 2 else settings.shard_size
        whole(file, plan, replace(settings, shard_size=size), *rest)

    monkeypatch.setattr(_write, "write_matrix", with_other_shards)
    write(donor(1), paths[1])
    with pytest.raises(ValueError, match=r"'rna' and 'adt' of .*donor1\.scx .*shard 0 has rows 0"):
        MultimodalTrainingDataset(paths)


def test_damage_names_its_file(save: Save) -> None:
    paths, _ = save(donor(0), donor(1))
    content = bytearray(paths[1].read_bytes())
    with scx_core.open(paths[1]) as experiment:
        shards = [part for part in experiment.file.sections if "adt" in part.name and part.shard]
        place = shards[1].offset + shards[1].length // 2
    content[place] ^= 0xFF
    paths[1].write_bytes(content)
    with (
        MultimodalTrainingDataset(paths, batch_size=8, **RAW) as dataset,
        pytest.raises(scx_core.CorruptFileError, match=r"donor1\.scx"),
    ):
        list(dataset)


ROWS = st.integers(min_value=1, max_value=11)


@pytest.mark.filterwarnings("ignore:modality .*no file has")
@settings(max_examples=25, deadline=None)
@given(
    shapes=st.lists(st.tuples(ROWS, ROWS, ROWS), min_size=1, max_size=3),
    genes=st.lists(
        st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True),
        min_size=6,
        max_size=6,
    ),
    how=st.tuples(
        st.sampled_from(["intersection", "union", ["c", "a", "z"]]),
        st.sampled_from(["intersection", "union", ["b", "f"]]),
    ),
    batch_size=st.integers(1, 12),
    seed=st.integers(0, 2**64 - 1),
)
def test_any_files_are_what_pandas_makes_of_them(
    shapes: Any, genes: Any, how: Any, batch_size: int, seed: int
) -> None:
    donors = [
        donor(
            number,
            n_obs=n_obs,
            genes=genes[number],
            proteins=genes[number + 3],
            n_rna=min(n_rna, n_obs),
            n_adt=min(n_adt, n_obs),
        )
        for number, (n_obs, n_rna, n_adt) in enumerate(shapes)
    ]
    wanted: dict[str, list[str]] = {}
    for name, rule in zip(("rna", "adt"), how, strict=True):
        lists = [parts[name].var_names.tolist() for parts in donors]
        common = set.intersection(*map(set, lists))
        union = list(dict.fromkeys(gene for names in lists for gene in names))
        wanted[name] = rule
        if isinstance(rule, str):
            wanted[name] = [g for g in union if g in common] if rule == "intersection" else union
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.scx" for number in range(len(donors))]
        cells = [write(parts, path) for parts, path in zip(donors, paths, strict=True)]
        options: dict[str, Any] = {
            "genes": dict(zip(("rna", "adt"), how, strict=True)),
            "min_known_genes": 0,
            "batch_size": batch_size,
            "seed": seed,
            **RAW,
        }
        if not all(wanted.values()):
            with pytest.raises(ValueError, match=r"modality '.*': .*leaves no gene"):
                MultimodalTrainingDataset(paths, **options)
            return
        with MultimodalTrainingDataset(paths, **options) as dataset:
            found = whole_epoch(dataset)
            measured_genes = dataset.measured_genes
    n_obs = sum(map(len, cells))
    assert found["cell_indices"].tolist() == list(range(n_obs))
    for name in ("rna", "adt"):
        np.testing.assert_array_equal(
            found["X"][name], values_of(donors, cells, name, wanted[name])
        )
        assert found["measured"][name].tolist() == measured_of(donors, cells, name)
        for file, parts in enumerate(donors):
            own = [gene in parts[name].var_names for gene in wanted[name]]
            assert measured_genes[name][file].tolist() == own


MEASURE = """
import json, os, sys
import numpy, pandas, scipy.sparse
from scx_train import MultimodalTrainingDataset

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:")) / 1024

paths = json.loads(sys.argv[1])
MultimodalTrainingDataset(paths[:1], batch_size=1, hvg_indices={"rna": [0]}).close()
before, n_open = own(), len(os.listdir("/proc/self/fd"))
options = {"genes": "union", "allow_repeated_files": True}
dataset = MultimodalTrainingDataset(paths, batch_size=64, **options)
most = own()
for batch in dataset:
    most = max(most, own())
n_more = len(os.listdir("/proc/self/fd")) - n_open
print(json.dumps([most - before, dataset.memory_budget()["estimated_mb"], n_more]))
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="measures in /proc")
def test_many_files_take_what_the_budget_says(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    paths = []
    for number in range(3):
        genes = [f"ENSG{gene:011d}.{number}" for gene in rng.permutation(8_000)]
        matrix = sp.random(10, 8_000, density=0.01, format="csr", random_state=number)
        matrix.data = np.ceil(matrix.data * 5)
        rna = anndata.AnnData(sp.csr_matrix(matrix.astype(np.float32)))
        rna.var_names = genes
        adt = donor(number, n_obs=10)["adt"]
        rna.obs_names = adt.obs_names
        paths.append(tmp_path / f"{number}.scx")
        write({"rna": rna, "adt": adt}, paths[-1])
    many = [str(path) for path in (paths * 67)]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(many)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    used, said, n_descriptors = json.loads(done.stdout)
    assert used <= 1.15 * said + 50, (used, said)
    assert n_descriptors <= 3


def test_warnings_point_at_the_call_and_come_once(save: Save) -> None:
    donors = [donor(0), donor(1), donor(2)]
    for parts in donors[1:]:
        parts["adt"].X = sp.csr_matrix(parts["adt"].X * np.float32(0.5))
    paths, _ = save(*donors)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MultimodalTrainingDataset(paths, hvg_indices={"rna": [3, 1]}).close()
    assert [warning.filename for warning in caught] == [__file__] * len(caught)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "hvg_indices['rna'] is not ascending" in messages[0]
    assert "X of 'adt' of" in messages[1] and "donor1.scx holds 0.5" in messages[1]


def test_few_common_and_unknown_genes_of_a_modality_are_told(save: Save) -> None:
    others = [GENES[0], *[f"h{number}" for number in range(11)]]
    paths, _ = save(donor(0), donor(1, genes=others), donor(2, genes=[*others, "more"]))
    common: dict[str, Any] = {"rna": "intersection", "adt": [*PROTEINS, "p9"]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = MultimodalTrainingDataset(
            paths, genes=common, min_known_genes={"adt": 0.5, "rna": 0.08}
        )
    assert [one.filename for one in caught] == [__file__] * 2
    messages = sorted(str(one.message) for one in caught)
    told = "modality 'adt': no file has 1 of the 6 genes of genes=[...], the first of them 'p9'"
    assert told in messages[0]
    assert "modality 'rna': genes=\"intersection\" leaves 1 of the 13 genes of" in messages[1]
    with dataset:
        assert "rna 1 of 13 genes" in repr(dataset) and "adt 6 genes" in repr(dataset)
        assert [match.share_kept for match in dataset.gene_matches["rna"]] == pytest.approx(
            [1 / 12, 1 / 12, 1 / 13]
        )


@pytest.mark.parametrize("form", ["list", "dict"])
def test_each_file_may_have_its_own_source(save: Save, form: str) -> None:
    donors = [donor(0), donor(1)]
    donors[1]["rna"].layers["counts"] = donors[1]["rna"].X * 4
    paths, cells = save(*donors)
    given: Any = ["X", "layers/counts"] if form == "list" else {paths[1]: "layers/counts"}
    options: dict[str, Any] = {"source": {"rna": given}, **RAW}
    with MultimodalTrainingDataset(paths, **options) as dataset:
        found = whole_epoch(dataset)
        state = dataset.state_dict()
    factors = np.repeat([1, 4], 20)[:, None]
    for name, scale in (("rna", factors), ("adt", 1)):
        wanted = GENES if name == "rna" else PROTEINS
        expected = values_of(donors, cells, name, wanted) * scale
        np.testing.assert_array_equal(found["X"][name], expected)
    with (
        MultimodalTrainingDataset(paths, **RAW) as dataset,
        pytest.raises(ValueError, match="saved with matrices='rna/X, layers/counts, adt/X'"),
    ):
        dataset.load_state_dict(state)
    with pytest.raises(ValueError, match="a list of 1, but there are 2 files"):
        MultimodalTrainingDataset(paths, source={"rna": ["X"]})
    twice = [*paths, paths[0]]
    with pytest.raises(ValueError, match=r"the paths name .*allow_repeated_files=True"):
        MultimodalTrainingDataset(twice)
    with MultimodalTrainingDataset(twice, allow_repeated_files=True) as dataset:
        assert dataset.n_obs == 60
