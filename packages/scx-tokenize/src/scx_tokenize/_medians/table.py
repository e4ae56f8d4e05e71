"""The file that medians are written to, and read from."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

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
    path = Path(out)
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder, not a file to write to")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for {path.name}")
    if path.suffix.lower() != SUFFIX:
        raise ValueError(
            f"{path} would be a Parquet file, which is read as such by its name: end it in {SUFFIX}"
        )
    return path


def write_table(table: pa.Table, path: Path) -> None:
    """Write Parquet under another name and rename it, so that no half file is ever seen."""
    import pyarrow.parquet as pq

    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp lets nobody else read
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        raise naming(path, error) from None
