"""The components of an output, from wherever they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cellucid_prepare.checks.defaults import given_before


@dataclass(frozen=True)
class OfData:
    """The layer, embedding or vector field of that name that the data holds."""

    name: str


@dataclass
class Components:
    """What is given, unchecked. None stands for a component that is not there.

    `vector_fields` maps fields to embeddings to arrays. `identity` and `defaults` hold arguments of
    `prepare` by name. `X` and the members of `layers` are anything that `expression_source` takes.
    By hand, `OfData` stands for a part of the data.
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


def _take(stored: Mapping[str, Any], name: str, argument: str, into: dict[str, Any]) -> None:
    value = stored.get(name)
    if isinstance(value, str):
        into[argument] = str(value)
    elif value is not None:
        into[argument] = value
