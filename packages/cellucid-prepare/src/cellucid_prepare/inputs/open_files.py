"""Opening what is given by its path, judged by its content before its name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cellucid_prepare._faults import Faults
from cellucid_prepare.ready.tree import place
from scx_core._paths import local_path
from scx_core.sources.frames_with_bad_codes import noted_codes

TAKEN = "give an .h5ad, .h5mu, .zarr, .zarr.zip or .scx"

_FROM_10X = "convert it first (`scx convert IN OUT.scx`), and pass the .scx with embeddings"
MENDS = {
    "10x_h5": _FROM_10X,
    "mtx_folder": _FROM_10X,
    "mtx_file": _FROM_10X,
    "10x_molecules": "take the filtered_feature_bc_matrix.h5 that lies beside it",
    "loom": "read it with anndata.io.read_loom, and write an .h5ad",
    "gzip": "unpack it first",
    "hdf5_damaged": "get or write it again",
    "empty": "get or write it again",
}


def input_path(given: str | os.PathLike[str]) -> Path:
    """`given` as a path of this machine.

    Raises ValueError where it is empty or an address of the web.
    """
    return Path(local_path(given)).expanduser()


@contextmanager
def opened_file(path: Path, faults: Faults) -> Iterator[Any]:
    """The content of the file, as `Part` or `Multimodal`; it can be read inside the block only.

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    PrepareError
        It is of a kind that holds no AnnData or MuData.
    ValueError
        It is damaged, or compressed in a way that cannot be undone here.
    """
    with noted_codes() as codes, _opened_kind(path, faults) as content:
        add_codes(codes, faults)
        yield content


def add_codes(codes: Mapping[str, str], faults: Faults) -> None:
    """Add what is wrong with codes of obs and var; other tables are not written."""
    for place_in_file, problem in codes.items():
        parts = place_in_file.strip("/").split("/")
        if parts[2 if parts[0] == "mod" else 0] in ("obs", "var"):
            faults.add(place(place_in_file), problem, "write the column anew from its labels")


@contextmanager
def _opened_kind(path: Path, faults: Faults) -> Iterator[Any]:
    from scx_core.sources.detect import DESCRIPTIONS, source_kind

    kind = source_kind(path)
    if kind == "missing":
        raise FileNotFoundError(f"there is no file or folder {path}")
    if kind == "scx":
        import scx_core
        from cellucid_prepare.inputs.from_scx import experiment_part, experiment_parts

        with scx_core.open(path) as experiment:
            several = experiment.is_multimodal
            yield experiment_parts(experiment) if several else experiment_part(experiment)
    elif kind == "h5ad":
        from cellucid_prepare.inputs.from_hdf5 import h5ad_part

        with h5ad_part(path) as part:
            yield part
    elif kind == "h5mu":
        from cellucid_prepare.inputs.from_hdf5 import h5mu_parts

        with h5mu_parts(path) as parts:
            yield parts
    elif kind in ("zarr", "zip"):
        from cellucid_prepare.inputs.from_zarr import zarr_content

        with zarr_content(path) as content:
            yield content
    else:
        what = f"'{path}' looks like {DESCRIPTIONS[kind]}"
        faults.add_type("data", what, MENDS.get(kind, TAKEN))
        faults.raise_any()
