"""The tokens as a folder of HuggingFace's datasets."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._description import Job
from ._files import PARTIAL_SUFFIX


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
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        temporary = tempfile.TemporaryDirectory(
            prefix=".hf.", suffix=PARTIAL_SUFFIX, dir=target.parent
        )
        with temporary as cache, _bars(shown=not quiet):
            dataset = datasets.Dataset.from_parquet(paths, cache_dir=cache)
            dataset.save_to_disk(str(partial))
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


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
