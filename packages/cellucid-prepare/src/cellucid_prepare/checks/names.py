"""Names: of elements, which become paths of the store, and of cells and genes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cellucid_prepare._faults import Faults, Refused, plural

if TYPE_CHECKING:
    import pandas as pd

LOG = logging.getLogger("cellucid_prepare")

NO_FILE_NAME = re.compile(r'[/\\<>:"|?*\x00-\x1f\x7f]')
RESERVED = {".", "..", ".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json", "__proto__"}
# Windows keeps these for itself, with whatever behind a dot
DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10))}
NAME_BYTES_MAX = 255


def check_element_names(
    names: Iterable[Any], where: str, faults: Faults, *, reserved: tuple[str, ...] = ()
) -> list[str]:
    """The names that can be paths; the others, and pairs that collide, are faults.

    `where` is the place they are members of, such as ``obs``.
    """
    good: list[str] = []
    folded: dict[str, str] = {}
    for name in names:
        place = f"{where}[{name!r}]"
        if not isinstance(name, str) or not name:
            faults.add_type(
                place,
                f"names are texts of at least a letter, not {_shown(name)}",
                f"rename it, for instance to {str(name)!r}"
                if name not in ("", None)
                else "name it",
            )
        elif NO_FILE_NAME.search(name):
            faults.add(
                place,
                'the name has a character that files cannot have on every system (/ \\ < > : " | '
                "? * and control characters)",
                f"rename it, for instance to {NO_FILE_NAME.sub('_', name)!r}",
            )
        elif name in reserved or name in RESERVED:
            faults.add(
                place, "the name is one that the file format uses itself", f"rename it ({name}_1)"
            )
        elif name[-1] in " .":
            faults.add(
                place,
                f"the name ends in a {'dot' if name[-1] == '.' else 'space'}, which Windows leaves "
                "out of names of files",
                f"rename it, for instance to {name.rstrip(' .')!r}"
                if name.strip(" .")
                else "name it",
            )
        elif name.partition(".")[0].casefold() in DEVICES:
            faults.add(place, "the name is that of a device on Windows", f"rename it ({name}_1)")
        elif not _is_unicode(name):
            faults.add(place, "the name is no valid Unicode text", "rename it")
        elif len(name.encode("utf-8")) > NAME_BYTES_MAX:
            faults.add(
                place,
                f"the name takes more than the {NAME_BYTES_MAX} bytes that files can have",
                "shorten it",
            )
        elif name in good:
            faults.add(place, "the name is used twice", "rename one of the two")
        elif name.casefold() in folded:
            faults.add(
                place,
                f"the name differs from {folded[name.casefold()]!r} in upper and lower case alone, "
                "which are one file on Windows and macOS",
                "rename one of the two",
            )
        else:
            good.append(name)
            folded[name.casefold()] = name
    return good


def _shown(name: Any) -> str:
    return "an empty one" if name == "" else f"{name!r} ({type(name).__name__})"


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def text_fault(text: str) -> str | None:
    """Why a container cannot hold `text`, or None."""
    if "\0" in text:
        return "contains a NUL character"
    return None if _is_unicode(text) else "is no valid Unicode text"


def is_default_index(index: pd.Index) -> bool:
    """Whether pandas made the index because nobody named the rows."""
    import pandas as pd

    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def row_names(index: pd.Index, where: str, faults: Faults) -> list[str]:
    """The names of rows as texts, still with repeats.

    Raises `Refused` where they are none, the fault being noted.
    """
    import pandas as pd

    if is_default_index(index):
        return [str(number) for number in range(len(index))]
    if isinstance(index, pd.MultiIndex):
        faults.add_type(
            f"{where}.index", "has several levels", f"use {where}.reset_index() and name the rows"
        )
        raise Refused
    names = index.astype(object).tolist()
    wrong = [place for place, name in enumerate(names) if not isinstance(name, str) or not name]
    if wrong:
        faults.add_type(
            f"{where}.index",
            f"{plural(len(wrong), 'row')} without a text for a name, the first is row {wrong[0]}: "
            f"{names[wrong[0]]!r}",
            _mend_of_names([names[place] for place in wrong], where),
            n_cells=len(wrong),
        )
        raise Refused
    bad = [(place, fault) for place, name in enumerate(names) if (fault := text_fault(name))]
    if bad:
        place, fault = bad[0]
        faults.add(
            f"{where}.index",
            f"{plural(len(bad), 'name')} cannot be stored; that of row {place} {fault}",
            "remove such characters",
            n_cells=len(bad),
        )
        raise Refused
    return [str(name) for name in names]


def _mend_of_names(wrong: list[Any], where: str) -> str:
    import pandas as pd

    def is_missing(name: Any) -> bool:
        # what is compared with pandas.NA is neither true nor false
        if name is None or name is pd.NA or name is pd.NaT:
            return True
        return name == "" if isinstance(name, str) else isinstance(name, float) and name != name

    if any(map(is_missing, wrong)):
        return f"give every row a name, or number them with {where}.reset_index(drop=True)"
    if all(isinstance(name, bytes) for name in wrong):
        return f'set {where}.index = {where}.index.str.decode("utf-8")'
    return f"set {where}.index = {where}.index.astype(str)"


def unique_names(names: Sequence[str], what: str) -> list[str]:
    """Names of which none repeats, by anndata's rule: a repeat gets ``-1``, ``-2`` and so on.

    A log message tells of names that were changed.
    """
    if len(set(names)) == len(names):
        return list(names)
    taken = set(names)
    seen: set[str] = set()
    next_number: dict[str, int] = {}
    result: list[str] = []
    changed: list[tuple[str, str]] = []
    for name in names:
        unique = name
        if name in seen:
            number = next_number.get(name, 1)
            while (unique := f"{name}-{number}") in taken:
                number += 1
            next_number[name] = number + 1
            taken.add(unique)
            changed.append((name, unique))
        seen.add(name)
        result.append(unique)
    LOG.warning(
        "%s: %s made unique, such as %r, now %r",
        what,
        plural(len(changed), "repeated name"),
        *changed[0],
    )
    return result
