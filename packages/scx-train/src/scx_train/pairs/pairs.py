"""Plans of pairs: checked, put in the order of the file, and decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypedDict

import numpy as np
import numpy.typing as npt

from scx_train import _arguments as arguments
from scx_train.inputs.obs import ObsValues, take
from scx_train.plans.metrics import CacheCounters
from scx_train.streams.budget import MatrixDemand
from scx_train.streams.pipelines import Pipeline

Rows = npt.NDArray[np.int64]


class PairBatch(TypedDict):
    """A batch of pairs: `pairs[i]` are the rows of `X[i]` and of `X_paired[i]`.

    The two arrays are float32 of shape (pairs, genes) and share a buffer, whose memory is used
    again for a later batch once nothing refers to either of them.
    """

    X: npt.NDArray[np.float32]
    X_paired: npt.NDArray[np.float32]
    pairs: list[tuple[int, int]]
    obs: dict[str, Any]
    obs_paired: dict[str, Any]


@dataclass(frozen=True)
class PairPlan:
    """A plan that was checked.

    Attributes
    ----------
    rows
        int64; the first cell of each pair, then the second of each.
    pairs
        The same as a list.
    """

    rows: Rows
    pairs: list[tuple[int, int]]


@dataclass(frozen=True)
class PairRules:
    """What plans of a data set have to be.

    Attributes
    ----------
    n_obs
        Rows of the file.
    missing
        What is said of a row that is there, but is no cell; None where all are cells.
    is_cell
        Which rows are; None for all.
    shard_starts
        First row of each shard, for sorting by it; None for the plan's own order.
    max_plan_size
        How many pairs a plan may have.
    """

    n_obs: int
    max_plan_size: int
    shard_starts: Rows | None = None
    is_cell: npt.NDArray[np.bool_] | None = None
    missing: str = ""

    def prepare(self, plan: Any) -> PairPlan | None:
        """The plan in the order in which it is decoded; None for an empty one.

        Raises
        ------
        TypeError, ValueError
            It is no list of pairs of whole numbers.
        IndexError
            A row is out of range, or is no cell.
        RuntimeError
            It has too many pairs.
        """
        given = pairs_array(plan)
        if len(given) == 0:
            return None
        if len(given) > self.max_plan_size:
            raise RuntimeError(
                f"the plan has {len(given)} pairs, but max_plan_size={self.max_plan_size}: make "
                "smaller plans, or build the data set with a larger max_plan_size"
            )
        self._check_rows(given)
        pairs = given.astype(np.int64, copy=False)
        if self.shard_starts is not None:
            shards = np.searchsorted(self.shard_starts, pairs, side="right")
            lower = np.minimum(shards[:, 0], shards[:, 1])
            pairs = pairs[np.argsort(lower, kind="stable")]
        rows = np.ascontiguousarray(pairs.T).reshape(-1)
        first, second = rows[: len(pairs)].tolist(), rows[len(pairs) :].tolist()
        return PairPlan(rows=rows, pairs=list(zip(first, second, strict=True)))

    def _check_rows(self, pairs: npt.NDArray[Any]) -> None:
        if int(pairs.min()) < 0 or int(pairs.max()) >= self.n_obs:
            wrong = (pairs < 0) | (pairs >= self.n_obs)
            place, row = _first(pairs, wrong)
            there = f"the cells are numbered 0 to {self.n_obs - 1}"
            if self.n_obs == 0:
                there = "the file has no cells"
            raise IndexError(f"pair {place} of the plan has row {row}, but {there}")
        if self.is_cell is not None and not self.is_cell[pairs].all():
            place, row = _first(pairs, ~self.is_cell[pairs])
            raise IndexError(f"pair {place} of the plan has row {row}, which {self.missing}")


def pairs_array(plan: Any) -> npt.NDArray[Any]:
    """A plan as an integer array of shape (pairs, 2).

    Raises TypeError or ValueError when it is none.
    """
    if isinstance(plan, str | bytes | Mapping):
        raise TypeError(f"a plan is a list of pairs of rows, not {type(plan).__name__}")
    if not hasattr(plan, "__array__") and not isinstance(plan, list | tuple):
        try:
            plan = list(plan)
        except TypeError:
            raise TypeError(
                f"a plan is a list of pairs of rows, not {type(plan).__name__}"
            ) from None
    try:
        pairs = np.asarray(plan)
    except (ValueError, OverflowError):  # of several lengths, or beyond all integer types
        pairs = np.asarray(plan, dtype=object)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            "a plan is a list of pairs of rows, such as [(0, 5), (2, 7)]: shape (pairs, 2), not "
            f"{pairs.shape}"
        )
    if pairs.dtype.kind not in "iu":
        _refuse_rows(plan, pairs)
    return pairs


def _refuse_rows(plan: Any, pairs: npt.NDArray[Any]) -> NoReturn:
    # numpy makes objects or floats of numbers beyond 64 bits.
    rows = pairs if isinstance(plan, np.ndarray) else np.asarray(plan, dtype=object)
    row = arguments.beyond_64_bits(rows.flat)
    if row is not None:
        raise IndexError(f"the plan has row {row}, which no file has")
    raise TypeError(f"the rows of a plan must be whole numbers, not {pairs.dtype}")


def _first(pairs: npt.NDArray[Any], wrong: npt.NDArray[np.bool_]) -> tuple[int, int]:
    place, side = (int(index[0]) for index in np.nonzero(wrong))
    return place, int(pairs[place, side])


class PairDecoder:
    """Decodes plans of pairs for one iterator: both cells of all pairs in one batch.

    Parameters
    ----------
    rules
        What plans have to be.
    open_pipeline
        Opens what decodes, with room for as many batches as are under way.
    matrix
        What a batch of the matrix takes.
    obs
        Columns with an entry for each row of the file.
    counters
        Those of the data set.
    """

    def __init__(
        self,
        rules: PairRules,
        open_pipeline: Callable[[], Pipeline],
        *,
        matrix: MatrixDemand,
        obs: Mapping[str, ObsValues],
        counters: CacheCounters,
    ) -> None:
        self._rules = rules
        self._open_pipeline = open_pipeline
        self._pipeline: Pipeline | None = None
        self._matrix = matrix
        self._obs = obs
        self._counters = counters
        self._submitted: deque[PairPlan] = deque()

    def prepare(self, plan: Any) -> PairPlan | None:
        """Check a plan; None for an empty one."""
        return self._rules.prepare(plan)

    def batch_bytes(self, prepared: PairPlan) -> int:
        """Memory of the batch's arrays."""
        return self._matrix.buffer_bytes(len(prepared.rows))

    def submit(self, prepared: PairPlan) -> None:
        """Have the threads of the pipeline decode it."""
        if self._pipeline is None:
            self._pipeline = self._open_pipeline()
            self._pipeline.expect_scattered()
        self._pipeline.submit(prepared.rows)
        self._submitted.append(prepared)

    def receive(self) -> PairBatch:
        """The oldest batch, as soon as it is ready."""
        assert self._pipeline is not None  # a plan was submitted
        values = self._pipeline.wait()
        assert isinstance(values, np.ndarray)  # the layout is dense
        plan = self._submitted.popleft()
        self._counters.add_rows(len(plan.rows))
        n_pairs = len(plan.pairs)
        first, second = plan.rows[:n_pairs], plan.rows[n_pairs:]
        return {
            "X": values[:n_pairs],
            "X_paired": values[n_pairs:],
            "pairs": plan.pairs,
            "obs": {name: take(column, first) for name, column in self._obs.items()},
            "obs_paired": {name: take(column, second) for name, column in self._obs.items()},
        }

    def close(self) -> None:
        """End the threads; batches that were received stay valid."""
        if self._pipeline is not None:
            self._pipeline.close()
