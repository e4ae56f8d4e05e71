"""The components of an output, from wherever they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cellucid_prepare.checks.defaults import given_before

# the column of flags that a viewer shows of a modality: which cells it has measured
MEASURED = "measured"


@dataclass(frozen=True)
class OfData:
    """The layer, embedding or vector field of that name that the data holds."""

    name: str


@dataclass
class Components:
    """What is given, unchecked. None stands for a component that is not there.

    `vector_fields` maps fields to embeddings to arrays. `identity` and `defaults` hold arguments of
    `prepare` by name. `X` and the members of `layers` are anything that `expression_source` takes.
    By hand, `OfData` stands for a part of the data. `left_out` names, by their kind, the members of
    the data that no output holds.
    """

    obs: Any = None
    var: Any = None
    X: Any = None
    layers: Mapping[str, Any] = field(default_factory=dict)
    graph: Any = None
    embeddings: Any = None
    vector_fields: Any = None
    identity: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    is_data: bool = False


def identity_in(stored: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments that ``uns['cellucid']`` stands for: identity, and launch defaults.

    Raises TypeError when it is no mapping.
    """
    if stored is None:
        return {}, {}
    if not isinstance(stored, Mapping):
        raise TypeError(type(stored).__name__)
    identity: dict[str, Any] = {}
    for name, argument in (
        ("id", "dataset_id"),
        ("name", "dataset_name"),
        ("description", "dataset_description"),
    ):
        _take(stored, name, argument, identity)
    for part, pairs in (
        ("citation", (("text", "citation_text"), ("url", "citation_url"))),
        ("source", (("name", "source_name"), ("url", "source_url"))),
    ):
        inner = stored.get(part)
        if isinstance(inner, Mapping):
            for name, argument in pairs:
                _take(inner, name, argument, identity)
    defaults = stored.get("defaults")
    return identity, given_before(defaults) if isinstance(defaults, Mapping) else {}


def defaults_without_modalities(stored: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The launch defaults of a MuData for an AnnData of its modality `name`.

    Members of this modality lose its name, ``rna:X_pca`` becomes ``X_pca``, and those of the others
    are left out.
    """

    def own(key: str) -> str | None:
        modality, separator, inner = key.partition(":")
        if not separator:
            return key
        # all cells are measured where a modality becomes an AnnData
        return inner if modality == name and inner != MEASURED else None

    given = {key: value for key, value in stored.items() if key != "modality"}
    if "latent_key" in given:
        given["latent_key"] = own(given["latent_key"])
    if "obs_keys" in given:
        keys = (own(key) for key in given["obs_keys"])
        given["obs_keys"] = list(dict.fromkeys(key for key in keys if key is not None)) or None
    if "embedding_defaults" in given:
        chosen: dict[str, Any] = {}
        for dimension, choice in given["embedding_defaults"].items():
            key, *columns = (choice,) if isinstance(choice, str) else choice
            if own(key) is not None:
                chosen[dimension] = (own(key), *columns) if columns else own(key)
        given["embedding_defaults"] = chosen or None
    return given


def _take(stored: Mapping[str, Any], name: str, argument: str, into: dict[str, Any]) -> None:
    value = stored.get(name)
    if isinstance(value, str):
        into[argument] = str(value)
    elif value is not None:
        into[argument] = value
