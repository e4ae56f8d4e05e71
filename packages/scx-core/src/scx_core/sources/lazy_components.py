"""obsm, varm, obsp and varp of an AnnData in HDF5, of which one member is in memory at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from scx_core.sources.base import ModalityContent
from scx_core.sources.h5_elements import ALIGNED, assembled, read_element
from scx_core.sources.hdf5 import Group, is_group

if TYPE_CHECKING:
    import anndata
    import pandas as pd


class LazyComponents(Mapping[str, Any]):
    """The members of one of the four, read each time they are asked for.

    `moved` are members that anndata found elsewhere in the file, and that are in memory.
    """

    def __init__(
        self, group: Group, obs: pd.DataFrame, var: pd.DataFrame, moved: Mapping[str, Any]
    ) -> None:
        self._group = group
        self._axes = {"obs": obs, "var": var}
        self._moved = moved

    def __getitem__(self, key: str) -> Any:
        if key not in self._group:
            return self._moved[key]
        item = self._group[key]
        kind = self._group.name.rpartition("/")[2]
        with warnings.catch_warnings():
            # what anndata remarks on the axes it has remarked before
            warnings.simplefilter("ignore")
            part = assembled(item, **self._axes, **{kind: {key: read_element(item)}})
        return getattr(part, kind)[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._group
        yield from (key for key in self._moved if key not in self._group)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def lazy_kinds(group: Group) -> list[str]:
    """Which of the four can be read member by member; none could before anndata 0.7."""
    return [kind for kind in ALIGNED if is_group(group.get(kind))]


def add_lazy_components(content: ModalityContent, group: Group, adata: anndata.AnnData) -> None:
    """Give `content` the components that `adata` was read without."""
    obs, var = adata.obs[[]], adata.var[[]]
    for kind in lazy_kinds(group):
        members = LazyComponents(group[kind], obs, var, getattr(content, kind))
        setattr(content, kind, cast("dict[str, Any]", members))
