"""`check`: is a file as browsers want it?"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellucid_prepare.checks.defaults import Contents
from cellucid_prepare.checks.embeddings import parse_field_key
from cellucid_prepare.inputs.components import MEASURED
from cellucid_prepare.inputs.open_files import MENDS, input_path
from cellucid_prepare.ready.content import (
    check_embeddings,
    check_graph,
    check_modality,
    check_table,
)
from cellucid_prepare.ready.identity import check_description, check_quantiles
from cellucid_prepare.ready.opening import (
    check_consolidated,
    check_opening,
    check_zip,
    modalities,
    stored_document,
)
from cellucid_prepare.ready.readable import check_readable
from cellucid_prepare.ready.report import CheckReport, Findings, NotJudgedError
from cellucid_prepare.ready.storage import check_codecs
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, encoding, place
from cellucid_prepare.ready.zarr_chunks import check_files


def check(path: str | os.PathLike[str]) -> CheckReport:
    """Say whether a browser reads a file well and, if not, every reason with its mend.

    Parameters
    ----------
    path
        An .h5ad or .h5mu, a Zarr folder of format 2 or 3, or such a folder in a zip, from whatever
        program. It stays as it is.

    Returns
    -------
    The report, which is true where the file is ready: ``if check(path): ...``. It has `is_ready`
    and the reasons in `faults`; ``str(report)`` lists them. Everything but matrices is read as
    anndata reads it; the values of X are not looked at.

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    ValueError
        It holds neither an AnnData nor a MuData, or is damaged so that it cannot be judged.
    ImportError
        A Zarr store is checked, and zarr is not installed or too old for it.
    """
    given = input_path(path)
    try:
        return _judged(given)
    except (NotJudgedError, FileNotFoundError, PermissionError, ImportError, MemoryError):
        raise
    except Exception as error:  # whatever the libraries make of a damaged file
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise NotJudgedError(f"{given} is damaged: {reason}") from error


def _judged(path: Path) -> CheckReport:
    from scx_core.sources.detect import DESCRIPTIONS, source_kind

    kind = source_kind(path)
    if kind == "missing":
        raise FileNotFoundError(f"there is no file or folder {path}")
    if kind in ("h5ad", "h5mu", "hdf5"):
        return _check_hdf5(path)
    if kind in ("zarr", "zip"):
        return _check_zarr(path)
    remedy = "write a browser-ready file of it with cellucid-prepare" if kind == "scx" else ""
    remedy = remedy or MENDS.get(kind, "")
    raise NotJudgedError(
        f"{path} looks like {DESCRIPTIONS[kind]}, not like an .h5ad, .h5mu or Zarr store"
        + (f": {remedy}" if remedy else "")
    )


def _check_hdf5(path: Path) -> CheckReport:
    from cellucid_prepare.ready.hdf5_tree import hdf5_root

    findings = Findings()
    with hdf5_root(path, findings) as (root, file, watched):
        check_opening(root, watched, path.stat().st_size, findings)
        return _report(root, file.__getitem__, path, "HDF5", findings)


def _check_zarr(path: Path) -> CheckReport:
    from cellucid_prepare.inputs.from_zarr import root_in_zip
    from cellucid_prepare.ready.zarr_tree import (
        FolderFiles,
        ZipFiles,
        documents,
        opened_values,
        zarr_tree,
    )

    findings = Findings()
    if path.is_dir():
        with opened_values(path, "") as values:
            files = FolderFiles(path)
            found = documents(files, path)
            whole = ".zmetadata"
            text = files.content(whole) if (path / whole).is_file() else b"null"
            check_consolidated(found, findings, stored_document(text, path))
            check_files(files, found, findings)
            root = zarr_tree(found, values, findings)
            return _report(root, values.__getitem__, path, _zarr_name(found), findings)
    top = root_in_zip(path)
    with zipfile.ZipFile(path) as archive, opened_values(path, top) as values:
        packed = ZipFiles(archive, top)
        check_zip(archive, top, findings)
        found = documents(packed, path)
        text = packed.content(".zmetadata") if ".zmetadata" in packed.names() else b"null"
        check_consolidated(found, findings, stored_document(text, path))
        check_files(packed, found, findings)
        root = zarr_tree(found, values, findings)
        name = f"{_zarr_name(found)} in a zip"
        return _report(root, values.__getitem__, path, name, findings)


def _zarr_name(found: dict[str, object]) -> str:
    return "Zarr 3" if "zarr.json" in found else "Zarr 2"


def _report(
    root: StoredGroup,
    at: Callable[[str], Any],
    path: Path,
    container: str,
    findings: Findings,
) -> CheckReport:
    several = root.group("mod") is not None
    if not several and "obs" not in root.children and encoding(root) != "anndata":
        raise NotJudgedError(f"{path} holds neither an AnnData nor a MuData")
    check_codecs(root, findings)
    if several:
        n_cells, n_genes = _check_mudata(root, findings)
    else:
        n_cells, n_genes = check_modality(root, findings)
        contents = _contents(root)
        if not contents.widths:
            _no_embedding("obsm", findings)
        check_description(root, contents, findings)
        if encoding(root) != "anndata":
            findings.note(
                "the file", "has no encoding-type, as before anndata 0.8", "write it anew"
            )
    check_quantiles(root, n_cells, findings)
    check_readable(root, at, findings)
    return CheckReport(
        os.fspath(path),
        container,
        "MuData" if several else "AnnData",
        n_cells,
        n_genes,
        findings.faults.found,
        findings.notes.found,
    )


def _check_mudata(root: StoredGroup, findings: Findings) -> tuple[int, int]:
    n_cells = check_table(root, "obs", findings)
    n_genes = check_table(root, "var", findings)
    check_embeddings(_without_masks(root), n_cells, findings)
    check_graph(root, n_cells, findings)
    widths: dict[str, int] = {}
    columns: list[str] = []
    names: list[str] = []
    shared = _contents(_without_masks(root))
    for name, group in modalities(root)[1:]:
        n_own, n_own_genes = check_modality(group, findings)
        own = _contents(group)
        widths |= {f"{name}:{key}": width for key, width in own.widths.items()}
        columns += [f"{name}:{column}" for column in [*own.obs_columns, MEASURED]]
        names.append(name)
        _check_map(root, "obsmap", name, (n_cells, n_own), findings)
        if root.group("varmap") is not None:
            _check_map(root, "varmap", name, (n_genes, n_own_genes), findings)
    if not widths and not shared.widths:
        _no_embedding("obsm", findings)
    contents = Contents(
        {**shared.widths, **widths}, shared.vector_keys, [*shared.obs_columns, *columns], names
    )
    check_description(root, contents, findings)
    return n_cells, n_genes


def _check_map(
    root: StoredGroup, kind: str, name: str, lengths: tuple[int, int], findings: Findings
) -> None:
    """`lengths` are those of all modalities together and of this one."""
    n_all, n_own = lengths
    held = root.group(kind)
    item = None if held is None else held.array(name)
    where, what = f"{kind}[{name!r}]", "cells" if kind == "obsmap" else "genes"
    if item is None:
        findings.fault(
            where, f"is missing: which {what} the modality has is not known", "update it"
        )
        return
    if item.size != n_all:
        findings.fault(where, f"has {item.size:,} entries for {n_all:,} {what}", "update it")
        return
    rows = item.values().reshape(-1).astype("int64")
    if n_all and (rows.max() > n_own or (rows > 0).sum() != n_own):
        findings.fault(where, f"does not name each of the modality's {n_own:,} {what}", "update it")


def _without_masks(root: StoredGroup) -> StoredGroup:
    """The root of a MuData without the members of obsm that say which cells a modality has."""
    held = root.group("mod")
    obsm = root.group("obsm")
    if held is None or obsm is None:
        return root
    kept = {name: item for name, item in obsm.children.items() if name not in held.children}
    children = {**root.children, "obsm": StoredGroup(obsm.path, obsm.attributes, kept)}
    return StoredGroup(root.path, root.attributes, children)


def _contents(group: StoredGroup) -> Contents:
    """What launch defaults may refer to."""
    obsm = group.group("obsm")
    widths = {
        name: item.shape[1] if len(item.shape) == 2 else 1
        for name, item in (obsm.children if obsm is not None else {}).items()
        if isinstance(item, StoredArray) and item.kind in "biuf" and len(item.shape) in (1, 2)
    }
    fields = {
        name: read_as
        for name in widths
        if (read_as := parse_field_key(name, widths)) is not None
        and widths[name] == widths[read_as[1]]
    }
    obs = group.group("obs")
    listed = [] if obs is None else obs.attributes.get("column-order")
    return Contents(
        {name: width for name, width in widths.items() if name not in fields},
        fields,
        [str(name) for name in listed] if isinstance(listed, list) else [],
    )


def _no_embedding(where: str, findings: Findings) -> None:
    findings.fault(
        place(where),
        "there is no embedding, so a viewer has nothing to draw",
        "compute one, a UMAP for instance",
    )
