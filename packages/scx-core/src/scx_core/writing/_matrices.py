"""Matrices into shards: which there are, how many rows a shard has, and what fills them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._section_names import SectionType, layer_shard, raw_shard, x_shard
from scx_core._value_types import stored_dtype, value_type
from scx_core.native.container import FileWriter
from scx_core.sources.base import DenseBlock, ExperimentContent, MatrixSource
from scx_core.writing._blocks import (
    Block,
    checked_blocks,
    cut,
    first_non_finite,
    spread,
    with_dtype,
)
from scx_core.writing._checks import label_of
from scx_core.writing._read_ahead import OneAhead
from scx_core.writing._report import Findings, Report

if TYPE_CHECKING:
    import pandas as pd

# a shard's header counts its bytes in 32 bits; a quarter is left for what values cannot be packed
DENSE_SHARD_BYTES_MAX = 3 * 2**30


@dataclass(frozen=True)
class MatrixPlan:
    """One matrix to write. `rows` are the file's rows of its cells, ascending; None for all."""

    source: MatrixSource
    label: str
    section_type: SectionType
    modality_id: int
    shard_name: Callable[[int], str]
    rows: npt.NDArray[np.int64] | None
    genes: pd.Index[Any]


@dataclass(frozen=True)
class ShardSettings:
    """What all shards of a file have in common."""

    n_obs: int
    shard_size: int
    codec: int
    threads: int
    block_bytes: int


def plan_matrices(content: ExperimentContent) -> list[MatrixPlan]:
    """Every matrix of the content, in the order in which they are written."""
    plans = []
    for index, (name, modality) in enumerate(content.modalities.items()):
        modality_id = index + 1 if name else 0
        rows = None if modality.rows is None else np.sort(modality.rows)
        label = label_of(name)
        if modality.X is not None:
            plans.append(
                MatrixPlan(
                    modality.X,
                    f"{label}X",
                    SectionType.CSR_SHARD,
                    modality_id,
                    partial(x_shard, name),
                    rows,
                    modality.var.index,
                )
            )
        for key, layer in modality.layers.items():
            plans.append(
                MatrixPlan(
                    layer,
                    f"{label}layers[{key!r}]",
                    SectionType.LAYER_CSR_SHARD,
                    modality_id,
                    partial(layer_shard, name, key),
                    rows,
                    modality.var.index,
                )
            )
        if modality.raw_X is not None and modality.raw_var is not None:
            plans.append(
                MatrixPlan(
                    modality.raw_X,
                    f"{label}raw.X",
                    SectionType.RAW_CSR_SHARD,
                    modality_id,
                    partial(raw_shard, name),
                    rows,
                    modality.raw_var.index,
                )
            )
    return plans


def fitting_shard_size(plans: list[MatrixPlan], shard_size: int) -> int:
    """`shard_size`, or less where a dense matrix would make shards of more than 32 bits count."""
    for plan in plans:
        if plan.source.form == "dense":
            row_bytes = max(1, plan.source.shape[1] * plan.source.dtype.itemsize)
            shard_size = max(1, min(shard_size, DENSE_SHARD_BYTES_MAX // row_bytes))
    return shard_size


def write_matrix(
    file: FileWriter,
    plan: MatrixPlan,
    settings: ShardSettings,
    report: Report,
    on_rows: Callable[[int], None],
) -> None:
    """Read `plan.source` block by block and write its shards.

    While the native library encodes one block, the next is read. Matrices without rows have no
    shards.
    """
    with OneAhead() as encoder:
        for row, block in _placed_blocks(plan, settings):
            encoder.submit(_encode_job(file, plan, settings, report, row, block))
            on_rows(block.n_rows)
        encoder.wait()


def _placed_blocks(plan: MatrixPlan, settings: ShardSettings) -> Iterator[tuple[int, Block]]:
    blocks: Iterator[Block] = checked_blocks(plan.source, settings.block_bytes, plan.label)
    if plan.rows is not None:
        blocks = spread(blocks, plan.rows, settings.n_obs)
    return cut(blocks, settings.shard_size)


def _encode_job(
    file: FileWriter,
    plan: MatrixPlan,
    settings: ShardSettings,
    report: Report,
    row: int,
    block: Block,
) -> Callable[[], None]:
    dtype = stored_dtype(plan.source.dtype)
    assert dtype is not None  # checked before the file was begun

    def encode() -> None:
        shard_start = row - row % settings.shard_size
        shard_stop = min(shard_start + settings.shard_size, settings.n_obs)
        if row == shard_start:
            file.begin_shard(
                plan.shard_name(row // settings.shard_size),
                section_type=plan.section_type,
                modality_id=plan.modality_id,
                codec=settings.codec,
                value_type=value_type(dtype),
                row_start=row,
                n_rows=shard_stop - shard_start,
                n_cols=plan.source.shape[1],
                threads=settings.threads,
            )
        findings = report.of(plan.label)
        _append(file, with_dtype(block, dtype), findings)
        if findings.non_finite_values and not findings.first_non_finite:
            findings.first_non_finite = _named(first_non_finite(block), row, plan, report)
        if row + block.n_rows == shard_stop:
            file.finish_shard()

    return encode


def _named(place: tuple[int, int] | None, row: int, plan: MatrixPlan, report: Report) -> str:
    """A place of a block that begins at `row` of the file, by the names of its cell and gene."""
    if place is None:  # values of one place that were added up became so
        return ""
    return f"cell {report.cells[row + place[0]]!r}, gene {plan.genes[place[1]]!r}"


def _append(file: FileWriter, block: Block, findings: Findings) -> None:
    if isinstance(block, DenseBlock):
        mended = file.append_dense(block.values)
    else:
        mended = file.append_csr(block.indptr, block.indices, block.values)
    findings.unsorted_rows += mended.unsorted_rows
    findings.duplicate_entries += mended.duplicate_entries
    findings.explicit_zeros += mended.explicit_zeros
    findings.non_finite_values += mended.non_finite_values
