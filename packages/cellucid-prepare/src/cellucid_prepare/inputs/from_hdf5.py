""".h5ad and .h5mu files, of any version of anndata; their matrices stay on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cellucid_prepare.inputs.matrices import reading_means
from cellucid_prepare.inputs.parts import Multimodal, Part
from scx_core.sources.anndata_memory import modality_from_anndata
from scx_core.sources.base import ModalityContent
from scx_core.sources.h5_elements import read_element, read_frame, read_without_matrices
from scx_core.sources.h5ad import h5ad_content, matrices_on_disk
from scx_core.sources.h5mu import modality_groups
from scx_core.sources.hdf5 import attribute, check_readable, open_hdf5, where
from scx_core.sources.lazy_components import add_lazy_components, lazy_kinds


@contextmanager
def h5ad_part(path: Path) -> Iterator[Part]:
    """The AnnData at `path`; it can be read inside the block only."""
    with h5ad_content(path, reading_means()) as content:
        (modality,) = content.modalities.values()
        yield _part(content.obs, modality)


@contextmanager
def h5mu_parts(path: Path) -> Iterator[Multimodal]:
    """The MuData at `path`; it can be read inside the block only."""
    with open_hdf5(path, "prepare", "an .h5mu file") as file:
        check_readable(file)
        modalities: dict[str, Part] = {}
        for name, group in modality_groups(file).items():
            adata = read_without_matrices(group, without=lazy_kinds(group))
            content = modality_from_anndata(adata)
            add_lazy_components(content, group, adata)
            matrices_on_disk(content, group, adata.shape, reading_means(), layers=None)
            modalities[name] = _part(adata.obs, content)
        for name in ("obs", "obsmap"):
            if name not in file:
                raise ValueError(f"{where(file)} has no {name!r}, so it is no MuData")
        axis = attribute(file, "axis")
        yield Multimodal(
            modalities,
            obs=read_frame(file["obs"]),
            obsmap=read_element(file["obsmap"]),
            axis=0 if axis is None else int(axis),
            **{name: read_element(file[name]) for name in ("obsm", "obsp", "uns") if name in file},
            **{name: dict.fromkeys(file[name]) for name in ("varm", "varp") if name in file},
        )


def _part(obs: Any, content: ModalityContent) -> Part:
    return Part(
        obs=obs,
        var=content.var,
        X=content.X,
        layers=content.layers,
        obsm=content.obsm,
        obsp=content.obsp,
        varm=content.varm,
        varp=content.varp,
        uns=content.uns,
        raw=content.raw_var,
    )
