"""Checks of what a data set is constructed with; each names the argument and its value."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence, Set
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core._arguments import U64_MAX
from scx_core._arguments import positive as positive
from scx_core._arguments import whole_number as whole_number
from scx_core.native.members import OUTPUT_DTYPES
from scx_core.native.pipeline import BATCH_ROWS_MAX, BATCHES_MAX, THREADS_MAX
from scx_train._warn import warn

SEED_MAX = U64_MAX
EPOCH_MAX = U64_MAX // 2
Tail = Literal["drop", "merge", "keep"]
TAILS: tuple[Tail, ...] = ("drop", "merge", "keep")


def batch_size(value: Any) -> int:
    """Rows of a batch."""
    return whole_number(value, "batch_size", lowest=1, highest=BATCH_ROWS_MAX)


def shard_group_size(value: Any) -> int:
    """Shards that are shuffled together."""
    return whole_number(value, "shard_group_size", lowest=1)


def prefetch_batches(value: Any) -> int:
    """Batches that are made ahead."""
    return whole_number(value, "prefetch_batches", lowest=1, highest=BATCHES_MAX)


def seed(value: Any) -> int:
    """A 64-bit seed."""
    return whole_number(value, "seed", lowest=0, highest=SEED_MAX)


def threads(value: Any) -> int:
    """Decode threads; 0 stands for None, which leaves the choice to the library."""
    return 0 if value is None else whole_number(value, "threads", lowest=1, highest=THREADS_MAX)


def min_batch(value: Any, *, batch_size: int) -> int:
    """The least cells of a last batch."""
    return whole_number(value, "min_batch", lowest=1, highest=batch_size)


def epoch(value: Any, argument: str = "epoch") -> int:
    """The number of an epoch; others can follow."""
    return whole_number(value, argument, lowest=0, highest=EPOCH_MAX)


def tail(value: Any) -> Tail:
    """What happens to a short tail."""
    chosen: Tail = one_of(value, "tail", TAILS)  # type: ignore[assignment]
    return chosen


def one_of(value: Any, argument: str, choices: Iterable[str]) -> str:
    """One of a few words; ValueError for anything else, also where comparing it fails."""
    names = tuple(choices)
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"{argument}={value!r} must be one of {', '.join(map(repr, names))}")
    return str(value)


def place_among(value: Any, count: Any, *, argument: str, count_argument: str) -> tuple[int, int]:
    """One of several processes or workers, numbered from 0."""
    total = whole_number(count, count_argument, lowest=1)
    return whole_number(value, argument, lowest=0, highest=total - 1), total


def rank_and_world_size(rank: Any, world_size: Any) -> tuple[int, int]:
    """Which process of how many; where both are None, those of torch.distributed if it runs."""
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size belong together: pass both or neither")
    if rank is None:
        # Whoever initialised it has imported it.
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
            return 0, 1
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return place_among(rank, world_size, argument="rank", count_argument="world_size")


def flag(value: Any, argument: str) -> bool:
    """A boolean; anything else is more likely an argument in the wrong place."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{argument}={value!r} must be True or False")
    return bool(value)


def max_memory_mb(value: Any) -> int | None:
    """A limit on memory; None for one that adapts."""
    return None if value is None else whole_number(value, "max_memory_mb", lowest=1)


def layout(value: Any, *, pflog: bool) -> Literal["dense", "csr"]:
    """How `X` is held."""
    chosen: Literal["dense", "csr"]
    chosen = one_of(value, "layout", ("dense", "csr"))  # type: ignore[assignment]
    if chosen == "csr" and pflog:
        raise ValueError("layout='csr' and pflog=True exclude each other: PFlog has no zeros")
    return chosen


def dtype(value: Any, *, layout: str) -> str:
    """What the elements of dense batches are."""
    chosen = one_of(value, "dtype", OUTPUT_DTYPES)
    if chosen != "float32" and layout == "csr":
        raise ValueError(f"dtype={chosen!r} is for dense batches: layout='csr' has float32 alone")
    return chosen


def number(value: Any, argument: str) -> float:
    """A number, maybe NaN or infinite; TypeError for a boolean, text and all else."""
    try:
        if isinstance(value, bool | np.bool_ | str | bytes):
            raise TypeError
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{argument}={value!r} must be a number") from None


def text(value: Any, argument: str) -> str:
    """A str."""
    if not isinstance(value, str):
        raise TypeError(f"{argument}={value!r} must be a str")
    return str(value)


def is_list(value: Any) -> bool:
    """Whether its entries can be taken one by one; text and an array of no dimension have none."""
    if isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0:
        return False
    return isinstance(value, Iterable)


def column_names(
    value: Any, argument: str, *, example: Sequence[str] = ("cell_type",)
) -> tuple[str, ...]:
    """Names of columns and the like, each once, in the order given."""
    if not is_list(value):
        raise TypeError(f"{argument}={value!r} must be a list of names, such as {list(example)!r}")
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} holds {name!r}, which is no name (a str)")
    return tuple(dict.fromkeys(str(name) for name in names))


