"""Files and gene tables for jobs, and the models' tokenisers in numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import scipy.sparse as sp

import scx_core

N_GENES = 60
IDS = [f"ENSG{number:011d}" for number in range(N_GENES)]


def cells(
    n_obs: int = 50, *, genes: list[str] | None = None, seed: int = 0, density: float = 0.5
) -> anndata.AnnData:
    """Counts with an empty cell first, in the middle and last, a cell of one gene, one of ties."""
    rng = np.random.default_rng(seed)
    names = IDS if genes is None else genes
    dense = rng.geometric(0.3, (n_obs, len(names))) * (rng.random((n_obs, len(names))) < density)
    dense[[0, n_obs // 2, -1]] = 0
    dense[1] = 0
    dense[1, -1] = 3
    dense[2] = 5
    return anndata.AnnData(
        sp.csr_matrix(dense.astype(np.float32)),
        obs=pd.DataFrame(
            {
                "cell_type": pd.Categorical(rng.choice(["B", "T", "NK"], n_obs)),
                "n_counts": dense.sum(axis=1),
                "score": rng.random(n_obs),
                "donor": [f"d{number % 3}" for number in range(n_obs)],
            },
            index=[f"s{seed}c{number}" for number in range(n_obs)],
        ),
        var=pd.DataFrame({"symbol": [f"SYM{n}" for n in range(len(names))]}, index=names),
    )


def written(adata: anndata.AnnData, path: Path) -> Path:
    """As a .scx or .h5ad, by the suffix."""
    if path.suffix == ".scx":
        scx_core.from_anndata(adata, path, progress=False)
    else:
        adata.write_h5ad(path)
    return path


def tokens_of(ids: list[str] | None = None, seed: int = 1) -> dict[str, int]:
    """A dictionary in the manner of Geneformer: special tokens first, genes in another order."""
    names = list(IDS if ids is None else ids)
    np.random.default_rng(seed).shuffle(names)
    special = {"<pad>": 0, "<mask>": 1, "<cls>": 2, "<eos>": 3}
    return special | {name: number for number, name in enumerate(names, start=4)}


def medians_of(ids: list[str] | None = None, seed: int = 2) -> dict[str, float]:
    values = np.random.default_rng(seed).lognormal(0, 1, N_GENES)
    return dict(zip(IDS if ids is None else ids, values.tolist(), strict=False))


def as_json(value: Any, path: Path) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


def read_tokens(out: Path) -> pd.DataFrame:
    """All shards of a job."""
    paths = sorted((out / "data").glob("*.parquet"))
    return pd.concat([pq.read_table(path).to_pandas() for path in paths], ignore_index=True)


def ids_of(out: Path) -> list[list[int]]:
    return [ids.tolist() for ids in read_tokens(out)["input_ids"]]


def shard_bytes(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "data").iterdir())}


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def geneformer(
    adata: anndata.AnnData,
    tokens: dict[str, int],
    medians: dict[str, float],
    *,
    size: int,
    special: bool,
    ids: list[str] | None = None,
) -> list[list[int]]:
    """As published: counts per 10,000 over the gene's median, in descending order; then the cut.

    Genes whose ids are equal without the version are summed. Ties go by token.
    """
    dense = np.asarray(adata.X.todense(), dtype=np.float64)
    names = [name.split(".")[0] for name in (ids or adata.var_names)]
    totals = dense.sum(axis=1)
    collapsed = pd.DataFrame(dense.T, index=names).groupby(level=0).sum()
    known = [name for name in collapsed.index if name in medians and name in tokens]
    known.sort(key=tokens.__getitem__)
    values = collapsed.loc[known].to_numpy().T
    norm = np.array([medians[name] for name in known])
    numbers = np.array([tokens[name] for name in known])
    result = []
    for row, total in zip(values, totals, strict=True):
        scaled = row / max(total, 1) * 10_000 / norm
        stored = np.flatnonzero(scaled)
        ranked = numbers[stored[np.argsort(-scaled[stored], kind="stable")]].tolist()
        if special:
            ranked = [tokens["<cls>"], *ranked[: size - 2], tokens["<eos>"]]
        result.append(ranked[:size])
    return result
