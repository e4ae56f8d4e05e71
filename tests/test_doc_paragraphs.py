"""No paragraph of the documentation has more than 120 words.

Code blocks, tables, headings and comments are no paragraphs. Each item of a list is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from checkout import ROOT

WORDS_MAX = 120
PATTERNS = ("README.md", "packages/*/README.md", "docs/*.md")
PAGES = sorted(chain.from_iterable(ROOT.glob(pattern) for pattern in PATTERNS))
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s")
_BETWEEN = re.compile(r"\s*($|\||#|<!--)")


def paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """The first line, from 1, and the number of words of each paragraph."""
    fence, start, n_words = "", 0, 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        mark = _FENCE.match(line)
        is_between = bool(fence or mark or _BETWEEN.match(line))
        if n_words and (is_between or _ITEM.match(line)):
            yield start, n_words
            n_words = 0
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence = mark[1]
        elif not is_between:
            start = start if n_words else number
            n_words += len(_ITEM.sub("", line).split())


def test_pages_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/architecture.md", "packages/scx-core/README.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paragraphs_are_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    long = [
        f"line {start}: {n_words} words"
        for start, n_words in paragraphs(text)
        if n_words > WORDS_MAX
    ]
    assert not long, f"paragraphs of more than {WORDS_MAX} words: {long}"


def test_words_are_counted_outside_of_code_and_tables() -> None:
    text = (
        "# A heading of five words\n"
        "one two\nthree\n"
        "```py\nnot = counted\n\n~~~\n```\n"
        "four\n"
        "| a | table |\n|---|---|\n"
        "- five six\n  seven\n- eight\n"
        "\n"
        "<!-- a comment -->\n"
        "    nine\n"
    )
    assert list(paragraphs(text)) == [(2, 3), (9, 1), (12, 3), (14, 1), (17, 1)]


def test_long_paragraph_is_seen() -> None:
    lines = "word " * 60 + "\n"
    assert list(paragraphs(lines * 2 + "word\n")) == [(1, WORDS_MAX + 1)]
