"""From whatever the user has to a .scx file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import realistic_counts
import scx_core

MEDIAN_UMI = 4000.0


@dataclass(frozen=True)
class Converted:
    """A .scx file and what it was made from."""

    source: Path
    source_kind: str
    source_bytes: int
    scx: Path
    scx_bytes: int
    seconds: float


def make_source(folder: Path, n_cells: int, n_genes: int, seed: int) -> Path:
    """Realistic counts as an uncompressed .h5ad in the folder."""
    path = folder / "counts.h5ad"
    realistic_counts.write_counts(path, n_cells, n_genes, MEDIAN_UMI, seed)
    return path


def convert(source: Path, scx: Path, *, genome: str | None = None) -> Converted:
    """Convert the source, with a progress bar on a terminal.

    Raises ValueError when the path is not one of the three kinds, and whatever the conversion
    raises.
    """
    import anndata  # noqa: F401  (importing it takes longer than a small conversion)

    start = time.perf_counter()
    if source.is_dir():
        kind = "mtx folder"
        scx_core.from_mtx(source, scx, overwrite=True)
    elif source.suffix.lower() == ".h5ad":
        kind = "h5ad"
        scx_core.from_h5ad(source, scx, overwrite=True)
    elif source.suffix.lower() == ".h5":
        kind = "10x h5"
        _convert_10x(source, scx, genome)
    else:
        raise ValueError(
            f"{source} is neither an .h5ad file, nor a 10x .h5 file, nor a folder with matrix.mtx"
        )
    seconds = time.perf_counter() - start
    return Converted(source, kind, _size(source), scx, scx.stat().st_size, seconds)


def _convert_10x(source: Path, scx: Path, genome: str | None) -> None:
    try:
        scx_core.from_10x(source, scx, genome=genome, overwrite=True)
    except ValueError as error:
        # The library names its argument, the demo has an option instead.
        raise ValueError(str(error).replace("genome=", "--genome")) from error


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(part.stat().st_size for part in path.rglob("*") if part.is_file())
