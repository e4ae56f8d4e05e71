"""What must hold before the first byte is written: every length, dtype, key and option.

A refusal here leaves nothing behind, because nothing has been begun. Messages name parts as a user
would write them: `layers['counts']`, `mod['rna'].obsm['X_pca']`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scx_core.sources.base import ExperimentContent, MatrixSource, ModalityContent
from scx_core.writing._skipping import check_dtype, part_path, skippable

CODECS = ("auto", "rowpack", "none")
SHARD_SIZE_MAX = 2**31 - 1
COLUMNS_MAX = 2**31 - 1
MODALITIES_MAX = 255
MODALITY_NAME_BYTES_MAX = 64
# the container allows 1024; shard numbers and prefixes are added to a key
KEY_BYTES_MAX = 900
MUDATA_AXES = (0, 1, -1)


def check_options(*, codec: str, shard_size: int, threads: int, block_bytes: int) -> None:
    """Refuse options that no content could make right."""
    if codec not in CODECS:
        raise ValueError(f"codec={codec!r} is unknown: choose one of {', '.join(CODECS)}")
    for name, value, lowest, highest in (
        ("shard_size", shard_size, 1, SHARD_SIZE_MAX),
        ("threads", threads, 0, 2**16),
        ("block_bytes", block_bytes, 1, 2**62),
    ):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
        if not lowest <= value <= highest:
            raise ValueError(f"{name}={value} must lie in {lowest} to {highest}")


def check_content(content: ExperimentContent) -> None:
    """Refuse content whose parts do not fit each other or that a file cannot hold."""
    n_obs = len(content.obs)
    multimodal = is_multimodal(content)
    if not 1 <= len(content.modalities) <= MODALITIES_MAX:
        raise ValueError(
            f"{len(content.modalities)} modalities: a file holds 1 to {MODALITIES_MAX}"
        )
    if content.axis not in MUDATA_AXES:
        raise ValueError(f"axis={content.axis} must be 0, 1 or -1")
    for name, modality in content.modalities.items():
        if multimodal:
            _check_modality_name(name)
        _check_modality(modality, n_obs, label_of(name))
    if not multimodal:
        return
    _check_aligned(content.obsm, "obsm", n_obs, "")
    _check_pairwise(content.obsp, "obsp", n_obs, "")
    n_shared = None if content.var is None else len(content.var)
    if n_shared is None and (content.varm or content.varp):
        raise ValueError("varm and varp over all modalities need a var over all modalities")
    _check_aligned(content.varm, "varm", n_shared or 0, "")
    _check_pairwise(content.varp, "varp", n_shared or 0, "")
    for name, modality in content.modalities.items():
        if modality.columns is not None:
            label = f"{label_of(name)}columns"
            _check_positions(modality.columns, len(modality.var), n_shared or 0, label)


def is_multimodal(content: ExperimentContent) -> bool:
    """Whether the content has named modalities."""
    return list(content.modalities) != [""]


def label_of(modality_name: str) -> str:
    """How messages begin that speak of a part of this modality."""
    return f"mod[{modality_name!r}]." if modality_name else ""


def _check_modality(modality: ModalityContent, n_obs: int, label: str) -> None:
    n_vars = len(modality.var)
    if n_vars > COLUMNS_MAX:
        raise ValueError(f"{label}var has {n_vars} rows; a file holds at most {COLUMNS_MAX}")
    n_cells = n_obs
    if label:
        n_cells = _check_cells(modality, n_obs, label)
    elif modality.obs is not None or modality.rows is not None or modality.columns is not None:
        raise ValueError("obs, rows and columns of a modality need a named modality")
    if modality.X is not None:
        _check_matrix(modality.X, (n_cells, n_vars), f"{label}X")
    for key, layer in modality.layers.items():
        name = f"{label}layers[{key!r}]"
        _check_key(key, name)
        _check_matrix(layer, (n_cells, n_vars), name)
    _check_aligned(modality.obsm, "obsm", n_cells, label)
    _check_aligned(modality.varm, "varm", n_vars, label)
    _check_pairwise(modality.obsp, "obsp", n_cells, label)
    _check_pairwise(modality.varp, "varp", n_vars, label)
    _check_raw(modality, n_cells, label)


def _check_cells(modality: ModalityContent, n_obs: int, label: str) -> int:
    if modality.obs is None or modality.rows is None:
        raise ValueError(f"{label}obs and {label}rows are needed in a multimodal file")
    n_cells = len(modality.obs)
    _check_positions(modality.rows, n_cells, n_obs, f"{label}rows")
    return n_cells


def _check_positions(positions: Any, n_members: int, n_total: int, label: str) -> None:
    array = np.asarray(positions)
    if array.ndim != 1 or array.dtype != np.int64 or len(array) != n_members:
        raise ValueError(
            f"{label} must be int64 of {n_members} entries, is {array.dtype} of shape {array.shape}"
        )
    if n_members and (array.min() < 0 or array.max() >= n_total):
        raise ValueError(f"{label} has entries outside 0 to {n_total - 1}")
    if len(np.unique(array)) != n_members:
        raise ValueError(f"{label} names an entry twice")


def _check_raw(modality: ModalityContent, n_cells: int, label: str) -> None:
    if modality.raw_var is None:
        if modality.raw_X is not None or modality.raw_varm:
            raise ValueError(f"{label}raw has values but no var")
        return
    n_raw_vars = len(modality.raw_var)
    if n_raw_vars > COLUMNS_MAX:
        raise ValueError(f"{label}raw.var has {n_raw_vars} rows; at most {COLUMNS_MAX} fit")
    if modality.raw_X is None:
        raise ValueError(f"{label}raw has a var but no matrix")
    _check_matrix(modality.raw_X, (n_cells, n_raw_vars), f"{label}raw.X")
    _check_aligned(modality.raw_varm, "raw.varm", n_raw_vars, label)


def _check_matrix(source: MatrixSource, expected: tuple[int, int], label: str) -> None:
    if tuple(source.shape) != expected:
        raise ValueError(
            f"{label} is {source.shape[0]} x {source.shape[1]}, "
            f"but obs and var make it {expected[0]} x {expected[1]}"
        )
    check_dtype(source, label)


def _check_aligned(components: Mapping[str, Any], kind: str, length: int, label: str) -> None:
    for key in components:
        name = f"{label}{kind}[{key!r}]"
        _check_key(key, name)
        with skippable(part_path(name)):
            value = components[key]
        shape = getattr(value, "shape", None)
        # what has a length but no shape is left to the encoder, which names what it refuses
        found = shape[0] if shape else len(value) if hasattr(value, "__len__") else None
        if found != length:
            raise ValueError(f"{name} has {found} rows where {length} are expected")


def _check_pairwise(components: Mapping[str, Any], kind: str, length: int, label: str) -> None:
    for key in components:
        name = f"{label}{kind}[{key!r}]"
        _check_key(key, name)
        with skippable(part_path(name)):
            value = components[key]
        shape = tuple(getattr(value, "shape", ()))
        if shape[:2] != (length, length):
            raise ValueError(f"{name} has shape {shape}, expected {length} x {length}")


def _check_modality_name(name: str) -> None:
    _check_key(name, f"modality {name!r}")
    if not name:
        raise ValueError("a modality needs a name")
    if len(name.encode()) > MODALITY_NAME_BYTES_MAX:
        raise ValueError(
            f"the modality name {name!r} takes {len(name.encode())} bytes; "
            f"at most {MODALITY_NAME_BYTES_MAX} fit"
        )


def _check_key(key: Any, label: str) -> None:
    if not isinstance(key, str):
        raise TypeError(f"{label}: keys must be text, not {type(key).__name__}")
    try:
        n_bytes = len(key.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{label}: half a surrogate pair in the key is no UTF-8 text") from None
    if "\0" in key:
        raise ValueError(f"{label}: a key with a NUL character cannot name a section")
    if n_bytes > KEY_BYTES_MAX:
        raise ValueError(
            f"{label[:80]}...: the key takes {n_bytes} bytes; at most {KEY_BYTES_MAX} fit"
        )
