"""Who the data set is: its id, and the texts that are displayed as they are."""

from __future__ import annotations

import re
import unicodedata
from typing import Any
from urllib.parse import urlsplit

from cellucid_prepare._faults import Faults

ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,179}")
# format characters without a glyph of their own; joiners within a word have one
NO_GLYPH = {"\u200b", "\u2060", "\ufeff", "\u00ad"}


def check_id(value: Any, faults: Faults) -> str | None:
    """The data set's id."""
    if not isinstance(value, str):
        problem = "is missing" if value is None else f"is a {type(value).__name__}, not a text"
        faults.add_type("dataset_id", problem, "pass dataset_id='...'")
        return None
    if ID_PATTERN.fullmatch(value) is None or value.endswith("."):
        faults.add(
            "dataset_id",
            f"{value!r} is no portable id",
            "use 1 to 180 ASCII letters, digits, '.', '_' and '-', a letter or digit first, no '.' "
            "at the end",
        )
        return None
    return value


def check_display_text(
    value: Any, where: str, faults: Faults, *, may_be_empty: bool = False
) -> str | None:
    """A text that is shown exactly as it is given."""
    if not isinstance(value, str):
        problem = "is missing" if value is None else f"is a {type(value).__name__}, not a text"
        faults.add_type(where, problem, f"pass {where}='...'")
        return None
    if not value:
        if not may_be_empty:
            faults.add(where, "is empty", "give the text to show, or leave it out")
            return None
        return value
    problem_found = _invisible(value)
    if problem_found:
        faults.add(
            where,
            f"{problem_found}, which cannot be seen where the text is shown",
            "pass the exact text that is to be shown",
        )
        return None
    return value


def check_url(value: Any, where: str, faults: Faults) -> str | None:
    """An absolute http or https address."""
    text = check_display_text(value, where, faults)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        good = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        faults.add(where, f"{text!r} is no absolute http or https address", "begin with https://")
        return None
    return text


def _invisible(text: str) -> str | None:
    for place, what in ((0, "begins"), (-1, "ends")):
        if text[place].isspace():
            return f"{what} with {_named(text[place])}"
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") or character in NO_GLYPH:
            return f"contains {_named(character)}"
    return None


def _named(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip()
