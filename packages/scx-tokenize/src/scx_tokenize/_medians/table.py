"""The file that medians are written to, and read from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from scx_core._paths import local_path
from scx_core.export.placing import placed_file
from scx_tokenize.jobs._files import naming

if TYPE_CHECKING:
    import pyarrow as pa


SUFFIX = ".parquet"


def check_target(out: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """The path to write to, once nothing speaks against it.

    Raises
    ------
    FileExistsError
        It exists and is not to be replaced, or is a folder.
    FileNotFoundError
        Its folder does not exist.
    ValueError
        Its name is not that of a Parquet file.
    """
    path = Path(local_path(out, "out", writing=True))
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder, not a file to write to")
    if path.suffix.lower() != SUFFIX:
        raise ValueError(
            f"{path} would be a Parquet file, which is read as such by its name: end it in {SUFFIX}"
        )
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}")
    return path


def write_table(table: pa.Table, path: Path, *, overwrite: bool) -> None:
    """Write Parquet under another name and rename it, so that no half file is ever seen."""
    import pyarrow.parquet as pq

    with placed_file(path, overwrite=overwrite) as hidden:
        try:
            pq.write_table(table, hidden, compression="zstd")
        except OSError as error:
            raise naming(path, error) from None
