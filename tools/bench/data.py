"""The benchmark's inputs, made once and kept in ``.bench-data/``."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import realistic_counts


@dataclass(frozen=True)
class CountsSize:
    """Arguments of the generator."""

    n_cells: int
    n_genes: int
    median_umi: float
    seed: int = 0

    @property
    def name(self) -> str:
        return f"counts-{self.n_cells}x{self.n_genes}"


FULL = CountsSize(100_000, 20_000, 4000.0)
"""Some 1,900 stored values a cell, 1.6 GB uncompressed."""
QUICK = CountsSize(8_000, 6_000, 4000.0)


def prepare_folder(folder: Path) -> Path:
    """Make the cache folder; it keeps itself out of version control."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder


def fingerprint(size: CountsSize) -> str:
    """Changes with the generator's source and its arguments."""
    source = Path(realistic_counts.__file__).read_bytes()
    return hashlib.blake2b(source + repr(asdict(size)).encode(), digest_size=6).hexdigest()


def counts_h5ad(size: CountsSize, folder: Path) -> Path:
    """The uncompressed .h5ad of this size; made when it is missing or the generator has changed."""
    path = folder / f"{size.name}-{fingerprint(size)}.h5ad"
    if not path.exists():
        for outdated in folder.glob(f"{size.name}-*.h5ad"):
            outdated.unlink()
        print(f"making {path}", file=sys.stderr)
        realistic_counts.write_counts(path, size.n_cells, size.n_genes, size.median_umi, size.seed)
    return path


def warm(path: Path) -> None:
    """Read the file once, so that the page cache holds it."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
