"""What a viewer shows when the file is opened: the launch defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from cellucid_prepare._faults import Faults

DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3}
SHOWN_COLUMNS_MAX = 3
MIN_POINTS = 10
# looked for in this order by a viewer that was told nothing
USUAL_KEYS = ("X_umap", "X_UMAP", "X_wnn.umap", "X_ref.umap")
# words in keys of embeddings, by the rank of such an embedding as a guess
GUESSES = {
    0: ("umap",),
    1: ("tsne", "t-sne", "t_sne"),
    2: ("draw_graph", "force"),
    3: ("phate",),
    4: ("pacmap", "trimap"),
    5: ("spatial",),
    6: ("diffmap",),
    8: ("pca", "scvi", "latent", "harmony", "x_emb"),
}
UNKNOWN_RANK = 7


@dataclass(frozen=True)
class LaunchDefaults:
    """The choices that were given; None stands for the viewer's own."""

    embedding_defaults: Any = None
    latent_key: Any = None
    obs_keys: Any = None
    var_gene_id_column: Any = None
    vector_field_default: Any = None
    normalize_embeddings: Any = None
    centroid_min_points: Any = None
    modality: Any = None


@dataclass(frozen=True)
class Contents:
    """What the output will hold, as far as the defaults refer to it.

    `widths` has the columns of every embedding, `vector_keys` those of obsm that are fields (field
    and embedding). `modalities` is None for an AnnData.
    """

    widths: Mapping[str, int]
    vector_keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    obs_columns: Sequence[str] = ()
    modalities: Sequence[str] | None = None


def check_defaults(given: LaunchDefaults, contents: Contents, faults: Faults) -> dict[str, Any]:
    """The defaults as the output stores them, of the given ones alone."""
    stored: dict[str, Any] = {}
    chosen: dict[str, str] = {}
    if given.embedding_defaults is not None:
        _embeddings(given.embedding_defaults, contents.widths, stored, chosen, faults)
    if given.latent_key is not None:
        if not isinstance(given.latent_key, str) or given.latent_key not in contents.widths:
            faults.add(
                "latent_key",
                f"{given.latent_key!r} is none of the embeddings",
                f"choose one of {sorted(contents.widths)}",
            )
        else:
            stored["latentKey"] = given.latent_key
    if given.obs_keys is not None:
        _obs_keys(given.obs_keys, contents.obs_columns, stored, faults)
    if given.var_gene_id_column is not None:
        if not isinstance(given.var_gene_id_column, str) or not given.var_gene_id_column:
            faults.add_type("var_gene_id_column", "is no name of a column")
        else:
            stored["geneIdColumn"] = given.var_gene_id_column
    if given.vector_field_default is not None:
        _vector_field(given, contents, chosen, stored, faults)
    if given.normalize_embeddings is not None:
        if given.normalize_embeddings is True or given.normalize_embeddings is False:
            stored["normalizeEmbeddings"] = given.normalize_embeddings
        else:
            faults.add_type(
                "normalize_embeddings", f"{given.normalize_embeddings!r} is neither True nor False"
            )
    points = given.centroid_min_points
    if points is not None:
        if type(points) is not int:
            faults.add_type("centroid_min_points", f"{points!r} is no whole number (int)")
        elif not 1 <= points < 2**53:
            faults.add("centroid_min_points", f"{points} must be at least 1 and below 2^53")
        else:
            stored["centroidMinPoints"] = points
    if given.modality is not None:
        _modality(given.modality, contents.modalities, stored, faults)
    return stored


def _embeddings(
    given: Any,
    widths: Mapping[str, int],
    stored: dict[str, Any],
    chosen: dict[str, str],
    faults: Faults,
) -> None:
    if not isinstance(given, Mapping):
        faults.add_type(
            "embedding_defaults",
            f"is a {type(given).__name__}",
            "pass {'2d': 'X_umap'} or {'2d': ('X_pca', [0, 1])}",
        )
        return
    for dimension in sorted(given, key=str):
        where = f"embedding_defaults[{dimension!r}]"
        if dimension not in DIMENSIONS:
            faults.add(where, "is no dimension", "use '1d', '2d' or '3d'")
            continue
        choice = given[dimension]
        key, columns = choice if isinstance(choice, tuple) and len(choice) == 2 else (choice, None)
        if not isinstance(key, str):
            faults.add_type(where, f"{choice!r} is neither a key nor a pair of key and columns")
            continue
        if key not in widths:
            faults.add(
                where, f"{key!r} is none of the embeddings", f"choose one of {sorted(widths)}"
            )
            continue
        n_axes = DIMENSIONS[dimension]
        if widths[key] < n_axes:
            faults.add(where, f"obsm[{key!r}] has only {widths[key]} of {n_axes} columns")
            continue
        if columns is not None and not _are_columns(columns, n_axes, widths[key], where, faults):
            continue
        chosen[dimension] = key
        stored[f"embedding{dimension}"] = (
            key if columns is None else {"key": key, "columns": np.array(list(columns), np.int64)}
        )


def _are_columns(columns: Any, n_axes: int, width: int, where: str, faults: Faults) -> bool:
    if not isinstance(columns, list | tuple):
        faults.add_type(where, "the columns are no list of whole numbers")
    elif any(type(column) is not int for column in columns):
        faults.add(where, f"the columns {list(columns)!r} are no whole numbers")
    elif len(columns) != n_axes:
        faults.add(where, f"names {len(columns)} columns, and takes {n_axes}")
    elif any(not 0 <= column < width for column in columns):
        faults.add(where, f"of the columns {list(columns)} only 0 to {width - 1} are there")
    elif len(set(columns)) != len(columns):
        faults.add(where, f"the columns {list(columns)} are not distinct")
    else:
        return True
    return False


