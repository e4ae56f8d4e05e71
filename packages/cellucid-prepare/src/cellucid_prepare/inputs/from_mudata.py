"""The components of a MuData, or of `Multimodal`: its root, and each of its modalities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cellucid_prepare._faults import Faults, plural, some
from cellucid_prepare.checks.embeddings import BASIS_PREFIX
from cellucid_prepare.checks.names import LOG
from cellucid_prepare.inputs.components import (
    Components,
    defaults_without_modalities,
    identity_in,
)
from cellucid_prepare.inputs.from_anndata import (
    add_obsm,
    anndata_components,
    graph_in,
    members_left_out,
)
from cellucid_prepare.inputs.matrices import expression_source, reading_means
from cellucid_prepare.inputs.selected import reordered
from scx_core.sources.anndata_memory import matrix_source

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class MuDataComponents:
    """The root, and by name each modality with its row for every shared cell (from 1; 0: none)."""

    root: Components
    modalities: dict[str, Components]
    members: dict[str, npt.NDArray[np.uint32]]


def chosen_modalities(mdata: Any, given: Any, faults: Faults) -> list[str] | None:
    """The names of the modalities that are written, in their order."""
    there = [str(name) for name in mdata.mod]
    if mdata.axis != 0:
        faults.add("data", "its modalities share genes, not cells", "give one of axis 0")
        return None
    nested = [name for name in there if hasattr(mdata.mod[name], "mod")]
    if nested:
        faults.add(
            f"mod[{nested[0]!r}]", "is a MuData itself", "put its modalities beside the others"
        )
        return None
    if given is None:
        return there
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        faults.add_type("modalities", "is no list of names", f"choose among {there}")
        return None
    names = [str(name) for name in given]
    if not names or len(set(names)) != len(names):
        faults.add("modalities", "must name at least one modality, each once")
        return None
    unknown = [name for name in names if name not in there]
    if unknown:
        faults.add("modalities", f"there are no modalities {unknown}", f"choose among {there}")
        return None
    return names


def mudata_components(mdata: Any, names: list[str], faults: Faults) -> MuDataComponents:
    """The components of the root and of the named modalities."""
    try:
        identity, defaults = identity_in(mdata.uns.get("cellucid"))
    except TypeError as error:
        faults.add_type("uns['cellucid']", f"is a {error}, not a dictionary", "remove it")
        identity, defaults = {}, {}
    own = [column for column in mdata.obs.columns if not _is_copy(mdata, column)]
    root = Components(
        obs=mdata.obs[own],
        graph=graph_in(mdata.obsp),
        identity=identity,
        defaults=defaults,
        is_data=True,
    )
    kept = {
        key: mdata.obsm[key]
        for key in mdata.obsm
        if key not in mdata.mod and not _is_copied_array(mdata, key)
    }
    add_obsm(root, kept)
    root.left_out = members_left_out(mdata, kept)
    root.left_out["varm"] = [key for key in root.left_out["varm"] if key not in mdata.mod]
    modalities: dict[str, Components] = {}
    members: dict[str, npt.NDArray[np.uint32]] = {}
    for name in names:
        adata = mdata.mod[name]
        inner = Faults()
        modalities[name] = anndata_components(adata, inner)
        for fault in inner.found:
            faults.add_type(f"mod[{name!r}].{fault.where}", fault.problem, fault.mend)
        rows = np.asarray(mdata.obsmap[name]).ravel().astype(np.uint32)
        placed = np.sort(rows[rows > 0])
        if len(rows) != mdata.n_obs or not np.array_equal(placed, np.arange(1, adata.n_obs + 1)):
            faults.add(f"obsmap[{name!r}]", "does not fit its modality", "call data.update()")
        elif other := _other_names(mdata.obs.index, modalities[name].obs.index, rows):
            faults.add(
                f"obsmap[{name!r}]",
                f"{plural(len(other), 'cell')} of the modality have another name in the MuData: "
                f"{some(other)}",
                "call data.update(), which places the cells by their names",
                n_cells=len(other),
            )
        members[name] = rows
        for kind, keys in modalities[name].left_out.items():
            root.left_out[f"mod[{name!r}].{kind}"] = keys
    return MuDataComponents(root, modalities, members)


def _other_names(shared: Any, own: Any, rows: npt.NDArray[np.uint32]) -> list[str]:
    """The cells of a modality whose place among the shared ones has another name."""
    there, here = (np.array([str(name) for name in names], object) for names in (shared, own))
    placed = here[rows[rows > 0].astype(np.int64) - 1]
    return [str(name) for name in placed[placed != there[rows > 0]]]


def check_modalities(mdata: Any, given: MuDataComponents, faults: Faults) -> None:
    """Every modality has cells, genes and a matrix; names of cells tell cells apart."""
    _check_distinct(mdata.obs.index, "obs.index", faults)
    for name, components in given.modalities.items():
        where = f"mod[{name!r}]"
        _check_distinct(components.obs.index, f"{where}.obs.index", faults)
        n_genes = 0 if components.var is None else len(components.var)
        if components.X is None:
            faults.add(f"{where}.X", "is missing", "give it a matrix, a layer for instance")
        elif not len(components.obs) or not n_genes:
            faults.add(
                where,
                f"has {plural(len(components.obs), 'cell')} and {plural(n_genes, 'gene')}",
                f"leave it out: del data.mod[{name!r}]; data.update()",
            )


def _check_distinct(names: Any, where: str, faults: Faults) -> None:
    repeated = int(names.duplicated().sum())
    if repeated:
        faults.add(
            where,
            f"{plural(repeated, 'name')} of cells repeat, and modalities share cells by name",
            "call data.obs_names_make_unique() and data.update()",
            n_cells=repeated,
        )


def as_one(mdata: Any, given: MuDataComponents, name: str, faults: Faults) -> Components:
    """A single modality with what the root holds, in the order of the root's cells."""
    members, inner = given.members[name], given.modalities[name]
    missing = int((members == 0).sum())
    if missing:
        faults.add(
            f"mod[{name!r}]",
            f"{plural(missing, 'cell')} of the MuData are not in it, and an AnnData has all",
            "write several modalities, or take the cells that it has",
            n_cells=missing,
        )
        return given.root
    order = members.astype(np.int64) - 1
    root = given.root
    in_order = np.array_equal(order, np.arange(len(inner.obs)))
    if inner.X is not None:
        root.X = inner.X if in_order else _ordered(inner.X, order, faults)
        root.var = inner.var
        root.layers = inner.layers if in_order else _OrderedLayers(inner.layers, order, faults)
    root.obs = _with_columns(root.obs, inner.obs.iloc[order], name)
    if root.graph is None and inner.graph is not None:
        root.graph = inner.graph if in_order else inner.graph[order][:, order]
    shared, own = _arrays(root), _arrays(inner)
    for key in sorted(set(shared) & set(own)):
        faults.add(
            f"mod[{name!r}].obsm[{key!r}]",
            f"the MuData itself holds an obsm[{key!r}] too, and an AnnData has one of that name",
            "rename one of the two",
        )
    add_obsm(root, {**shared, **{key: array[order] for key, array in own.items()}})
    root.defaults = defaults_without_modalities(root.defaults, name)
    return root


