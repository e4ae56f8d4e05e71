"""Checks of the kernels' arguments; each message names the kernel, the argument and its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._arguments import U64_MAX
from scx_core._arguments import positive as positive
from scx_core._arguments import whole_number as whole_number
from scx_core._memory import check_room
from scx_core.native import binding
from scx_core.native.csr_rows import whole_numbers

WIDTH_MAX = 2**31 - 1
VOCABULARY_MAX = 2**31 - 2
THREADS_MAX = 64


def width(value: Any, argument: str, *, who: str) -> int:
    """Tokens of a row."""
    return whole_number(value, argument, who=who, lowest=1, highest=WIDTH_MAX)


def check_slots(n_rows: int, width: int, argument: str, *, slot_bytes: int, who: str) -> None:
    """ValueError if so many slots for each row are more than fits into memory."""
    check_room(
        n_rows * width * slot_bytes,
        what=f"{who}: {argument}={width} for {n_rows} rows",
        advice=f"take a smaller {argument}, or fewer rows at a time",
    )


def n_genes_total(value: Any, *, who: str) -> int:
    """Size of a vocabulary."""
    return whole_number(value, "n_genes_total", who=who, lowest=1, highest=VOCABULARY_MAX)


def u64(value: Any, argument: str, *, who: str) -> int:
    """A seed or an identity."""
    return whole_number(value, argument, who=who, lowest=0, highest=U64_MAX)


def threads(value: Any, *, who: str) -> int:
    """Threads to use; 0 stands for None, which is all that the process may use."""
    if value is None:
        return 0
    return whole_number(value, "threads", who=who, lowest=1, highest=THREADS_MAX)


def row_numbers(value: Any, *, n_rows: int, who: str) -> npt.NDArray[np.uint64] | None:
    """The rows' numbers in their file, one for each row; None stays None."""
    if value is None:
        return None
    numbers = whole_numbers(value, np.uint64, "rows", who=who)
    if len(numbers) != n_rows:
        raise ValueError(f"{who}: rows has {len(numbers)} entries for {n_rows} rows")
    return numbers


def pointer(array: npt.NDArray[Any] | None, argument: str) -> Any:
    """What C reads the array through; NULL for None."""
    if array is None:
        return binding.native().ffi.NULL
    return binding.input_array(array, array.dtype, argument)


def output(array: npt.NDArray[Any], argument: str) -> Any:
    """What C writes the array through."""
    return binding.output_array(array, array.dtype, argument)