def _obs_keys(given: Any, columns: Sequence[str], stored: dict[str, Any], faults: Faults) -> None:
    if not isinstance(given, list | tuple):
        faults.add_type("obs_keys", "is no list of names of columns")
        return
    keys = list(given)
    if not keys or not all(isinstance(key, str) and key for key in keys):
        faults.add("obs_keys", "must name at least one column of obs", "or leave it out")
    elif len(set(keys)) != len(keys):
        faults.add("obs_keys", "names a column twice")
    elif unknown := [key for key in keys if key not in columns]:
        faults.add("obs_keys", f"{unknown} are no columns of obs", f"choose among {list(columns)}")
    else:
        stored["obsKeys"] = [str(key) for key in keys]


def _vector_field(
    given: LaunchDefaults,
    contents: Contents,
    chosen: Mapping[str, str],
    stored: dict[str, Any],
    faults: Faults,
) -> None:
    name, where = given.vector_field_default, "vector_field_default"
    fields: dict[str, set[str]] = {}
    for vector_field, key in contents.vector_keys.values():
        fields.setdefault(vector_field, set()).add(key)
    if not isinstance(name, str) or name not in fields:
        choice = f"choose one of {sorted(fields)}" if fields else "there are none"
        faults.add(where, f"{name!r} is none of the vector fields", choice)
        return
    shown = shown_keys(contents.widths, chosen, given.latent_key)
    if not fields[name] & shown:
        drawn = sorted(other for other, keys in fields.items() if keys & shown)
        faults.add(
            where,
            f"the embeddings of {name!r}, {sorted(fields[name])}, are not shown at first",
            f"choose one of them in embedding_defaults, or one of the fields {drawn}",
        )
        return
    stored["vectorFieldDefault"] = name


def shown_keys(widths: Mapping[str, int], chosen: Mapping[str, str], latent_key: Any) -> set[str]:
    """The embeddings that a viewer shows.

    Those are the `chosen` ones (by dimension), the usual ones of the other dimensions, and all
    others of up to three columns but the latent space. Where that is none, it guesses one.
    """
    shown = set({**_usual(widths), **chosen}.values())
    others = [key for key in widths if key != latent_key]
    shown.update(key for key in others if widths[key] <= SHOWN_COLUMNS_MAX)
    return shown or set(sorted(others, key=_guess_order)[:1])


def _usual(widths: Mapping[str, int]) -> dict[str, str]:
    """The embeddings that a viewer which was told nothing shows, by dimension."""
    by_dimension = {name: f"X_umap_{name}" for name in DIMENSIONS if f"X_umap_{name}" in widths}
    single = (key for key in USUAL_KEYS if widths.get(key, 0) in DIMENSIONS.values())
    return by_dimension or {f"{widths[key]}d": key for key in islice(single, 1)}


def _guess_order(key: str) -> tuple[int, str]:
    """The better the guess that a viewer should show it, the earlier."""
    lower = key.lower()
    ranks = (rank for rank, words in GUESSES.items() if any(word in lower for word in words))
    return next(ranks, UNKNOWN_RANK), key


def _modality(
    given: Any, modalities: Sequence[str] | None, stored: dict[str, Any], faults: Faults
) -> None:
    if modalities is None:
        faults.add("modality", f"{given!r}: the output has a single modality", "leave it out")
    elif not isinstance(given, str) or given not in modalities:
        faults.add("modality", f"{given!r} is no modality", f"choose one of {list(modalities)}")
    else:
        stored["modality"] = str(given)


def given_before(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that stored defaults stand for; what is unknown is left aside.

    A value of another type than belongs there is handed on as it is, for `check_defaults`.
    """
    names = {
        "latentKey": "latent_key",
        "geneIdColumn": "var_gene_id_column",
        "vectorFieldDefault": "vector_field_default",
        "modality": "modality",
    }
    given: dict[str, Any] = {
        argument: _plain_text(stored[name])
        for name, argument in names.items()
        if stored.get(name) is not None
    }
    embeddings: dict[str, Any] = {}
    for dimension in DIMENSIONS:
        choice = stored.get(f"embedding{dimension}")
        if isinstance(choice, Mapping) and isinstance(choice.get("key"), str):
            columns = choice.get("columns")
            embeddings[dimension] = (
                str(choice["key"]) if columns is None else (str(choice["key"]), _listed(columns))
            )
        elif choice is not None:
            embeddings[dimension] = _plain_text(choice)
    if embeddings:
        given["embedding_defaults"] = embeddings
    if stored.get("obsKeys") is not None:
        given["obs_keys"] = _listed(stored["obsKeys"])
    for name, argument in (
        ("normalizeEmbeddings", "normalize_embeddings"),
        ("centroidMinPoints", "centroid_min_points"),
    ):
        value = stored.get(name)
        if value is not None:
            given[argument] = value.item() if isinstance(value, np.generic) else value
    return given


def _plain_text(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _listed(values: Any) -> Any:
    """An array, which may be lazy, or a tuple as a list of Python's own types."""
    if hasattr(values, "compute"):
        values = values.compute()
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return list(values) if isinstance(values, tuple) else values
