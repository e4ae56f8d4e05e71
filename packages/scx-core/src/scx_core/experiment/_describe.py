"""An experiment in words: its repr, and the list of its sections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scx_core._codecs import codec_name
from scx_core._section_names import MATRIX_SHARD_TYPES, SectionType
from scx_core._value_types import dtype_of
from scx_core.native.container import FileReader

if TYPE_CHECKING:
    from scx_core.experiment._experiment import Experiment
    from scx_core.experiment._modality import Modality
    from scx_core.experiment._shared import SharedParts

INDENT = "    "
NAMES_SHOWN = 30


def describe(experiment: Experiment) -> str:
    """What an Experiment shows of itself: like AnnData, a line for each part that has entries."""
    if experiment.closed:
        return f"Experiment at '{experiment.path}' (closed)"
    head = f"Experiment with n_obs x n_vars = {experiment.n_obs} x {experiment.n_vars}"
    n_hidden = experiment.n_obs_physical - experiment.n_obs
    hidden = f" without {n_hidden} deleted rows" if n_hidden else ""
    lines = [f"{head}{hidden} at '{experiment.path}'"]
    lines += _part("obs", experiment.obs_keys())
    if not experiment.is_multimodal:
        return "\n".join(lines + _modality_lines(experiment.parts()[0]))
    lines += _components(experiment)
    for name in experiment.modality_names:
        modality = experiment.modality(name)
        lines.append(f"{INDENT}{name}: {modality.n_obs} x {modality.n_vars}")
        lines += [INDENT + line for line in _modality_lines(modality)]
    return "\n".join(lines)


def describe_modality(modality: Modality, head: str) -> str:
    """What a Modality shows of itself, below a line that begins with `head`."""
    shape = f"n_obs x n_vars = {modality.n_obs} x {modality.n_vars}"
    return "\n".join([f"{head} with {shape}", *_modality_lines(modality)])


def describe_shared(shared: SharedParts, head: str) -> str:
    """What SharedParts show of themselves, below the line `head`."""
    lines = [head, *_part("obs", shared.obs_keys()), *_part("uns", shared.load_uns())]
    for kind in ("obsm", "varm", "obsp", "varp"):
        lines += _part(kind, getattr(shared, kind))
    return "\n".join(lines)


def _modality_lines(modality: Modality) -> list[str]:
    lines = [] if modality.X is None else [INDENT + repr(modality.X)]
    lines += _part("var", modality.var_keys())
    lines += _part("layers", modality.layers)
    lines += _components(modality)
    if modality.raw is not None:
        lines.append(INDENT + repr(modality.raw))
    return lines


def _components(holder: Experiment | Modality) -> list[str]:
    lines: list[str] = []
    for kind in ("uns", "obsm", "varm", "obsp", "varp"):
        lines += _part(kind, getattr(holder, kind))
    return lines


def _part(kind: str, names: Iterable[str]) -> list[str]:
    listed = list(names)
    if not listed:
        return []
    shown = ", ".join(repr(name) for name in listed[:NAMES_SHOWN])
    more = "" if len(listed) <= NAMES_SHOWN else f" and {len(listed) - NAMES_SHOWN} more"
    return [f"{INDENT}{kind}: {shown}{more}"]


def section_list(file: FileReader) -> list[dict[str, Any]]:
    """See `Experiment.sections`."""
    names = {modality.modality_id: modality.name for modality in file.modalities}
    listed = []
    for section in file.sections:
        described: dict[str, Any] = {
            "name": section.name,
            "type": type_word(section.section_type),
            "modality": names.get(section.modality_id),
            "offset": section.offset,
            "length": section.length,
            "codec": None,
            "dtype": None,
            "rows": None,
            "nnz": None,
        }
        if section.shard is not None and section.section_type in MATRIX_SHARD_TYPES:
            encoding = file.shard_encoding(section.index)
            dtype = dtype_of(encoding.value_type)
            described["codec"] = codec_name(encoding.codec)
            described["dtype"] = None if dtype is None else dtype.name
            described["rows"] = (section.shard.row_start, section.shard.row_end)
            described["nnz"] = section.shard.nnz
        listed.append(described)
    return listed


def type_word(section_type: int) -> str:
    """A section type in words."""
    try:
        return SectionType(section_type).name.lower()
    except ValueError:
        return f"unknown ({section_type})"
