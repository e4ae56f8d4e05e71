"""Where the output goes: format, path, and what may be replaced."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from cellucid_prepare._faults import Faults
from cellucid_prepare.checks.names import NAME_BYTES_MAX
from cellucid_prepare.containers.placing import moved_aside
from scx_core._output_paths import refuse_inputs
from scx_core._paths import is_address

Format: TypeAlias = Literal["h5ad", "zarr", "zarr.zip", "h5mu"]
FORMATS: dict[str, str] = {
    "h5ad": "one file for hosts that serve files (Zenodo, Figshare, S3, a server of your own)",
    "zarr": "a folder of small files, for GitHub Pages and the like",
    "zarr.zip": "such a folder as one file",
    "h5mu": "one file for a MuData",
}


@dataclass(frozen=True)
class Target:
    """An output that may be written."""

    path: Path
    format: Format
    zarr_format: int
    overwrite: bool


def check_target(
    out_path: Any,
    format: Any,
    zarr_format: Any,
    faults: Faults,
    *,
    overwrite: Any,
    force: Any = False,
    inputs: Sequence[Any] = (),
) -> Target | None:
    """The target, or None with the faults noted.

    `force` is another name of `overwrite`; `inputs` are what the output may not replace.

    Raises
    ------
    FileExistsError
        Something is there, it may not be replaced, and nothing else is wrong so far.
    """
    before = len(faults.found)
    if not isinstance(format, str) or format not in FORMATS:
        choices = "; ".join(f"{name!r}, {purpose}" for name, purpose in FORMATS.items())
        faults.add("format", f"{format!r} is none of the formats", f"choose {choices}")
        return None
    for name, value in (("overwrite", overwrite), ("force", force)):
        if value is not True and value is not False:
            faults.add_type(name, f"{value!r} is neither True nor False")
    may_replace = overwrite is True or force is True
    _check_zarr_format(format, zarr_format, faults)
    path = _path(out_path, format, faults)
    if path is None or len(faults.found) > before:
        return None
    try:
        refuse_inputs(path, *inputs)
    except ValueError as error:
        faults.add("out_path", str(error))
        return None
    _check_existing(path, format, faults, overwrite=may_replace)
    if len(faults.found) > before:
        return None
    number = 2 if zarr_format is None else int(zarr_format)
    return Target(path, cast(Format, format), number, may_replace)


def _check_zarr_format(format: str, zarr_format: Any, faults: Faults) -> None:
    if zarr_format is None:
        return
    if format not in ("zarr", "zarr.zip"):
        faults.add("zarr_format", f"does not go with format={format!r}", "leave it out")
    elif type(zarr_format) is not int or zarr_format not in (2, 3):
        faults.add("zarr_format", f"{zarr_format!r} is neither 2 nor 3")


def _path(out_path: Any, format: str, faults: Faults) -> Path | None:
    try:
        text = os.fspath(out_path)
    except TypeError:
        text = None
    if not isinstance(text, str):
        faults.add_type("out_path", f"is a {type(out_path).__name__}, not a path")
        return None
    if not text or "\0" in text:
        faults.add("out_path", "contains a NUL character" if text else "is empty")
        return None
    if is_address(text):
        faults.add(
            "out_path", f"{text!r} is an address", "write to this machine, and upload it then"
        )
        return None
    path = Path(os.path.abspath(os.path.expanduser(text)))
    suffix = f".{format}"
    name = path.name
    if len(os.fsencode(name)) > NAME_BYTES_MAX:
        faults.add(
            "out_path",
            f"the name takes {len(os.fsencode(name))} bytes",
            f"choose one of at most {NAME_BYTES_MAX}",
        )
        return None
    if name.lower() == suffix:
        faults.add("out_path", f"{text!r} is a suffix alone", f"write to 'data{suffix}'")
        return None
    if not name.lower().endswith(suffix):
        faults.add(
            "out_path",
            f"{text!r} does not end in {suffix}, as format={format!r} does",
            f"write to {_with_suffix(text, suffix)!r}",
        )
        return None
    return path


def _with_suffix(text: str, suffix: str) -> str:
    for known in sorted((f".{name}" for name in FORMATS), key=len, reverse=True):
        if text.lower().endswith(known):
            return text[: -len(known)] + suffix
    return text + suffix


def _check_existing(path: Path, format: str, faults: Faults, *, overwrite: bool) -> None:
    where = "out_path"
    above = next((folder for folder in path.parents if os.path.lexists(folder)), path.parent)
    if not above.is_dir():
        faults.add(where, f"{above} is no folder", "choose another path")
        return
    if not os.access(above, os.W_OK | os.X_OK):
        faults.add(where, f"you may not write to the folder {above}", "choose another path")
        return
    aside = None if overwrite else moved_aside(path)
    if aside is not None:
        raise FileExistsError(
            f"{path} was moved aside to {aside.name} by a run that was killed: pass overwrite=True "
            "to replace it, or rename it back"
        )
    if not os.path.lexists(path):
        return
    if path.is_symlink():
        faults.add(where, f"{path} is a symbolic link", "remove it yourself, or name its target")
        return
    if not overwrite:
        if faults.found:
            faults.add(where, f"{path} exists", "pass overwrite=True to replace it")
            return
        raise FileExistsError(f"{path} exists: pass overwrite=True to replace it")
    if format == "zarr":
        if not is_zarr_store(path):
            faults.add(
                where, f"{path} is there and is no Zarr store", "remove it yourself if it may go"
            )
    elif not path.is_file():
        faults.add(where, f"{path} is there and is no file", "remove it yourself if it may go")


def is_zarr_store(path: Path) -> bool:
    """Whether a folder looks like a Zarr group."""
    return path.is_dir() and any((path / name).is_file() for name in (".zgroup", "zarr.json"))
