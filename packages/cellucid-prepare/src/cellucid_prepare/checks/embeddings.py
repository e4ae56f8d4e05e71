"""Embeddings, and vector fields over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare._faults import Faults, plural
from cellucid_prepare.checks.names import check_element_names

Array = npt.NDArray[np.float32]
BASIS_PREFIX = "X_"


def check_embeddings(
    embeddings: Any, faults: Faults, *, where: str = "obsm", is_data: bool = False
) -> dict[str, Array]:
    """Every embedding as float32 of at least a column.

    `is_data` says that there is data, which may hold none.
    """
    if not isinstance(embeddings, Mapping):
        faults.add_type(
            "embeddings", f"is a {type(embeddings).__name__}", "pass {'X_umap': array, ...}"
        )
        return {}
    if not embeddings and is_data:
        faults.add(
            where,
            "the data holds no embedding, that is no array of numbers of cells x axes",
            "compute one, for instance with scanpy.tl.umap, or pass embeddings={'X_umap': array}",
        )
        return {}
    if not embeddings:
        faults.add("embeddings", "is empty", "give at least one embedding, such as X_umap")
        return {}
    good = set(check_element_names(embeddings, where, faults))
    result: dict[str, Array] = {}
    for key, value in embeddings.items():
        if isinstance(key, str) and key in good:
            array = coordinates(value, f"{where}[{key!r}]", faults)
            if array is not None:
                result[key] = array
    return result


def coordinates(given: Any, where: str, faults: Faults) -> Array | None:
    """An array of cells by axes, as finite float32."""
    import scipy.sparse as sp

    value: Any = given

    try:
        array: npt.NDArray[Any] = value.toarray() if sp.issparse(given) else np.asarray(value)
    except (ValueError, TypeError) as error:
        faults.add_type(where, f"is no array ({error})")
        return None
    if array.dtype.kind not in "biuf":
        faults.add_type(where, f"holds values of type {array.dtype}", "it takes real numbers")
        return None
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2:
        faults.add(where, f"has the shape {array.shape}", "give cells x axes")
        return None
    if array.shape[1] == 0:
        faults.add(where, "has no columns", "leave it out")
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        small = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(small)
    if not finite.all():
        cells = np.flatnonzero(~finite.all(axis=1))
        kinds = _kinds(array, small)
        faults.add(
            where,
            f"{plural(len(cells), 'cell', 'have')} values that are no finite float32 ({kinds}), "
            f"the first in row {cells[0]}",
            "leave such cells out, or compute it anew",
            n_cells=len(cells),
        )
        return None
    return small


def _kinds(array: npt.NDArray[Any], small: Array) -> str:
    floats = array if array.dtype.kind == "f" else small
    nans, infinities = int(np.isnan(floats).sum()), int(np.isinf(floats).sum())
    beyond = int((~np.isfinite(small)).sum()) - nans - infinities
    counts = {"NaN": nans, "infinite": infinities, "too large": beyond}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def check_vector_fields(
    fields: Any, embeddings: Mapping[str, Array], faults: Faults
) -> dict[str, Array]:
    """Vector fields by the key under which they are stored, ``<field>_<basis>``."""
    if not isinstance(fields, Mapping):
        faults.add_type(
            "vector_fields", f"is a {type(fields).__name__}", "pass {'velocity': {'X_umap': array}}"
        )
        return {}
    stored: dict[str, Array] = {}
    taken = {key.casefold(): key for key in embeddings}
    for field, arrays in fields.items():
        where = f"vector_fields[{field!r}]"
        if not isinstance(field, str) or not field:
            faults.add_type(where, "the name is no text of at least a letter", "name the field")
            continue
        if not isinstance(arrays, Mapping) or not arrays:
            faults.add_type(where, "holds no arrays by embedding", "pass {'X_umap': array}")
            continue
        for key, value in arrays.items():
            place = f"{where}[{key!r}]"
            name = _stored_key(field, key, embeddings, place, faults)
            if name is None or not check_element_names([name], "obsm", faults):
                continue
            if name.casefold() in taken:
                faults.add(
                    place,
                    f"would be stored as obsm[{name!r}], which is taken",
                    "rename the field or the other array",
                )
                continue
            taken[name.casefold()] = name
            array = coordinates(value, place, faults)
            if array is not None and fits(array, field, key, embeddings, place, faults):
                stored[name] = array
    return stored


def fits(
    array: Array,
    field: str,
    key: str,
    embeddings: Mapping[str, Array],
    place: str,
    faults: Faults,
) -> bool:
    """Whether a vector field has a component for each axis of its embedding."""
    if array.shape[1] == embeddings[key].shape[1]:
        return True
    faults.add(
        place,
        f"the field {field!r} has {plural(array.shape[1], 'column')}, its embedding "
        f"obsm[{key!r}] has {embeddings[key].shape[1]}",
        "give a component for each axis",
    )
    return False


def _stored_key(
    field: str, key: Any, embeddings: Mapping[str, Array], place: str, faults: Faults
) -> str | None:
    if not isinstance(key, str) or key not in embeddings:
        faults.add(
            place, f"{key!r} is none of the embeddings", f"choose one of {sorted(embeddings)}"
        )
        return None
    if not key.startswith(BASIS_PREFIX) or key == BASIS_PREFIX:
        faults.add(
            place,
            "fields belong to an embedding X_<basis>, and this is none",
            f"rename the embedding, for instance to {BASIS_PREFIX}{key}",
        )
        return None
    name = f"{field}_{key.removeprefix(BASIS_PREFIX)}"
    if name.startswith(BASIS_PREFIX):
        faults.add(place, f"obsm[{name!r}] would be read as an embedding", "rename the field")
        return None
    read_as = parse_field_key(name, embeddings)
    if read_as is not None and read_as != (field, key):
        faults.add(
            place,
            f"obsm[{name!r}] would be read as the field {read_as[0]!r} on {read_as[1]!r}",
            "rename the field",
        )
        return None
    return name


def parse_field_key(name: str, embeddings: Mapping[str, Any]) -> tuple[str, str] | None:
    """The field and embedding that a key of obsm stands for: the longest basis that fits."""
    if name.startswith(BASIS_PREFIX):
        return None
    for place, character in enumerate(name):
        if character == "_" and place > 0:
            key = BASIS_PREFIX + name[place + 1 :]
            if key in embeddings and key != BASIS_PREFIX:
                return name[:place], key
    return None


def split_obsm(obsm: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, tuple[str, str]]]:
    """obsm as embeddings and vector fields (key: field and embedding).

    A key ``<field>_<basis>`` is a field where ``X_<basis>`` is there and as wide.
    """
    fields: dict[str, tuple[str, str]] = {}
    for key, array in obsm.items():
        read_as = parse_field_key(key, obsm)
        if read_as is not None and _width(array) == _width(obsm[read_as[1]]):
            fields[key] = read_as
    embeddings = {key: array for key, array in obsm.items() if key not in fields}
    return embeddings, fields


def _width(array: Any) -> int:
    return int(array.shape[1]) if len(array.shape) > 1 else 1
