"""Which files the inputs of a job are."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]

SUFFIXES = (".scx", ".h5ad")
EXAMPLES = 5


def input_paths(inputs: StrPath | Sequence[StrPath]) -> list[str]:
    """The files of a job, in the order of `inputs`.

    Parameters
    ----------
    inputs
        Files, folders (their .scx and .h5ad files, by name), and patterns such as "part-*.scx"
        (the .scx and .h5ad files that match, by name; `**` reaches into folders).

    Raises
    ------
    FileNotFoundError
        A file is not there.
    ValueError
        A folder or pattern has no such file, a file is named twice, or there are no inputs.
    """
    given = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    texts = [os.fspath(one) for one in given]
    if "" in texts:
        raise ValueError("inputs: one of them is an empty text, which names no file")
    paths = [path for text in texts for path in _files_of(text)]
    if not paths:
        raise ValueError("inputs is empty: name at least one .scx or .h5ad file")
    seen: dict[str, str] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise ValueError(f"inputs name {path} twice (also as {seen[real]})")
        seen[real] = path
    return paths


def _files_of(text: str) -> list[str]:
    path = Path(text)
    if path.is_dir():
        return _of_the_right_kind(text, (str(one) for one in path.iterdir()), "the folder")
    if path.exists():
        return [text]
    if glob.has_magic(text):
        return _of_the_right_kind(text, glob.iglob(text, recursive=True), "the pattern")
    raise FileNotFoundError(f"there is no file {text}; {_neighbours(path)}")


def _of_the_right_kind(text: str, paths: Iterable[str], what: str) -> list[str]:
    found = sorted(paths)
    chosen = [path for path in found if path.lower().endswith(SUFFIXES) and not Path(path).is_dir()]
    if chosen:
        return chosen
    if found:
        raise ValueError(
            f"{what} {text} has {len(found)} entries, but none is a .scx or .h5ad file: "
            f"{_some(found)}"
        )
    where = "it is empty" if what == "the folder" else _neighbours(Path(text))
    raise ValueError(f"{what} {text} has no .scx or .h5ad file; {where}")


def _neighbours(path: Path) -> str:
    """What lies where `path` should be, for messages."""
    folder = path.parent
    while glob.has_magic(str(folder)):
        folder = folder.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    names = sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
    return f"{folder} holds {_some(names) if names else 'nothing'}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:EXAMPLES])
    return f"{shown} and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else shown
