"""What a path looks like, judged by its content before its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from scx_core._paths import paths_below

SourceKind: TypeAlias = Literal[
    "scx",
    "h5ad",
    "h5mu",
    "10x_h5",
    "10x_molecules",
    "loom",
    "hdf5",
    "hdf5_damaged",
    "mtx_folder",
    "mtx_file",
    "zarr",
    "zip",
    "gzip",
    "folder",
    "missing",
    "empty",
    "special",
    "unknown",
]

DESCRIPTIONS: dict[SourceKind, str] = {
    "scx": "a .scx file",
    "h5ad": "an AnnData file (.h5ad)",
    "h5mu": "a MuData file (.h5mu)",
    "10x_h5": "a 10x Genomics count matrix in HDF5",
    "10x_molecules": "a 10x Genomics molecule file, which is not a count matrix",
    "loom": "a loom file",
    "hdf5": "an HDF5 file of no kind that is known here",
    "hdf5_damaged": "an HDF5 file that is cut off, damaged or still being written",
    "mtx_folder": "a folder with a Matrix Market count matrix",
    "mtx_file": "a Matrix Market file",
    "zarr": "a Zarr store",
    "zip": "a zip archive",
    "gzip": "a gzip-compressed file",
    "folder": "a folder without a count matrix",
    "missing": "nothing: no such file or folder",
    "empty": "an empty file",
    "special": "a pipe, a device or the like, and no regular file",
    "unknown": "a file of no kind that is known here",
}

REMEDIES: dict[SourceKind, str] = {
    "scx": "open it with scx_core.open",
    "h5ad": "read it with from_h5ad",
    "h5mu": "read it with from_h5mu",
    "10x_h5": "read it with from_10x",
    "10x_molecules": "take the filtered_feature_bc_matrix.h5 that lies beside it",
    "loom": "load it with anndata.io.read_loom and pass the result to from_anndata",
    "mtx_folder": "read it with from_mtx",
    "mtx_file": "read it with from_mtx",
    "zarr": "load it with anndata.read_zarr and pass the result to from_anndata",
    "zip": "unpack it first",
    "gzip": "unpack it first",
}


MATRIX_SUFFIXES = (".h5ad", ".h5mu", ".h5", ".mtx", ".mtx.gz", ".scx")
MATRICES_SHOWN = 3


def source_kind(path: Path) -> SourceKind:
    """The kind of file or folder at `path`."""
    if not path.exists():
        return "missing"
    if path.is_dir():
        return _folder_kind(path)
    # a pipe would have to be waited for
    return _file_kind(path) if path.is_file() else "special"


def advice(path: Path, reader: str) -> str:
    """What `path` looks like and which function reads it, to end a refusal of `reader`."""
    kind = source_kind(path)
    remedy = REMEDIES.get(kind)
    if remedy is not None and remedy.endswith(reader):
        remedy = None
    return f"it looks like {description(path, kind, remedy)}"


def description(path: Path, kind: SourceKind, remedy: str | None) -> str:
    """What the kind of `path` is, and what to do: `remedy`, or where its matrices lie."""
    if kind == "folder":
        return DESCRIPTIONS[kind] + matrices_elsewhere(path)
    return DESCRIPTIONS[kind] if remedy is None else f"{DESCRIPTIONS[kind]}; {remedy}"


def matrices_elsewhere(folder: Path) -> str:
    """How a message ends where a folder has no matrix.mtx: what lies in it or below, or ""."""
    beside = paths_below(folder, _is_matrix)
    if not beside:
        return ""
    return f"; name what lies in it: {', '.join(str(path) for path in beside[:MATRICES_SHOWN])}"


def _is_matrix(path: Path) -> bool:
    if path.is_dir():
        return any(matrix_files(path))
    return path.name.lower().endswith(MATRIX_SUFFIXES)


def _folder_kind(path: Path) -> SourceKind:
    if any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zattrs")):
        return "zarr"
    if any(matrix_files(path)):
        return "mtx_folder"
    return "folder"


def matrix_files(folder: Path) -> list[Path]:
    """The Matrix Market count matrices in `folder`, by name."""
    names = ("*matrix.mtx", "*matrix.mtx.gz")
    return sorted(path for name in names for path in folder.glob(name) if path.is_file())


def _file_kind(path: Path) -> SourceKind:
    import h5py

    with path.open("rb") as file:
        start = file.read(512)
    if not start:
        return "empty"
    if start.startswith(b"SCX\x01"):
        return "scx"
    if h5py.is_hdf5(path):
        try:
            with h5py.File(path, "r") as opened:
                return hdf5_kind(opened)
        except (OSError, RuntimeError, KeyError):  # the last two where links are damaged
            return "hdf5_damaged"
    if start.startswith(b"PK\x03\x04"):
        return "zip"
    if path.name.endswith((".mtx", ".mtx.gz")) or start.startswith(b"%%MatrixMarket"):
        return "mtx_file"
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    return "unknown"


def hdf5_kind(file: Any) -> SourceKind:
    """The kind of an open HDF5 file."""
    keys = set(file)
    if "mod" in keys and _is_group(file, "mod"):
        return "h5mu"
    if {"barcode_idx", "umi"} <= keys or {"barcode", "umi", "gene"} <= keys:
        return "10x_molecules"
    if "matrix" in keys and {"row_attrs", "col_attrs"} <= keys:
        return "loom"
    if "matrix" in keys and _is_group(file, "matrix") and "barcodes" in file["matrix"]:
        return "10x_h5"
    if {"obs", "var"} <= keys:
        return "h5ad"
    if legacy_genomes(file):
        return "10x_h5"
    return "h5ad" if _text(file.attrs.get("encoding-type")) == "anndata" else "hdf5"


def legacy_genomes(file: Any) -> list[str]:
    """The groups of a file in the layout before Cell Ranger 3: one matrix a genome."""
    needed = {"barcodes", "data", "indices", "indptr", "shape", "genes"}
    return [name for name in file if _is_group(file, name) and needed <= set(file[name])]


def _is_group(file: Any, name: str) -> bool:
    import h5py

    return file.get(name, getclass=True) is h5py.Group


def _text(value: Any) -> Any:
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
