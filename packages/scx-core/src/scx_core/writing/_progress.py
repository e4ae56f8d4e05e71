"""Telling how far a conversion has come."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

ProgressCallback: TypeAlias = Callable[[int, int], object]
Progress: TypeAlias = bool | ProgressCallback | None
"""None: a bar on a terminal or in a notebook. True or False: a bar, or none. A callable: it is
called with the rows done and the rows in all, counted over every matrix."""


@contextmanager
def row_progress(
    progress: Progress, total_rows: int, *, unit: str = "rows"
) -> Iterator[Callable[[int], None]]:
    """Give a function that is told of rows as they are done.

    `unit` is what a bar calls what is counted, where it is not rows.
    """
    if callable(progress):
        done_rows = 0

        def report(n_rows: int) -> None:
            nonlocal done_rows
            done_rows += n_rows
            progress(done_rows, total_rows)

        yield report
        return
    if progress not in (None, True, False):
        raise TypeError(f"progress={progress!r} must be None, True, False or a function")
    if not (_is_seen() if progress is None else progress):
        yield lambda n_rows: None
        return
    with warnings.catch_warnings():
        # of notebooks without ipywidgets, where the bar is one of text
        warnings.filterwarnings("ignore", "IProgress not found")
        from tqdm.auto import tqdm
    with tqdm(total=total_rows, unit=f" {unit}", unit_scale=True, desc="writing") as bar:

        def update(n_rows: int) -> None:
            bar.update(n_rows)

        yield update


def _is_seen() -> bool:
    """Whether somebody looks at a bar: on a terminal, or in a notebook."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    return on_terminal or "ipykernel.zmqshell" in sys.modules
