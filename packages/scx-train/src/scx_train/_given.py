"""Arguments as the user gave them: paths, lists of them, and copies that are kept for later."""

from __future__ import annotations

import copy
import glob
import os
from collections.abc import Iterable, Iterator, KeysView, Mapping, Set, ValuesView
from typing import Any

import numpy as np

from scx_core._paths import input_paths, local_path, no_path, refuse_repeats
from scx_train._arguments import flag


def one_path(value: Any, argument: str = "path") -> str:
    """The path of a single file, where a list of them is not taken.

    It is made absolute.

    Raises
    ------
    TypeError
        It is something else, also bytes.
    ValueError
        It is an address.
    """
    return absolute(local_path(value, argument))


def absolute(path: str) -> str:
    """The path from the root on: files are opened again later, also by workers.

    The working directory may be another one then. Links stay what they are, and so does "".
    """
    return os.path.join(os.getcwd(), path) if path and not os.path.isabs(path) else path


def path_list(value: Any, argument: str = "path") -> tuple[str, ...]:
    """Paths of files, in the order of the list; folders and patterns stand for their .scx files.

    Raises
    ------
    TypeError
        It is no list, or one without an order, or an entry is no path.
    ValueError
        It is empty, or a folder or pattern has no .scx file.
    """
    if (
        isinstance(value, str | bytes | os.PathLike)
        or not isinstance(value, Iterable)
        or getattr(value, "ndim", 1) == 0
    ):
        raise TypeError(no_path(value, argument, "a path or a list of paths"))
    paths = tuple(
        file
        for place, path in enumerate(ordered(value, argument))
        for file in _files_of(local_path(path, f"{argument}[{place}]"), argument)
    )
    if not paths:
        raise ValueError(f"{argument} is an empty list: name at least one file")
    return paths


def one_path_or_list(value: Any, argument: str = "path") -> str | tuple[str, ...]:
    """The path of a single file, or those of a list, a folder or a pattern.

    Raises as `one_path` and `path_list`.
    """
    if isinstance(value, str | os.PathLike):
        path = local_path(value, argument)
        files = _files_of(path, argument)
        return absolute(path) if files == [absolute(path)] else tuple(files)
    return path_list(value, argument)


def _files_of(path: str, argument: str) -> list[str]:
    """The .scx files of a folder or a pattern; any other path is a file, be it there or not.

    Whoever opens them names all those of a list that are not there. They are made absolute after
    the pattern has been expanded: the name of the working directory is no part of it.
    """
    is_pattern = glob.has_magic(path) and not os.path.exists(path)
    if not is_pattern and not os.path.isdir(path):
        return [absolute(path)]
    return [absolute(file) for file in input_paths(path, suffixes=(".scx",), argument=argument)]


def refuse_repeated(paths: Iterable[str], *, allowed: Any) -> None:
    """ValueError where a list has a file twice, also by way of links, unless that is `allowed`."""
    if flag(allowed, "allow_repeated_files"):
        return
    try:
        refuse_repeats([path for path in paths if os.path.exists(path)], "the paths")
    except ValueError as error:
        raise ValueError(
            f"{error}: each of its cells would come twice, and a split could put one into several "
            "parts; pass allow_repeated_files=True if that is meant"
        ) from None


def ordered(value: Any, argument: str) -> Iterable[Any]:
    """What has an order that all processes agree on.

    Raises
    ------
    TypeError
        It is a set or a dict, or cannot be iterated over.
    """
    if isinstance(value, Set | Mapping) or not isinstance(value, Iterable):
        unordered = ", which has no order" if isinstance(value, Set) else ""
        raise TypeError(f"{argument} must be a list, not {type(value).__name__}{unordered}")
    return value


def kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of arguments that data sets are built from later, and more than once.

    What the user does to his lists and arrays afterwards does not reach them, and an iterator,
    which can be used once, is a list.
    """
    memo: dict[int, Any] = {}  # an array that is there many times is one in the copy too
    return {name: _kept(value, memo) for name, value in options.items()}


def _kept(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, Iterator | KeysView | ValuesView):
        return list(value)
    if isinstance(value, list | tuple | dict | set) or hasattr(value, "__array__"):
        return value if isinstance(value, np.generic) else copy.deepcopy(value, memo)
    return value
