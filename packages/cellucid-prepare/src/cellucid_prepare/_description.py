"""Who the data set is, and ``uns`` of the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from cellucid_prepare._faults import Faults
from cellucid_prepare.checks.identity import check_display_text, check_id, check_url

SCHEMA = 1


@dataclass(frozen=True)
class Identity:
    """The arguments of `prepare` that say what the data set is."""

    dataset_id: Any = None
    dataset_name: Any = None
    dataset_description: Any = None
    citation_text: Any = None
    citation_url: Any = None
    source_name: Any = None
    source_url: Any = None

    def filled(self, stored: Mapping[str, Any]) -> Identity:
        """With what `stored` says where nothing was given."""
        return Identity(
            **{
                field.name: stored.get(field.name)
                if getattr(self, field.name) is None
                else getattr(self, field.name)
                for field in fields(self)
            }
        )


def check_identity(identity: Identity, faults: Faults) -> dict[str, Any]:
    """Identity as ``uns['cellucid']`` has it."""
    stored: dict[str, Any] = {"schema": SCHEMA}
    stored["id"] = check_id(identity.dataset_id, faults)
    stored["name"] = check_display_text(identity.dataset_name, "dataset_name", faults)
    if identity.dataset_description is not None:
        stored["description"] = check_display_text(
            identity.dataset_description, "dataset_description", faults, may_be_empty=True
        )
    for part, text, label in (
        ("citation", "text", "citation_text"),
        ("source", "name", "source_name"),
    ):
        value = getattr(identity, label)
        url = getattr(identity, f"{part}_url")
        if value is None and url is not None:
            faults.add(f"{part}_url", f"needs {label}", f"pass {label}, or leave it out")
        if value is None:
            continue
        stored[part] = {text: check_display_text(value, label, faults)}
        if url is not None:
            stored[part]["url"] = check_url(url, f"{part}_url", faults)
    return stored


def described_uns(identity: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """``uns`` of the output, still without outlier quantiles."""
    cellucid = dict(identity)
    if defaults:
        cellucid["defaults"] = dict(defaults)
    return {"title": identity["name"], "cellucid": cellucid}
