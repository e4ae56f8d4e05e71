"""`prepare`: from what is given to one file that a browser reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cellucid_prepare._description import Identity, check_identity, described_uns
from cellucid_prepare._faults import Faults
from cellucid_prepare._multimodal import multimodal_parts
from cellucid_prepare._resolve import (
    resolve_cells,
    resolve_genes,
    resolve_graph,
    resolve_obsm,
    resolve_quantiles,
    vector_keys,
)
from cellucid_prepare._threads import at_most, thread_count
from cellucid_prepare._write import write_output
from cellucid_prepare.checks.defaults import MIN_POINTS, Contents, LaunchDefaults, check_defaults
from cellucid_prepare.checks.target import FORMATS, Target, check_target
from cellucid_prepare.containers.telling import writing_to
from cellucid_prepare.inputs.components import Components
from cellucid_prepare.inputs.from_mudata import MuDataComponents
from cellucid_prepare.inputs.gather import gathered
from cellucid_prepare.inputs.left_out import tell_left_out
from cellucid_prepare.inputs.temporary import temporary_files_beside
from cellucid_prepare.layout.anndata import AnnDataParts, anndata_layout
from cellucid_prepare.layout.mudata import mudata_layout
from cellucid_prepare.layout.nodes import Group

if TYPE_CHECKING:
    import pandas as pd

    from scx_core.writing._progress import Progress


def prepare(
    out_path: str | os.PathLike[str],
    *,
    format: Literal["h5ad", "zarr", "zarr.zip", "h5mu"],
    data: Any = None,
    embeddings: Mapping[str, Any] | None = None,
    dataset_id: str | None = None,
    dataset_name: str | None = None,
    obs: pd.DataFrame | None = None,
    var: pd.DataFrame | None = None,
    gene_expression: Any = None,
    connectivities: Any = None,
    vector_fields: Mapping[str, Mapping[str, Any]] | None = None,
    modalities: Sequence[str] | None = None,
    gene_identifiers: Sequence[str] | None = None,
    dataset_description: str | None = None,
    citation_text: str | None = None,
    citation_url: str | None = None,
    source_name: str | None = None,
    source_url: str | None = None,
    embedding_defaults: Mapping[str, Any] | None = None,
    latent_key: str | None = None,
    obs_keys: Sequence[str] | None = None,
    var_gene_id_column: str | None = None,
    vector_field_default: str | None = None,
    normalize_embeddings: bool | None = None,
    centroid_min_points: int | None = None,
    modality: str | None = None,
    zarr_format: Literal[2, 3] | None = None,
    overwrite: bool = False,
    force: bool = False,
    progress: Progress = None,
    threads: int | None = None,
) -> Path:
    """Write one file (or Zarr store) that anndata reads and a browser reads fast.

    X is stored by gene in chunks of which a browser reads one or two for a gene; all arrays use
    codecs that browsers have. What `data` holds is the default of each component, and an argument
    replaces that component. Everything is checked before anything is written, and the output
    appears whole or not at all. The same input gives the same bytes.

    Parameters
    ----------
    out_path
        Where to write; ends in the suffix of `format`. Missing folders are made.
    format
        "h5ad" for one file, "zarr" for a folder of small ones, "zarr.zip" for such a folder in one
        file, "h5mu" for a MuData in one file.
    data
        AnnData (in memory, a view, backed, lazy), MuData, `scx_core.Experiment` or the path of an
        .h5ad, .h5mu, .zarr, .zarr.zip or .scx. Of an AnnData obs, X, var, the numeric arrays of
        obsm, obsp['connectivities'] and uns['cellucid'] are taken; all else is left out, and the
        log `cellucid_prepare` names it.
    embeddings
        Arrays of shape (n_cells, k) by key, stored as obsm in float32. At least one, here or in
        `data`. Tables with names, here and below, are put in the order of the cells by name, and
        those without names (pandas's own index) are taken as they are.
    dataset_id
        Lasting id: 1 to 180 ASCII letters, digits, '.', '_' and '-'.
    dataset_name
        The name that is shown.
    obs
        Table of the cells. Its index has the names of the cells that `data` has, in any order, or
        no names. Text becomes categories where a value repeats or is missing.
    var
        Table of the genes; its index names them, as that of obs does the cells.
    gene_expression
        Cells x genes, sparse or dense, of finite values. Stored as float32; as float64 where whole
        numbers above 2^24 would lose digits.
    connectivities
        Graph over the cells: symmetric, finite, non-negative, nothing on the diagonal.
    vector_fields
        Arrays by field and embedding, such as {"velocity": {"X_umap": array}}, of a column for each
        of the embedding's.
    modalities
        Which modalities of a MuData, in their order; None for all. A single one is written as an
        AnnData with what the MuData itself holds, and has measured every cell.
    gene_identifiers
        Which genes, in their order, by the names that are shown; None for all.
    dataset_description, citation_text, citation_url, source_name, source_url
        Shown with the data set. A URL needs the text or name that it belongs to.
    embedding_defaults
        The embedding of "1d", "2d" and "3d" that is shown first: a key, or a key and columns.
    latent_key
        The embedding in which outliers are measured; their quantiles are then stored. That of a
        modality, such as "rna:X_pca", must have every cell.
    obs_keys
        The columns of obs that are listed, in their order; None for all.
    var_gene_id_column
        The column of var whose values name the genes.
    vector_field_default
        The vector field that is shown first.
    normalize_embeddings
        Whether a viewer scales embeddings; None leaves it to the viewer.
    centroid_min_points
        Cells that a category needs for outlier quantiles; None for 10.
    modality
        The modality of a MuData that is shown first.
    zarr_format
        2 or 3; None for 2.
    overwrite
        Replace an output that is there. A folder that is no Zarr store is never replaced, nor is
        what the input is read from.
    force
        The published name of `overwrite`; either may be given.
    progress
        None for a bar on a terminal or in a notebook, True or False for one or none, or a function
        that is called with the parts done and the parts in all.
    threads
        How many threads decode, check and compress; None for one for each CPU. The bytes do not
        depend on it.

    Returns
    -------
    The path that was written, absolute.

    Raises
    ------
    PrepareError
        A ValueError that lists everything that is wrong, each with its place and what mends it;
        also a TypeError where something is of a wrong type or missing.
    FileExistsError
        `out_path` is there, or appears while it is written, and `overwrite` is False.
    OSError
        The output cannot be written, for want of space for instance, or a file of the input cannot
        be read.
    ValueError
        A file of the input is damaged, or compressed in a way that cannot be undone here.
    ImportError
        The input needs zarr or mudata, which is not installed or too old.
    RuntimeError
        Another call in this process is writing to `out_path`, or the matrix has changed while it
        was written.
    """
    faults = Faults()
    identity = Identity(
        dataset_id=dataset_id,
        dataset_name=dataset_name,
        dataset_description=dataset_description,
        citation_text=citation_text,
        citation_url=citation_url,
        source_name=source_name,
        source_url=source_url,
    )
    defaults = LaunchDefaults(
        embedding_defaults=embedding_defaults,
        latent_key=latent_key,
        obs_keys=obs_keys,
        var_gene_id_column=var_gene_id_column,
        vector_field_default=vector_field_default,
        normalize_embeddings=normalize_embeddings,
        centroid_min_points=centroid_min_points,
        modality=modality,
    )
    by_hand = Components(
        obs=obs,
        var=var,
        X=gene_expression,
        graph=connectivities,
        embeddings=embeddings,
        vector_fields=vector_fields,
    )
    threads_max = _checked_threads(threads, faults)
    existing: FileExistsError | None = None
    target: Target | None = None
    try:
        target = check_target(
            out_path,
            format,
            zarr_format,
            faults,
            overwrite=overwrite,
            force=force,
            inputs=(data, by_hand),
        )
    except FileExistsError as error:
        existing = error
    with (
        at_most(threads_max),
        writing_to(None if target is None else target.path),
        temporary_files_beside(None if target is None else target.path),
        gathered(data, by_hand, modalities, faults) as given,
    ):
        defaults = _filled(defaults, given)
        identity = identity.filled(_root(given).identity)
        if format in FORMATS:
            _check_container(format, given, faults)
        layout: Callable[[int], Group] | None = None
        if isinstance(given, MuDataComponents):
            if gene_identifiers is not None:
                faults.add("gene_identifiers", "genes belong to modalities", "choose them there")
            several = multimodal_parts(given, identity, defaults, faults)
            if several is not None:
                layout = partial(mudata_layout, *several)
        else:
            one = _anndata_parts(given, identity, defaults, gene_identifiers, modalities, faults)
            if one is not None:
                layout = partial(anndata_layout, one)
        if existing is not None:
            if not faults.found:
                raise existing
            faults.add("out_path", str(existing))
        faults.raise_any()
        assert target is not None and layout is not None
        tell_left_out(_root(given).left_out)
        n_threads = thread_count()
        write_output(target, layout(n_threads), threads=n_threads, progress=progress)
    return target.path


def _root(given: Components | MuDataComponents) -> Components:
    return given.root if isinstance(given, MuDataComponents) else given


def _filled(defaults: LaunchDefaults, given: Components | MuDataComponents) -> LaunchDefaults:
    """With what the data says where nothing was given."""
    stored = _root(given).defaults
    return LaunchDefaults(
        **{
            name: stored.get(name) if value is None else value
            for name, value in vars(defaults).items()
        }
    )


def _check_container(format: str, given: Components | MuDataComponents, faults: Faults) -> None:
    if format == "h5mu" and not isinstance(given, MuDataComponents):
        faults.add("format", "'h5mu' is for a MuData of several modalities", "use 'h5ad' or 'zarr'")
    if format == "h5ad" and isinstance(given, MuDataComponents):
        faults.add(
            "format",
            "'h5ad' holds one modality, and data has several",
            "use 'h5mu' or 'zarr', or pass modalities with the name of one",
        )


def _checked_threads(threads: Any, faults: Faults) -> int | None:
    if threads is None or (type(threads) is int and threads >= 1):
        return threads
    faults.add("threads", f"{threads!r} is no whole number of at least 1", "leave it out")
    return None


def _anndata_parts(
    components: Components,
    identity: Identity,
    defaults: LaunchDefaults,
    gene_identifiers: Any,
    modalities: Any,
    faults: Faults,
) -> AnnDataParts | None:
    """The checked parts of an output of one modality; None when something is wrong."""
    if modalities is not None and not components.is_data:
        faults.add("modalities", "chooses modalities of data, and there is no data")
    texts = check_identity(identity, faults)
    if components.embeddings is None:
        faults.add_type("embeddings", "there is none", "pass embeddings={'X_umap': array}")
        obsm: dict[str, Any] = {}
        keys: list[str] = []
    else:
        obsm, keys = resolve_obsm(components, faults)
    n_cells = len(next(iter(obsm.values()))) if obsm else _n_cells(components)
    cells = resolve_cells(components.obs, n_cells, faults)
    genes = resolve_genes(
        components, n_cells, defaults.var_gene_id_column, gene_identifiers, faults
    )
    graph = resolve_graph(components.graph, n_cells, faults)
    contents = Contents(
        widths={key: obsm[key].shape[1] for key in keys},
        vector_keys=vector_keys(obsm, keys),
        obs_columns=[] if components.obs is None else list(getattr(components.obs, "columns", [])),
    )
    stored = check_defaults(defaults, contents, faults)
    if faults.found or cells is None:
        return None
    uns = described_uns(texts, stored)
    if "latentKey" in stored:
        key = stored["latentKey"]
        points = stored.get("centroidMinPoints", MIN_POINTS)
        uns["cellucid"]["outlierQuantiles"] = resolve_quantiles(cells, obsm[key], key, points)
    return AnnDataParts(
        cell_names=cells.names,
        obs=cells.columns,
        gene_names=genes.names,
        var=genes.columns,
        X=genes.matrix,
        obsm=obsm,
        graph=graph,
        uns=uns,
    )


def _n_cells(components: Components) -> int:
    for part in (components.obs, components.X):
        if hasattr(part, "shape") and len(part.shape) > 0:
            return int(part.shape[0])
    return 0
