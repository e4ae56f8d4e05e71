"""Batches for a trainer whose first process reads for all: what can be cut by cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from scx_train._warn import warn
from scx_train.torch.callers import NOT_DISPATCHED, Dispatch


def dispatched(
    batches: Iterator[Any],
    dispatch: Dispatch,
    *,
    full_batch: int | None,
    is_last: Callable[[int], bool],
    owner: str,
) -> Iterator[Any]:
    """The same batches, with what has a row for each cell alone.

    Texts cannot be sent, and what is not of cells would be cut all the same; both are the same in
    every batch, and a UserWarning names them.

    Parameters
    ----------
    batches
        Those of a process or worker.
    dispatch
        What becomes of them.
    full_batch
        How many cells each batch has but for the last, if that is known.
    is_last
        Whether the last of these batches, of this number, is that of the epoch.
    owner
        What messages call the data set.

    Raises
    ------
    ValueError
        A batch has other parts than cells (a sparse matrix, sets of cells), or cells would be lost
        where batches are cut.
    """
    n_parts = dispatch.n_processes
    cells_of_each = full_batch if full_batch and full_batch % n_parts else None
    uneven: tuple[int, int] | None = None
    for number, batch in enumerate(batches):
        if uneven is not None:
            break
        n_cells, of_cells, left_out = _of_cells(batch, owner)
        if number == 0 and left_out:
            warn(
                f"accelerate dispatches tensors of cells alone, so batches are without "
                f"{', '.join(left_out)}: {NOT_DISPATCHED} to have all of them",
            )
        fits = n_cells % n_parts == 0
        if cells_of_each is not None:
            fits = n_cells == cells_of_each and dispatch.n_together == n_parts
        if not fits:
            uneven = number, n_cells
            if not is_last(number):
                break
        yield of_cells
    else:
        return
    raise ValueError(
        f"batch {uneven[0]} of {owner} has {uneven[1]} cells and is not the last, so that cells "
        f"would be lost where accelerate cuts batches for {n_parts} processes: {NOT_DISPATCHED}"
    )


def _of_cells(batch: Any, owner: str) -> tuple[int, Any, list[str]]:
    """How many cells a batch has, what has a row for each, and the names of what has not."""
    if "set_offsets" in batch:
        raise ValueError(f"batches of {owner} are sets of cells: {NOT_DISPATCHED}")
    tensors: list[torch.Tensor] = []
    left_out: list[str] = []

    def of_cells(value: Any, name: str) -> Any:
        if isinstance(value, dict):
            parts = {key: of_cells(part, f"{name}[{key!r}]") for key, part in value.items()}
            return {key: part for key, part in parts.items() if part is not None}
        if isinstance(value, tuple):
            return tuple(of_cells(part, f"{name}[{place}]") for place, part in enumerate(value))
        if not isinstance(value, torch.Tensor) or _is_of_files(value, name):
            left_out.append(name)
            return None
        if value.layout != torch.strided:
            raise ValueError(f"{name} of {owner} is sparse, which cannot be cut: {NOT_DISPATCHED}")
        tensors.append(value)
        return value

    kept = of_cells(batch, "batch")
    return len(tensors[0]), kept, left_out


def _is_of_files(tensor: torch.Tensor, name: str) -> bool:
    """Whether it has a row for each file: which columns that file has."""
    return "['measured_genes']" in name or (name.endswith("['measured']") and tensor.ndim == 2)
