"""Rules on ``uns['cellucid']``: who the data set is, and what a viewer shows first."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellucid_prepare._description import SCHEMA, Identity, check_identity
from cellucid_prepare._faults import Faults
from cellucid_prepare.checks.defaults import Contents, LaunchDefaults, check_defaults, given_before
from cellucid_prepare.inputs.components import identity_in
from cellucid_prepare.ready.report import Findings
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, place

WHERE = "uns['cellucid']"
MEND = "write it anew with cellucid-prepare, with --id and --name"


def check_description(root: StoredGroup, contents: Contents, findings: Findings) -> None:
    """The identity is whole, and what the defaults name is there."""
    uns = root.group("uns")
    stored = None if uns is None else uns.group("cellucid")
    if stored is None:
        findings.fault(WHERE, "is missing: a viewer does not know what data set this is", MEND)
        return
    try:
        values = _plain(stored)
    except Exception as error:
        findings.fault(WHERE, f"cannot be read, it is damaged: {error}", MEND)
        return
    if values.get("schema") != SCHEMA:
        findings.fault(f"{WHERE}/schema", f"is {values.get('schema')!r}, not {SCHEMA}", MEND)
    found = Faults()
    check_identity(Identity(**identity_in(values)[0]), found)
    for fault in found.found:
        name = fault.where.removeprefix("dataset_").replace("_", "/")
        findings.fault(f"{WHERE}/{name}", fault.problem, MEND)
    for name in ("citation", "source", "defaults"):
        if not isinstance(values.get(name, {}), dict):
            findings.fault(f"{WHERE}/{name}", "is no group", MEND)
    defaults = values.get("defaults", {})
    if isinstance(defaults, dict):
        found = Faults()
        given = LaunchDefaults(**given_before(defaults))
        check_defaults(given, contents, found)
        for fault in found.found:
            findings.fault(f"{WHERE}/defaults", f"{fault.where}: {fault.problem}", fault.mend)
        _check_latent_key(stored, given.latent_key, findings)
    title = None if uns is None else uns.array("title")
    if title is None:
        findings.note("uns['title']", "is missing", "give it the name that is shown")
    elif title.kind != "T" or title.shape:
        findings.fault("uns['title']", "is not a single text", MEND)


def _check_latent_key(stored: StoredGroup, latent_key: Any, findings: Findings) -> None:
    """The outlier quantiles were measured in the latent space that the defaults name."""
    quantiles = stored.group("outlierQuantiles")
    measured_in = None if quantiles is None else quantiles.array("latentKey")
    if measured_in is None:
        return
    key = _value(measured_in)
    if key != latent_key:
        findings.fault(
            f"{WHERE}/outlierQuantiles",
            f"were measured in {key!r}, and the latent space of the defaults is "
            + ("not given" if latent_key is None else repr(latent_key)),
            MEND,
        )


def _plain(group: StoredGroup) -> dict[str, Any]:
    """A group of scalars and short lists as a dictionary, without the outlier quantiles."""
    result: dict[str, Any] = {}
    for name, item in group.children.items():
        if isinstance(item, StoredGroup):
            if name != "outlierQuantiles":
                result[name] = _plain(item)
        else:
            result[name] = _value(item)
    return result


def _value(item: StoredArray) -> Any:
    if item.kind == "T" and not item.shape:
        return item.text()
    values = np.asarray(item.values())
    if item.kind == "T":
        return [text.decode("utf-8") if isinstance(text, bytes) else str(text) for text in values]
    return values.reshape(-1).tolist() if item.shape else values.reshape(-1)[0].item()


def check_quantiles(root: StoredGroup, n_cells: int, findings: Findings) -> None:
    """The stored outlier quantiles have an entry for each cell."""
    uns = root.group("uns")
    cellucid = None if uns is None else uns.group("cellucid")
    stored = None if cellucid is None else cellucid.group("outlierQuantiles")
    fields = None if stored is None else stored.group("fields")
    for item in (fields.children if fields is not None else {}).values():
        if not isinstance(item, StoredArray) or item.shape != (n_cells,):
            findings.fault(place(item.path), "has no entry for each cell", MEND)
