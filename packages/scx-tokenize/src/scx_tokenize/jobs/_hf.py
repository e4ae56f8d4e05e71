"""The tokens as a folder of HuggingFace's datasets."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path

from ._description import Job
from ._shards import PARTIAL_SUFFIX


def require_datasets() -> None:
    """ImportError where the package is missing."""
    try:
        import datasets  # noqa: F401
    except ImportError:
        raise ImportError(
            "hf needs the package datasets: python -m pip install 'scx-tokenize[hf]'"
        ) from None


def write_hf(job: Job, target: Path) -> None:
    """Write the shards as what `datasets.load_from_disk` opens, as a whole or not at all."""
    import datasets

    if target.exists():
        return
    paths = [str(job.data_folder / task.file_name) for task in job.tasks]
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}{PARTIAL_SUFFIX}")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent) as cache:
            dataset = datasets.Dataset.from_parquet(paths, cache_dir=cache)
            dataset.save_to_disk(str(partial))
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
