"""Paths that users give, for all packages: of this machine; one, or files, folders and patterns."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from scx_core._faults import Faults

StrPath: TypeAlias = str | os.PathLike[str]

EXAMPLES = 5
# how far below a folder it is looked for what the user may have meant
LEVELS_BELOW = 4


def local_path(value: Any, argument: str = "path", *, writing: bool = False) -> str:
    """The path of a file or folder on this machine, as text.

    `writing` says that something is to be written there, which messages then advise about.

    Raises
    ------
    TypeError
        It is no path: an object in memory for example, or bytes.
    ValueError
        It is an address such as s3://bucket/file, or empty.
    """
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str):
        raise TypeError(no_path(value, argument, advise=not writing))
    path = str(path)  # numpy has a str of its own, which shows its type
    if not path:
        raise ValueError(f"{argument}: an empty text names no file")
    if path.startswith("file:/"):
        local = re.sub("^file:(//)?", "", path)
        raise ValueError(f"{path} is an address: give the path alone, {local}")
    if is_address(path):
        advice = (
            "write to this machine, and upload the file then"
            if writing
            else "download it, and give the path of the file, for only local files are read"
        )
        raise ValueError(f"{path} is an address: {advice}")
    return path


def is_address(text: str) -> bool:
    """Whether `text` is a URL, such as https://... or s3://..., and no path.

    A `Path` of an address has lost one of the slashes.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        return True
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text) is not None and not os.path.exists(text)


def no_path(
    value: Any, argument: str, needed: str = "a str or os.PathLike", *, advise: bool = True
) -> str:
    """What is said of a value that is no path; `needed` is what may stand there.

    `advise` says how to come from an object in memory to a path.
    """
    kind = type(value).__name__
    text = f"{argument} must be {needed}"
    if kind in ("AnnData", "MuData") and advise:
        return f"{text}, not {kind}: write it to a file first, with scx_core.write(data, path)"
    if kind == "Experiment" and advise:
        return f"{text}, not {kind}: the path of an open file is experiment.path"
    several = isinstance(value, Iterable) and not isinstance(value, bytes | os.PathLike)
    one = ", one file" if several and "list" not in needed else ""
    return f"{text}{one}, not {kind}"


def input_paths(
    inputs: StrPath | Iterable[StrPath],
    *,
    suffixes: Sequence[str],
    argument: str = "inputs",
    is_input: Callable[[Path], bool] = os.path.isfile,
) -> list[str]:
    """The inputs that files, folders and patterns stand for, in the order given.

    Parameters
    ----------
    inputs
        One or several: files, whatever their names; folders (what is in them and ends in one of
        `suffixes`, by name, but nothing hidden); patterns such as "part-*.scx" (what matches and
        ends in one of `suffixes`, by name; `**` reaches into folders).
    suffixes
        The endings that make a file one of the inputs, in lower case, such as ".scx".
    argument
        What messages call `inputs`.
    is_input
        Whether a path is one input as a whole, which a folder can be for some callers too.

    Raises
    ------
    TypeError
        Something is no path.
    FileNotFoundError
        A file is not there; the message says what is.
    ValueError
        A folder or pattern has no such file, one of them is an address, or there are no inputs.
    """
    several = isinstance(inputs, Iterable) and not isinstance(inputs, str | bytes | os.PathLike)
    given: list[Any] = list(inputs) if several else [inputs]  # type: ignore[arg-type]
    kinds = _either(suffixes)

    def is_wanted(path: Path) -> bool:
        named = path.name.lower().endswith(tuple(suffixes))
        return is_input(path) and (named or path.is_dir())

    paths, faults = [], Faults()
    for one in given:
        with faults.kept():
            paths += _inputs_of(local_path(one, argument), kinds, is_input, is_wanted)
    faults.raise_kept()
    if not paths:
        raise ValueError(f"{argument} is empty: name at least one {kinds} file")
    return paths


def refuse_repeats(paths: Sequence[str], argument: str = "inputs") -> None:
    """Raise ValueError when a file is named twice, be it by another path, a link or a hard link."""
    seen: dict[object, str] = {}
    for path in paths:
        found = os.stat(path)
        # some file systems number nothing
        key = (found.st_dev, found.st_ino) if found.st_ino else os.path.realpath(path)
        if key in seen:
            other = "" if path == seen[key] else f" (also as {seen[key]})"
            raise ValueError(f"{argument} name {path} twice{other}")
        seen[key] = path


def paths_below(folder: Path, is_wanted: Callable[[Path], bool]) -> list[Path]:
    """The first few of what is wanted in `folder` and the folders below it, for messages."""
    found: list[Path] = []
    level = [folder]
    for _ in range(LEVELS_BELOW):
        entries = [entry for one in level for entry in _visible(one)]
        found += [entry for entry in entries if is_wanted(entry)]
        if found:
            break
        level = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
    return found[:EXAMPLES]


def _inputs_of(
    text: str, kinds: str, is_input: Callable[[Path], bool], is_wanted: Callable[[Path], bool]
) -> list[str]:
    path = Path(text)
    if path.exists() and (is_input(path) or not path.is_dir()):
        return [text]
    if path.is_dir():
        what, found = "the folder", [str(one) for one in _visible(path)]
    elif glob.has_magic(text):
        what, found = "the pattern", sorted(glob.iglob(text, recursive=True))
    else:
        raise FileNotFoundError(f"there is no file {text}; {_neighbours(path)}")
    chosen = [one for one in found if is_wanted(Path(one))]
    if chosen:
        return chosen
    below = paths_below(path, is_wanted) if path.is_dir() else []
    if below:
        places = ", ".join(str(one) for one in below[:2])
        raise ValueError(f"{what} {text} has no {kinds} file itself; below it lies {places}")
    if found:
        raise ValueError(
            f"{what} {text} has {len(found)} entries, but none is a {kinds} file: {_some(found)}"
        )
    where = "it is empty" if path.is_dir() else _neighbours(path)
    raise ValueError(f"{what} {text} has no {kinds} file; {where}")


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in folder.iterdir() if not one.name.startswith("."))
    except OSError:  # it may not be read
        return []


def _neighbours(path: Path) -> str:
    """What lies where `path` should be, for messages."""
    folder = path.parent
    while glob.has_magic(str(folder)):
        folder = folder.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    names = [one.name for one in _visible(folder)]
    return f"{folder} holds {_some(names) if names else 'nothing'}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:EXAMPLES])
    return f"{shown} and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else shown


def _either(suffixes: Sequence[str]) -> str:
    *others, last = suffixes
    return f"{', '.join(others)} or {last}" if others else last
