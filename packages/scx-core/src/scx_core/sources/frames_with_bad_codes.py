"""Frames on disk of which a categorical column has codes without labels.

anndata refuses such a frame whole and says neither column nor row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from scx_core._label_codes import codes_problem

if TYPE_CHECKING:
    import pandas as pd

_noted: ContextVar[dict[str, str] | None] = ContextVar("codes that name no label", default=None)


@contextmanager
def noted_codes() -> Iterator[dict[str, str]]:
    """Let frames of the block be read although codes name no label.

    Gives a mapping from the place of each such column, such as "/obs/cell_type", to what is wrong;
    their rows are then all missing.
    """
    token = _noted.set({})
    try:
        yield cast("dict[str, str]", _noted.get())
    finally:
        _noted.reset(token)


def frame_despite_codes(group: Any, read: Any) -> pd.DataFrame | None:
    """A frame that anndata could not read, if codes are all that is wrong and they are noted.

    `group` is an element of HDF5 or Zarr, and `read` what reads one of its parts. None where the
    reason is another.

    Raises
    ------
    ValueError
        Codes are wrong and not noted: each with column, row and code.
    """
    import pandas as pd

    if not hasattr(group, "keys"):
        return None
    problems = {name: problem for name in group if (problem := _problem(group[name])) is not None}
    if not problems:
        return None
    noted = _noted.get()
    if noted is None or not {"_index", "column-order"} <= set(group.attrs):
        raise ValueError("; ".join(f"column {name!r}: {problems[name]}" for name in problems))
    noted |= {f"{group.name.rstrip('/')}/{name}": problem for name, problem in problems.items()}
    index = read(group[group.attrs["_index"]])
    columns = {
        name: pd.Categorical([None] * len(index)) if name in problems else read(group[name])
        for name in group.attrs["column-order"]
    }
    return pd.DataFrame(columns, index=index)


def refuse_lazy_codes(frame: Any) -> None:
    """Raise a ValueError where codes of a lazily read frame name no label."""
    import h5py

    for name, variable in getattr(getattr(frame, "ds", None), "variables", {}).items():
        base, path = (variable.attrs.get(key) for key in ("base_path_or_zarr_group", "elem_name"))
        if base is None or path is None:
            continue
        if isinstance(base, Path):
            with h5py.File(base, "r") as file:
                problem = _problem(file[path])
        else:
            problem = _problem(base[path])
        if problem is not None:
            raise ValueError(f"column {str(name)!r}: {problem}")


def _problem(column: Any) -> str | None:
    """What is wrong with the codes of a column; None for all that has none."""
    kept = column.attrs.get("categories")
    if hasattr(column, "keys"):
        if not {"codes", "categories"} <= set(column):
            return None
        codes, labels = column["codes"], column["categories"]
    elif hasattr(column, "file") and kept is not None:  # of anndata 0.7
        codes, labels = column, column.file[kept]
    else:
        return None
    return codes_problem(codes[()], int(labels.shape[0]) if labels.shape else 1)
