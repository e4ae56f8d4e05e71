"""Downsampling counts to a target library size, reproducibly for each cell."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Literal, TypedDict, cast

import numpy as np
import numpy.typing as npt

from scx_core.native import binding
from scx_core.native.csr_rows import CsrRows, csr_rows, whole_numbers
from scx_core.native.packing import CsrArrays, packed
from scx_train import _arguments as arguments

DownsampleMethod = Literal["binomial", "multinomial"]
METHODS: dict[str, int] = {"multinomial": 2, "binomial": 1}  # SCX_MULTINOMIAL, SCX_BINOMIAL

_WHO = "downsample_counts_csr"


class DownsampledCounts(TypedDict):
    """What `downsample_counts_csr` gives: rows in CSR."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.float32]


def downsample_counts_csr(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike,
    rows: npt.ArrayLike | None,
    file_identities: int | npt.ArrayLike,
    target: int,
    method: DownsampleMethod = "multinomial",
    seed: int = 0,
) -> DownsampledCounts:
    """Draw the counts of each row down to a target total.

    Counts are clipped at 0 (NaN counts as 0), rounded half to even and summed. A row whose total
    is at most the target keeps its rounded counts. Of any other one:

    - "multinomial" draws the target's number of counts, in the proportions of the row's genes, so
      that the total is the target exactly;
    - "binomial" keeps each single count with the same probability, target / total, so that the
      total is the target on average.

    Genes of which no count is left are dropped. What is drawn for a row depends on the seed, the
    method, the row's file identity and its row number alone: not on the batch that it is in, nor
    on the number of threads.

    Parameters
    ----------
    indptr, indices, data
        A batch in CSR, of any integer or float dtype: one-dimensional, gene ids non-negative and
        strictly ascending in each row.
    rows
        The rows' numbers in their file; None for their places in the batch, which makes the draws
        reproducible for this very batch only.
    file_identities
        For each row that of its file (`downsample_file_identity`), or one number for all rows.
    target
        A whole number of at least 1.
    method
        "multinomial" (default) or "binomial".
    seed
        A 64-bit number; default 0.

    Returns
    -------
    dict
        ``indptr`` (int64, rows + 1), ``indices`` (int32) and ``data`` (float32).

    Raises
    ------
    ValueError
        Ids are out of order, lengths do not fit, or an argument is out of range.
    TypeError
        An argument holds something else than numbers.
    """
    batch = csr_rows(indptr, indices, data, who=_WHO)
    if np.ndim(file_identities) == 0:
        number = arguments.whole_number(
            file_identities, "file_identities", lowest=0, highest=arguments.SEED_MAX
        )
        per_row = np.full(batch.n_rows, number, dtype=np.uint64)
    else:
        per_row = _per_row(file_identities, "file_identities", batch.n_rows)
    numbers = (
        np.arange(batch.n_rows, dtype=np.uint64)
        if rows is None
        else _per_row(rows, "rows", batch.n_rows)
    )
    pointers, genes, counts = Downsampling(target, method, seed).apply(
        batch, file_identities=per_row, row_numbers=numbers
    )
    return {"indptr": pointers, "indices": genes, "data": counts}


def downsample_file_identity(path: str | os.PathLike[str]) -> int:
    """The number that stands for a file in the draws about its rows.

    It is the first eight bytes, little-endian, of the BLAKE3 of the file's canonical path: the
    absolute one without links, or `path` itself where there is no such file.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path={path!r} must be a str or an os.PathLike of str")
    with contextlib.suppress(OSError, ValueError):  # what cannot be resolved stands for itself
        text = os.path.realpath(text, strict=True)
    raw = text.encode("utf-8", "surrogateescape")
    return int(binding.native().lib.scx_hash64(raw, len(raw)))


class Downsampling:
    """A target, a method and a seed, checked.

    Parameters
    ----------
    target, method, seed
        As of `downsample_counts_csr`.
    names
        What messages call them.
    """

    def __init__(
        self,
        target: Any,
        method: Any,
        seed: Any,
        *,
        names: tuple[str, str, str] = ("target", "method", "seed"),
    ) -> None:
        if isinstance(target, float | np.floating):
            if not float(target).is_integer():
                raise ValueError(f"{names[0]}={target} must be a whole number")
            target = int(target)
        self.target = arguments.whole_number(target, names[0], lowest=1, highest=arguments.SEED_MAX)
        self.method = cast(DownsampleMethod, arguments.one_of(method, names[1], METHODS))
        self.seed = arguments.whole_number(seed, names[2], lowest=0, highest=arguments.SEED_MAX)

    def apply(
        self,
        batch: CsrRows,
        *,
        file_identities: npt.NDArray[np.uint64],
        row_numbers: npt.NDArray[np.uint64],
        threads: int = 0,
    ) -> CsrArrays:
        """Rows drawn down, as `downsample_counts_csr` describes."""
        n_values = len(batch.indices)
        indices = np.empty(n_values, dtype=np.int32)
        data = np.empty(n_values, dtype=np.float32)
        kept = np.zeros(batch.n_rows, dtype=np.int64)
        options = binding.new_struct(
            "scx_downsample_options",
            threads=threads,
            method=METHODS[self.method],
            target=self.target,
            seed=self.seed,
            file_identities=binding.input_array(file_identities, np.uint64, "file_identities"),
            row_numbers=binding.input_array(row_numbers, np.uint64, "row_numbers"),
        )
        binding.call(
            "scx_downsample_counts",
            batch.pointer(),
            options,
            binding.output_array(indices, np.int32, "indices"),
            binding.output_array(data, np.float32, "data"),
            binding.output_array(kept, np.int64, "kept"),
        )
        return packed(batch.indptr[:-1], kept, indices, data, in_place=True)


def _per_row(value: Any, argument: str, n_rows: int) -> npt.NDArray[np.uint64]:
    numbers = whole_numbers(value, np.uint64, argument, who=_WHO)
    if len(numbers) != n_rows:
        raise ValueError(f"{_WHO}: {argument} has {len(numbers)} entries for {n_rows} rows")
    return numbers
