"""Collation by plain loops over dicts: shares no code with the package."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt


def clipped(value: float) -> float:
    return max(float(value), 0.0) if not math.isnan(value) else 0.0


def collated_row(
    ids: list[int],
    values: list[float],
    query: list[int],
    marks: list[bool],
    *,
    hidden: bool,
    measured: int,
    k_enc: int,
    k_dec: int,
    mode: str,
    n_genes: int,
    target_sum: float,
    redef: bool,
    alpha: float,
) -> dict[str, Any]:
    raw = {gene: clipped(value) for gene, value in zip(ids, values, strict=True)}
    total = sum(raw.values())
    factor = np.float32(target_sum / total) if total > 0 else np.float32(1)
    if mode == "pflog_raw":
        encoded = {gene: math.log1p(4 * alpha * value) for gene, value in raw.items()}
        centre = sum(encoded.values()) / measured
        encoded = {gene: value - centre for gene, value in encoded.items()}
    elif mode == "normalize_log1p":
        encoded = {gene: math.log1p(value * float(factor)) for gene, value in raw.items()}
    elif mode == "log1p_raw":
        encoded = {gene: math.log1p(value) for gene, value in raw.items()}
    else:
        encoded = raw
    targets = encoded if mode == "normalize_log1p" else raw
    order = sorted((g for g in raw if raw[g] > 0), key=lambda gene: (-raw[gene], gene))[:k_enc]
    withheld = {gene for gene, mark in zip(query, marks, strict=True) if mark}
    tokens = [gene for gene in order if gene not in withheld]
    encoder = [(gene, encoded[gene], 0, 0) for gene in tokens]
    if hidden:
        encoder = [(n_genes, 0.0, 1, 0)]
    elif not tokens:
        encoder = [(n_genes, 0.0, int(bool(order)), 0)]
    encoder += [(n_genes + 1, 0.0, 0, 1)] * (k_enc - len(encoder))
    decoder = [(targets.get(gene, 0.0), 0) for gene in query]
    decoder += [(0.0, 1)] * (k_dec - len(decoder))
    size = sum(raw.get(gene, 0.0) for gene in query) if redef else total
    names = ("encoder_gene_ids", "encoder_counts", "encoder_mask", "encoder_pad_mask")
    return {
        **dict(zip(names, zip(*encoder, strict=True), strict=True)),
        **dict(zip(("target_counts", "target_pad_mask"), zip(*decoder, strict=True), strict=True)),
        "library_size": (size,),
    }


def collated(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    data: npt.NDArray[Any],
    set_offsets: npt.NDArray[Any],
    queries: list[tuple[list[int], list[bool]]],
    hidden: npt.NDArray[Any],
    measured: list[int],
    **options: Any,
) -> dict[str, npt.NDArray[Any]]:
    """`queries`, `hidden` and `measured` have an entry for each row."""
    rows = []
    for row in range(len(indptr) - 1):
        part = slice(indptr[row], indptr[row + 1])
        rows.append(
            collated_row(
                indices[part].tolist(),
                data[part].tolist(),
                *queries[row],
                hidden=bool(hidden[row]),
                measured=measured[row],
                **options,
            )
        )
    assert set_offsets[-1] == len(rows)
    names = rows[0] if rows else {}
    return {name: np.array([v for row in rows for v in row[name]]) for name in names}
