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


class LabelCodesError(ValueError):
    """Codes of a frame name no label; the message has column, row and code."""


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


def element_despite_codes(group: Any, read: Any) -> pd.DataFrame | dict[str, Any] | None:
    """An element that anndata could not read, if codes are all that is wrong and they are noted.

    `group` is an element of HDF5 or Zarr, a frame or a dictionary, and `read` what reads one of its
    parts. None where the reason is another.

    Raises
    ------
    LabelCodesError
        Codes are wrong and not noted.
    """
    import pandas as pd

    if not hasattr(group, "keys"):
        return None
    if group.attrs.get("encoding-type") == "dict":
        # each member by itself, so that the one which is wrong is named
        return {name: read(group[name]) for name in group}
    problems = {name: problem for name in group if (problem := _problem(group[name])) is not None}
    if not problems:
        return None
    noted = _noted.get()
    if noted is None or not {"_index", "column-order"} <= set(group.attrs):
        raise LabelCodesError("; ".join(f"column {name!r}: {problems[name]}" for name in problems))
    noted |= {f"{group.name.rstrip('/')}/{name}": problem for name, problem in problems.items()}
    index = read(group[group.attrs["_index"]])
    columns = {
        name: pd.Categorical([None] * len(index)) if name in problems else read(group[name])
        for name in group.attrs["column-order"]
    }
    return pd.DataFrame(columns, index=index)


def lazy_frame_despite_codes(frame: Any) -> pd.DataFrame | None:
    """A lazily read frame that could not be loaded, as `element_despite_codes` has it."""
    import pandas as pd

    problems = {name: problem for name, _, problem in _lazy_problems(frame)}
    if not problems:
        return None
    noted = _noted.get()
    if noted is None:
        raise LabelCodesError("; ".join(f"column {name!r}: {problems[name]}" for name in problems))
    noted |= {path: problem for _, path, problem in _lazy_problems(frame)}
    listed = list(frame.columns)
    loaded = frame[[name for name in listed if name not in problems]].to_memory()
    gaps = {name: pd.Categorical([None] * len(loaded)) for name in problems}
    return cast("pd.DataFrame", loaded.assign(**gaps)[listed])


def _lazy_problems(frame: Any) -> Iterator[tuple[str, str, str]]:
    """Each column of which codes name no label: its name, place in the file, and problem."""
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
            yield str(name), f"/{str(path).strip('/')}", problem


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
