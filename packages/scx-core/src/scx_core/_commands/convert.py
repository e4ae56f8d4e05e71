"""`scx convert`: which function turns one file into another, and with which options."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scx_core
from scx_core._byte_sizes import format_bytes
from scx_core._commands import UsageError
from scx_core._output_paths import SLASHES
from scx_core._paths import local_path
from scx_core.sources.detect import DESCRIPTIONS, REMEDIES, SourceKind, description, source_kind
from scx_core.writing import Progress

# options of the command line that only some conversions understand
SPECIFIC = (
    "codec",
    "shard_size",
    "threads",
    "temporary_folder",
    "strict_uns",
    "skip",
    "layers",
    "genome",
    "feature_types",
    "prefix",
    "var_names",
    "modality",
    "compression",
)
WRITING = ("codec", "shard_size", "threads", "temporary_folder")
ALLOWED: dict[SourceKind, tuple[str, ...]] = {
    "h5ad": (*WRITING, "strict_uns", "skip", "layers"),
    "h5mu": (*WRITING, "strict_uns", "skip", "layers"),
    "10x_h5": (*WRITING, "genome", "feature_types"),
    "mtx_folder": (*WRITING, "feature_types", "prefix", "var_names"),
    "mtx_file": (*WRITING, "feature_types", "prefix", "var_names"),
    "scx": ("modality", "compression"),
}
# of a .scx file that is written anew
COMPACTING = ("codec", "shard_size", "threads")
READERS: dict[SourceKind, str] = {
    "h5ad": "from_h5ad",
    "h5mu": "from_h5mu",
    "10x_h5": "from_10x",
    "mtx_folder": "from_mtx",
    "mtx_file": "from_mtx",
}
EXPORTS = (".h5ad", ".h5mu")
SCX = ".scx"


@dataclass(frozen=True)
class Conversion:
    """One file that is made of another, and the options for it."""

    source: Path
    kind: SourceKind
    target: Path
    options: dict[str, Any]


def convert(options: argparse.Namespace) -> int:
    """Run the conversions that IN and OUT ask for; give the exit code."""
    text = local_path(options.target, "OUT", writing=True)
    target = Path(text)
    if text.endswith(SLASHES) or _is_for_many(options, target):
        from scx_core._commands.convert_many import convert_many

        return convert_many(options, target)
    for name in ("to", "workers"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} does not apply: OUT is no folder")
    one = planned(options, Path(local_path(options.sources[0], "IN")), target)
    try:
        run(one, progress=False if options.quiet else None)
    except BaseException:
        _remove_leftovers(target)
        raise
    if not options.quiet:
        print(summary(target))
    return 0


def _is_for_many(options: argparse.Namespace, target: Path) -> bool:
    """Whether OUT is a folder, or must be one."""
    if len(options.sources) > 1 or target.is_dir():
        return True
    if target.suffix.lower() in (*EXPORTS, SCX):
        return False
    (source,) = options.sources
    return not os.path.exists(source) or source_kind(Path(source)) == "folder"


def planned(options: argparse.Namespace, source: Path, target: Path) -> Conversion:
    """The conversion of `source` into `target`, once it is known to be one that there is."""
    kind = source_kind(source)
    if kind == "missing":
        raise FileNotFoundError(f"there is no file or folder {source}")
    if kind not in ALLOWED:
        what = description(source, kind, REMEDIES.get(kind))
        raise ValueError(f"{source} looks like {what}")
    _check_target(kind, target)
    allowed = COMPACTING if _is_compacting(kind, target) else ALLOWED[kind]
    given = _chosen(options, allowed, f"{source} is {DESCRIPTIONS[kind]}")
    return Conversion(source, kind, target, given)


def run(conversion: Conversion, *, progress: Progress) -> None:
    """Write the file."""
    source, kind, target = conversion.source, conversion.kind, conversion.target
    given = {**conversion.options, "progress": progress}
    if _is_compacting(kind, target):
        del given["memory_budget"]  # its matrices pass in small pieces
        scx_core.compact(source, target, **given)
    elif kind == "scx":
        _export(source, target, given)
    else:
        getattr(scx_core, READERS[kind])(source, target, **given)


def _is_compacting(kind: SourceKind, target: Path) -> bool:
    return kind == "scx" and target.suffix.lower() == SCX


def _check_target(kind: SourceKind, target: Path) -> None:
    suffix = target.suffix.lower()
    if kind == "scx" and suffix not in (*EXPORTS, SCX):
        raise UsageError(f"OUT is {target}: from a .scx file, write an .h5ad, .h5mu or .scx")
    if kind != "scx" and suffix != SCX:
        raise UsageError(f"OUT is {target}: its name must end in .scx")


def _chosen(options: argparse.Namespace, allowed: tuple[str, ...], what: str) -> dict[str, Any]:
    """The options that were given, all of which must be allowed."""
    given = {
        name: getattr(options, name)
        for name in SPECIFIC
        if getattr(options, name) is not None and getattr(options, name) is not False
    }
    for name in given:
        if name not in allowed:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"{flag} does not apply: {what}")
    return {
        **given,
        "overwrite": options.overwrite,
        "memory_budget": options.memory_budget,
    }


def _export(source: Path, target: Path, given: dict[str, Any]) -> None:
    from scx_core.experiment import Experiment
    from scx_core.export import export_h5ad, export_h5mu

    modality = given.pop("modality", None)
    with Experiment(source) as experiment:
        if modality is not None and not experiment.is_multimodal:
            raise UsageError(f"--modality does not apply: {source} has a single one")
        if target.suffix.lower() == ".h5mu":
            if not experiment.is_multimodal:
                raise UsageError(f"{source} has a single modality: write it to an .h5ad")
            if modality is not None:
                raise UsageError("--modality goes with an .h5ad; an .h5mu takes all of them")
            export_h5mu(experiment, target, **given)
            return
        if experiment.is_multimodal and modality is None:
            raise UsageError(
                f"{source} has the modalities {', '.join(experiment.modality_names)}: choose one "
                "with --modality, or write an .h5mu"
            )
        export_h5ad(experiment, target, modality=modality, **given)


def _remove_leftovers(target: Path) -> None:
    """Remove this process's unfinished file.

    Unwinding has done so already, except when a signal came in the moment between the making of
    the file and its being known.
    """
    # of long names the hidden one has only the start, and a link's lies beside what it points to
    for folder in {target.parent, Path(os.path.realpath(target)).parent}:
        for path in folder.glob(f".*.{os.getpid()}.*.tmp"):
            path.unlink(missing_ok=True)


def summary(target: Path) -> str:
    """A line on a file that was written."""
    size = format_bytes(target.stat().st_size)
    if target.suffix.lower() != ".scx":
        return f"{target}: {size}"
    from scx_core.experiment import Experiment

    with Experiment(target) as experiment:
        n_obs, n_vars = experiment.shape
        return f"{target}: {n_obs} x {n_vars}, {experiment.nnz} stored values, {size}"