def listed(value: Any, argument: str, *, example: Sequence[str]) -> None:
    """TypeError where names come in no order, and batches follow it."""
    if isinstance(value, Set) and not isinstance(value, KeysView):
        raise TypeError(
            f"{argument} must be a list of names, such as {list(example)!r}, not "
            f"{type(value).__name__}, which has no order: batches have them in its order"
        )


def gene_panel(
    value: Any, *, n_vars: int, argument: str = "hvg_indices"
) -> npt.NDArray[np.uint32] | None:
    """Columns to keep, ascending and distinct; None for all.

    Warns with a UserWarning when the order or the width of the batches is not that of `value`.

    Raises
    ------
    ValueError
        It is empty, not one-dimensional, not of whole numbers, or names a gene that is not there.
    """
    if value is None:
        return None
    given = _numbers(value, argument)
    if given.dtype == np.bool_:
        raise ValueError(
            f"{argument} is a boolean mask, but whole numbers are needed: pass np.flatnonzero(mask)"
        )
    if given.size == 0:
        raise ValueError(f"{argument} is empty: pass None for all genes")
    if given.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} has dtype {given.dtype}, but whole numbers are needed: positions of "
            "genes in var, for example np.flatnonzero(adata.var['highly_variable'])"
        )
    lowest, highest = int(given.min()), int(given.max())
    if lowest < 0 or highest >= n_vars:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(
            f"{argument} holds {wrong}, but {_numbered('genes', n_vars)}: it would give a column "
            "that is always zero"
        )
    panel = np.unique(given).astype(np.uint32)
    if len(panel) != given.size or not np.array_equal(panel, given):
        message = _panel_warning(given.size, len(panel), argument)
        warn(message)
    return panel


def _numbers(value: Any, argument: str) -> npt.NDArray[Any]:
    """One-dimensional; what its elements are is for the caller to check."""
    if isinstance(value, Set | Mapping | slice | str | bytes):
        raise TypeError(f"{argument} must be a list or an array, not {type(value).__name__}")
    if np.ma.is_masked(value):
        raise ValueError(f"{argument} has masked entries: pass {argument}.compressed()")
    try:
        given = np.asarray(list(value) if isinstance(value, Iterator) else value)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{argument} must have one dimension: a list of whole numbers") from None
    if given.ndim != 1:
        raise ValueError(f"{argument} has {given.ndim} dimensions, but one is needed")
    return given


def _numbered(what: str, count: int) -> str:
    return f"the {what} are numbered 0 to {count - 1}" if count else f"there are no {what}"


def _panel_warning(n_given: int, n_kept: int, argument: str) -> str:
    doubled = f", and {n_given - n_kept} repeated ones are dropped" if n_kept < n_given else ""
    return (
        f"{argument} is not ascending and distinct: the {n_kept} columns of each batch are in "
        f"ascending order of their gene index{doubled}; np.unique({argument}) gives the genes of "
        "the columns"
    )


def row_selection(
    value: Any, *, n_obs: int, deleted: npt.NDArray[np.int64], argument: str = "rows"
) -> npt.NDArray[np.int64] | None:
    """Rows to stream, int64, ascending and distinct; None for all.

    A mask may be true for `deleted` rows, which are not chosen.

    Raises
    ------
    ValueError
        It is a mask of another length, not one-dimensional, not of whole numbers, names a row
        twice, one that is not there or one that is deleted, or chooses none.
    """
    if value is None:
        return None
    given = _numbers(value, argument)
    if given.dtype == np.bool_:
        if len(given) != n_obs:
            raise ValueError(f"{argument} is a mask of {len(given)} entries for {n_obs} cells")
        live = given.copy()
        live[deleted] = False
        given = np.flatnonzero(live)
    if given.size == 0:
        raise ValueError(f"{argument} chooses no cell: pass None for all")
    if given.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} has dtype {given.dtype}, but whole numbers are needed: rows of the file, "
            "or a boolean mask over them"
        )
    lowest, highest = int(given.min()), int(given.max())
    if lowest < 0 or highest >= n_obs:
        wrong = lowest if lowest < 0 else highest
        raise ValueError(f"{argument} holds {wrong}, but {_numbered('cells', n_obs)}")
    mask = np.zeros(n_obs, dtype=np.bool_)  # sorting them takes ten times as long
    mask[given] = True
    chosen = np.flatnonzero(mask).astype(np.int64, copy=False)
    if len(chosen) != given.size:
        repeated = np.flatnonzero(np.bincount(given.astype(np.int64)) > 1)
        raise ValueError(
            f"{argument} holds {repeated[0]} more than once, but an epoch has each cell once"
        )
    gone = deleted[mask[deleted]]
    if gone.size:
        raise ValueError(
            f"{argument} holds {gone[0]}, which is marked as deleted in the file: leave it out "
            "(`Experiment.live_rows` has the rows that are left), or pass a mask"
        )
    return chosen


def beyond_64_bits(values: Iterable[Any]) -> int | None:
    """The whole number that is farthest beyond int64; None if none is, or if not all are whole."""
    numbers = []
    for value in values:
        if isinstance(value, bool | np.bool_):
            return None
        try:
            numbers.append(operator.index(value))
        except TypeError:
            return None
    farthest = max(numbers, key=abs, default=0)
    return None if -(2**63) <= farthest < 2**63 else farthest
