"""The tokens as a folder of HuggingFace's datasets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scx_core._temporary import beside, put_in_place

from ._description import Job
from ._files import CACHE_SUFFIX


def require_datasets() -> None:
    """ImportError where the package is missing."""
    try:
        import datasets  # noqa: F401
    except ImportError:
        raise ImportError(
            "hf needs the package datasets: python -m pip install 'scx-tokenize[hf]'"
        ) from None


def write_hf(job: Job, target: Path, *, quiet: bool = False) -> None:
    """Write the shards as what `datasets.load_from_disk` opens, as a whole or not at all.

    `quiet` keeps bars of datasets off the screen.
    """
    import datasets

    if target.exists():
        return
    paths = [str(job.data_folder / task.file_name) for task in job.tasks]
    with (
        beside(target) as partial,
        beside(target, suffix=CACHE_SUFFIX) as cache,
        _bars(shown=not quiet),
    ):
        dataset = datasets.Dataset.from_parquet(paths, cache_dir=str(cache))
        dataset.save_to_disk(str(partial))
        put_in_place(partial, target, overwrite=False)


@contextmanager
def _bars(*, shown: bool) -> Iterator[None]:
    import datasets

    if shown or datasets.are_progress_bars_disabled():
        yield
        return
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.enable_progress_bars()