def _arrays(components: Components) -> dict[str, Any]:
    """The embeddings and vector fields by their keys in obsm."""
    fields = (components.vector_fields or {}).items()
    return {
        **components.embeddings,
        **{
            f"{field}_{key.removeprefix(BASIS_PREFIX)}": array
            for field, arrays in fields
            for key, array in arrays.items()
        },
    }


def _with_columns(shared: pd.DataFrame, own: pd.DataFrame, name: str) -> pd.DataFrame:
    """The shared obs with the modality's own columns that it has not."""
    import pandas as pd

    is_new = ~own.columns.isin(shared.columns)
    other = [
        column
        for column in own.columns[~is_new].unique()
        if not _values(own, column).equals(_values(shared, column))
    ]
    if other:
        LOG.warning(
            "obs: of %s the MuData has columns of its own, which are written instead of those of "
            "mod[%r]",
            ", ".join(map(repr, other)),
            name,
        )
    return pd.concat([shared, own.loc[:, is_new].set_axis(shared.index, axis=0)], axis=1)


def _values(frame: pd.DataFrame, column: Any) -> Any:
    """The values of a column alone: labels count like the texts or numbers that they are."""
    return frame[column].astype(object).reset_index(drop=True)


class _OrderedLayers(Mapping[str, Any]):
    """Layers with their cells in another order."""

    def __init__(self, layers: Mapping[str, Any], order: Any, faults: Faults) -> None:
        self._layers = layers
        self._order = order
        self._faults = faults

    def __getitem__(self, name: str) -> Any:
        return _ordered(self._layers[name], self._order, self._faults)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def _ordered(matrix: Any, order: npt.NDArray[np.int64], faults: Faults) -> Any:
    """A matrix with its cells in `order`; what is on disk stays there."""
    import scipy.sparse as sp

    if sp.issparse(matrix) or isinstance(matrix, np.ndarray):
        return matrix_source(matrix, "X", order=order)
    if hasattr(matrix, "taking"):  # of a .scx file, which gives rows in any order
        return matrix.taking(order)
    source = expression_source(matrix, "X", faults)
    return None if source is None else reordered(source, order, reading_means())


def _is_copy(mdata: Any, column: Any) -> bool:
    """Whether a column of obs was copied from a modality by mudata."""
    if not isinstance(column, str):
        return False
    name, _, inner = column.partition(":")
    return bool(inner) and name in mdata.mod and inner in mdata.mod[name].obs.columns


def _is_copied_array(mdata: Any, key: str) -> bool:
    name, _, inner = key.partition(":")
    return bool(inner) and name in mdata.mod and inner in mdata.mod[name].obsm
