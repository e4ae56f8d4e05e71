"""What `data` holds and what was given by hand, as one set of components."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cellucid_prepare._faults import Faults
from cellucid_prepare.inputs.aligned import aligned
from cellucid_prepare.inputs.components import Components, OfData
from cellucid_prepare.inputs.from_anndata import anndata_components
from cellucid_prepare.inputs.from_mudata import (
    MuDataComponents,
    as_one,
    check_modalities,
    chosen_modalities,
    mudata_components,
)
from cellucid_prepare.inputs.from_scx import experiment_part, experiment_parts
from cellucid_prepare.inputs.open_files import add_codes, input_path, opened_file
from cellucid_prepare.inputs.parts import Multimodal, Part
from scx_core.sources.frames_with_bad_codes import noted_codes

BY_HAND = ("obs", "var", "X", "graph", "embeddings", "vector_fields")


@contextmanager
def gathered(
    data: Any, by_hand: Components, modalities: Any, faults: Faults
) -> Iterator[Components | MuDataComponents]:
    """The components of `data`, each replaced by the one that was given by hand.

    Files that were opened for it are closed at the end of the block.
    """
    if data is None:
        yield aligned(by_hand, Components(), faults)
        return
    with _opened(data, faults) as opened:
        if not _is_multimodal(opened):
            components = _components(opened, faults)
            if modalities is not None:
                faults.add("modalities", "data has a single modality", "leave it out")
            _replace(components, by_hand, faults)
            yield components
            return
        names = chosen_modalities(opened, modalities, faults)
        if names is None:
            faults.raise_any()
        assert names is not None
        several = mudata_components(opened, names, faults)
        check_modalities(opened, several, faults)
        if len(names) == 1 and modalities is not None:
            components = as_one(opened, several, names[0], faults)
            _replace(components, by_hand, faults)
            yield components
            return
        for argument, name in (("gene_expression", "X"), ("var", "var")):
            if getattr(by_hand, name) is not None:
                faults.add(argument, "genes belong to modalities", "change them in data.mod")
        _replace(several.root, replace(by_hand, X=None, var=None), faults, cells_stay=True)
        yield several


def _replace(
    components: Components, by_hand: Components, faults: Faults, *, cells_stay: bool = False
) -> None:
    held = replace(components)
    given = aligned(by_hand, held, faults, cells_stay=cells_stay)
    for name in BY_HAND:
        value = getattr(given, name)
        if value is not None:
            setattr(components, name, value)
    if isinstance(given.X, OfData):
        layer = chosen_member(held.layers, given.X, "layers", faults)
        components.X = held.X if layer is None else layer
        for kind, names in components.left_out.items():
            if kind.endswith("layers"):
                components.left_out[kind] = [name for name in names if name != given.X.name]
    if isinstance(given.embeddings, Mapping):
        components.embeddings = _chosen(held.embeddings, given.embeddings, "obsm", faults)
        if any(isinstance(value, OfData) for value in given.embeddings.values()):
            components.vector_fields = _fields_over(components.embeddings or {}, held.vector_fields)
    if isinstance(given.vector_fields, Mapping):
        components.vector_fields = _chosen_fields(held, given.vector_fields, faults)


def _chosen_fields(
    held: Components, given: Mapping[str, Any], faults: Faults
) -> Mapping[str, Any] | None:
    fields: dict[str, Any] = {}
    for field, arrays in given.items():
        if isinstance(arrays, Mapping):
            of_data = (held.vector_fields or {}).get(field)
            arrays = _chosen(of_data, arrays, f"vector_fields[{field!r}]", faults)
        fields[field] = arrays
    kept = {field: arrays for field, arrays in fields.items() if arrays is not None}
    return kept if kept or not given else held.vector_fields


def _fields_over(embeddings: Mapping[str, Any], fields: Any) -> Any:
    """The vector fields of the data over embeddings that were chosen."""
    kept = {
        field: {key: array for key, array in arrays.items() if key in embeddings}
        for field, arrays in (fields or {}).items()
    }
    return {field: arrays for field, arrays in kept.items() if arrays} or None


def _chosen(
    held: Mapping[str, Any] | None, given: Mapping[str, Any], where: str, faults: Faults
) -> Mapping[str, Any] | None:
    """What is chosen, with faults for what the data does not have."""
    chosen = {
        key: chosen_member(held or {}, value, where, faults) if isinstance(value, OfData) else value
        for key, value in given.items()
    }
    kept = {key: value for key, value in chosen.items() if value is not None}
    # that nothing is left is no second fault: the other checks go on with what there is
    return kept if kept or not given else held


def chosen_member(held: Mapping[str, Any], wanted: OfData, where: str, faults: Faults) -> Any:
    """What `wanted` stands for, or None with the fault noted."""
    if wanted.name in list(held):
        return held[wanted.name]
    mend = f"choose one of {sorted(held)}" if held else f"it has no {where} at all"
    faults.add(f"{where}[{wanted.name!r}]", "is not in the data", mend)
    return None


@contextmanager
def _opened(data: Any, faults: Faults) -> Iterator[Any]:
    """AnnData and MuData as they are; files and experiments as `Part` or `Multimodal`."""
    import scx_core

    if isinstance(data, str | os.PathLike):
        with opened_file(input_path(data), faults) as content:
            yield content
    elif isinstance(data, scx_core.Experiment):
        yield experiment_parts(data) if data.is_multimodal else experiment_part(data)
    else:
        from scx_core.sources.anndata_memory import closed_as_before

        with closed_as_before(data):
            yield data


def _is_multimodal(data: Any) -> bool:
    if isinstance(data, Multimodal):
        return True
    if type(data).__module__.partition(".")[0] != "mudata":
        return False
    import mudata

    return isinstance(data, mudata.MuData)


def _components(data: Any, faults: Faults) -> Components:
    import anndata

    if isinstance(data, anndata.AnnData | Part):
        with noted_codes() as codes:
            components = anndata_components(data, faults)
        if not isinstance(data, Part):  # a file's have been added when it was opened
            add_codes(codes, faults)
        return components
    faults.add_type(
        "data",
        f"is a {type(data).__name__}",
        "pass an AnnData, a MuData, a scx_core.Experiment or the path of a file",
    )
    faults.raise_any()
    raise AssertionError
