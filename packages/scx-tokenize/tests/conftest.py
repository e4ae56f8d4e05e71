"""Batches, and the kernels again in numpy: loops over rows that share no code with the package."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from published_draws import stream_of, words_of


def row_stream(seed: int, tag: bytes, file_identity: int, row: int) -> int:
    return stream_of(seed, int.from_bytes(tag, "big"), file_identity, row)


def uniforms(stream: int, n: int) -> np.ndarray:
    words = words_of(stream)
    pairs = [(next(words), next(words)) for _ in range(n)]
    return np.array([((high << 32 | low) >> 11) * 2.0**-53 for low, high in pairs])


def clipped(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 0).astype(np.float64)


def rows_of(batch: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    indptr, indices, data = batch
    for a, b in itertools.pairwise(indptr):
        yield np.asarray(indices[a:b]), np.asarray(data[a:b], dtype=np.float32)


def ordered(ids: np.ndarray, values: np.ndarray, k: int) -> np.ndarray:
    """Places of the k largest positive values, ties by id."""
    places = np.lexsort((ids, -values.astype(np.float64)))
    return places[values[places] > 0][:k]


def top_k(batch: Any, k: int, n: int) -> dict[str, np.ndarray]:
    ids, values, mask, pad = [], [], [], []
    for genes, row in rows_of(batch):
        row = clipped(row).astype(np.float32)
        places = ordered(genes, row, k)
        fill = k - len(places)
        ids += [*genes[places], *[n + 1] * fill]
        values += [*row[places], *[0] * fill]
        mask += [0] * k
        pad += [*[0] * len(places), *[1] * fill]
        if not len(places):
            ids[-k], mask[-k], pad[-k] = n, 1, 0
    return {"ids": np.array(ids), "values": np.array(values), "mask": mask, "pad": pad}


def rank(batch: Any, stats: np.ndarray, l_max: int, target: float = 1e4) -> list[list[int]]:
    result = []
    with np.errstate(all="ignore"):
        for genes, row in rows_of(batch):
            row = clipped(row)
            total = np.cumsum(row)[-1] if len(row) else np.float64(0)
            below = stats.astype(np.float32).astype(np.float64)[genes]
            keys = (row * (np.float64(target) / total) / below).astype(np.float32)
            result.append(genes[ordered(genes, keys, l_max)].tolist())
    return result


def quantile_edges(positive: np.ndarray, n_bins: int) -> np.ndarray:
    s = np.sort(positive)
    h = (len(s) - 1) * np.linspace(0, 1, n_bins - 1)
    low = np.floor(h).astype(int)
    a, b = s[low], s[np.minimum(low + 1, len(s) - 1)]
    return a + (h - low) * (b - a)


def bins(
    batch: Any,
    n_bins: int,
    edges: np.ndarray | None = None,
    tie: str = "left",
    seed: int = 0,
    file_identity: int = 0,
    numbers: Any = None,
) -> list[int]:
    result: list[int] = []
    for place, (_, row) in enumerate(rows_of(batch)):
        row = clipped(row)
        out = np.zeros(len(row), dtype=int)
        positive = row[row > 0]
        if len(positive):
            bounds = quantile_edges(positive, n_bins) if edges is None else edges
            left = np.searchsorted(bounds, positive, "right")
            right = np.searchsorted(bounds, positive, "left")
            if tie == "seeded":
                number = place if numbers is None else numbers[place]
                u = uniforms(row_stream(seed, b"SCXTKBIN", file_identity, number), len(positive))
                chosen = np.ceil(u * (right - left) + left).astype(int)
            else:
                chosen = left if tie == "left" else right
            out[row > 0] = chosen
        result += out.tolist()
    return result


def sample(
    batch: Any, n: int, seed: int, identity: int, weight: str = "log1p", numbers: Any = None
) -> list[list[int]]:
    result = []
    for place, (genes, row) in enumerate(rows_of(batch)):
        weights = np.log1p(clipped(row)) if weight == "log1p" else clipped(row)
        cumulative = np.cumsum(weights)
        if not len(row) or not cumulative[-1] > 0:
            result.append([])
            continue
        number = place if numbers is None else numbers[place]
        u = uniforms(row_stream(seed, b"SCXTKSMP", identity, number), n)
        places = np.searchsorted(cumulative / cumulative[-1], u, "right")
        result.append(genes[places].tolist())
    return result


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """The kernels in numpy."""
    return SimpleNamespace(
        top_k=top_k,
        rank=rank,
        bins=bins,
        sample=sample,
        clipped=clipped,
        rows_of=rows_of,
        ordered=ordered,
        row_stream=row_stream,
        uniforms=uniforms,
    )


def make_batch(n_rows: int, n_genes: int, *, seed: int = 0, kind: str = "counts") -> sp.csr_matrix:
    """Rows of very different length: empty ones first, in the middle and last among them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, n_genes, n_rows)
    lengths[[0, n_rows // 2, -1]] = 0
    lengths[1] = 1
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    chosen = [np.sort(rng.choice(n_genes, n, replace=False)) for n in lengths]
    indices = np.concatenate(chosen).astype(np.int32)
    data = (rng.geometric(0.4, len(indices)) * rng.choice([1, 1, 1, 40], len(indices))).astype("f4")
    if kind == "floats":
        data = rng.lognormal(0, 2, len(indices)).astype("f4")
    elif kind == "logged":
        rows = np.repeat(np.arange(n_rows), lengths)
        data = np.log1p(data * 1e4 / np.bincount(rows, data)[rows]).astype("f4")
    elif kind == "odd":
        odd = rng.choice([0.0, -3.0, np.nan, 1e-30, 2.5, 1e6], len(indices))
        data = np.where(rng.random(len(indices)) < 0.3, odd, data).astype("f4")
    return sp.csr_matrix((data, indices, indptr), shape=(n_rows, n_genes))


@pytest.fixture(scope="session")
def batch() -> Callable[..., sp.csr_matrix]:
    return make_batch
