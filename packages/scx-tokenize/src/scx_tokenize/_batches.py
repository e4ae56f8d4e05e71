"""The forms in which a kernel takes a batch: three arrays, a CSR matrix, or what holds one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload, runtime_checkable

import numpy as np

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

PARTS = ("indptr", "indices", "data")


@runtime_checkable
class CsrLike(Protocol):
    """A scipy CSR matrix or array, or what looks like one."""

    @property
    def format(self) -> Any: ...

    @property
    def indptr(self) -> Any: ...

    @property
    def indices(self) -> Any: ...

    @property
    def data(self) -> Any: ...


@runtime_checkable
class HasX(Protocol):
    """An AnnData, or what has a matrix under the same name."""

    @property
    def X(self) -> Any: ...


CsrBatch: TypeAlias = CsrLike | HasX | Mapping[str, Any]


class Kernel(Protocol[P, T_co]):
    """A function that also takes a whole batch in place of the arrays that it begins with."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    @overload
    def __call__(self, batch: CsrBatch, /, *args: Any, **kwargs: Any) -> T_co: ...


def takes_batches(*parts: str) -> Callable[[Callable[P, T]], Kernel[P, T]]:
    """Let the first argument be a batch, which stands for these parts of it."""

    def decorate(function: Callable[P, T]) -> Kernel[P, T]:
        @functools.wraps(function)
        def kernel(*args: Any, **kwargs: Any) -> T:
            if args and is_batch(args[0]):
                arrays = csr_parts(args[0], who=function.__name__)
                args = (*(arrays[part] for part in parts), *args[1:])
            return cast(Callable[..., T], function)(*args, **kwargs)

        return cast(Kernel[P, T], kernel)

    return decorate


def is_batch(value: Any) -> bool:
    """Whether this is meant as a batch, not as the first of its arrays."""
    if isinstance(value, np.ndarray):
        return value.ndim == 2
    if value is None or isinstance(value, str | Mapping | os.PathLike):
        return True
    return getattr(value, "ndim", 1) == 2 or hasattr(value, "X") or hasattr(value, "format")


def csr_parts(batch: Any, *, who: str) -> dict[str, Any]:
    """The three arrays of a batch, without a copy."""
    if isinstance(batch, Mapping):
        if all(part in batch for part in PARTS):
            return {part: batch[part] for part in PARTS}
        if "X" not in batch:
            keys = ", ".join(map(str, batch)) or "none"
            raise ValueError(
                f"{who}: a batch has the keys indptr, indices and data, or X with a CSR matrix, "
                f"but the keys of this one are {keys}"
            )
        return _matrix_parts(batch["X"], who=who)
    return _matrix_parts(batch if _has_parts(batch) else getattr(batch, "X", batch), who=who)


def _has_parts(value: Any) -> bool:
    return all(hasattr(value, part) for part in PARTS)


def _matrix_parts(matrix: Any, *, who: str) -> dict[str, Any]:
    if not _has_parts(matrix) or getattr(matrix, "format", "csr") != "csr":
        layout = getattr(matrix, "format", None)
        kind = layout if isinstance(layout, str) else type(matrix).__name__
        raise TypeError(
            f"{who}: the matrix of a batch has to be in CSR, but this one is {kind}: pass "
            "scipy.sparse.csr_matrix(X), or use layout='csr' where the batch comes from a data set"
        )
    stored = int(matrix.indptr[-1]) if len(matrix.indptr) else 0
    # a matrix that was not pruned has room behind its last value
    return {
        "indptr": matrix.indptr,
        "indices": matrix.indices[:stored],
        "data": matrix.data[:stored],
    }
