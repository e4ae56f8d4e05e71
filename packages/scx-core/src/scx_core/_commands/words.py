"""What errors and warnings of the library say to someone who types commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

# arguments of Python functions that are options of the command line
ARGUMENTS = (
    "codec",
    "compression",
    "feature_types",
    "genome",
    "layers",
    "memory_budget",
    "modality",
    "overwrite",
    "prefix",
    "shard_size",
    "skip",
    "strict_uns",
    "temporary_folder",
    "threads",
    "var_names",
)


@cache
def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    """An argument: "genome=" among words, "genome: " where a message begins."""
    either = "|".join(names)
    return re.compile(rf"(?<![^\s(`])({either})=(True\b)?|^({either})(?=: )")


def in_words(error: Exception, names: Sequence[str] = ARGUMENTS) -> str:
    """The message of an error, with its type where the message is not meant for people."""
    if isinstance(error, MemoryError):
        return "not enough memory; try a smaller --memory-budget"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {with_options(error.strerror, names)}"
    # a KeyError puts its message into quotes
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    expected = (OSError, ValueError, TypeError, KeyError, ImportError)
    # its subclasses, such as RecursionError, are faults of the program
    if not text or not (isinstance(error, expected) or type(error) is RuntimeError):
        text = f"{type(error).__name__}: {text}"
    # one line each, also where several files have faults, or pandas speaks in several lines
    text = re.sub(r"(?<=[:;,.])\s*\n\s*", " ", text.strip())
    return with_options(re.sub(r"\s*\n\s*", "; ", text), names)


def printable(text: str) -> str:
    """`text` from a file, with escapes for line ends and what else could change a terminal."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def with_options(text: str, names: Sequence[str] = ARGUMENTS) -> str:
    """`text` with `overwrite=True` as --overwrite, `genome='x'` as --genome 'x', and so on."""

    def option(match: re.Match[str]) -> str:
        flag = "--" + (match[1] or match[3]).replace("_", "-")
        next_one = match.string[match.end() : match.end() + 1]
        has_value = match[1] and not match[2] and next_one.strip(";:,`)")
        return f"{flag} " if has_value else flag

    return _pattern(tuple(names)).sub(option, text)
