"""The genes of several files as one list: which column of a batch each file's genes go to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError

if TYPE_CHECKING:
    import pandas as pd

Names = npt.NDArray[np.object_]
Wanted = Literal["intersection", "union"] | Sequence[str] | None

MIN_KNOWN_GENES = 0.5
# Ensembl's stable ids of genes, transcripts and proteins, of any species, with a version behind.
VERSIONED_ENSEMBL_ID = re.compile(r"(ENS[A-Z]{0,6}[GTP][0-9]{11})\.[0-9]+")
EXAMPLES = 3
# What stands for the id of a gene that has none. It is no gene's: files cannot hold it.
NO_ID = "\0"
# What Python's libraries and R write for a missing entry that is stored as text.
MISSING_TEXTS = frozenset({"", "nan", "NaN", "None", "<NA>", "NA"})
GENERAL_ADVICE = "gene_key names a column of var to match by instead of the index"


@dataclass(frozen=True)
class GeneMatch:
    """How one file's genes fit those of the batches.

    Attributes
    ----------
    path
        The file.
    n_genes
        Genes of the file.
    n_known
        How many of them the others know: those of the list, or of any other file. Of a single
        file, how many have an id.
    n_measured
        How many columns of a batch the file has values for.
    n_merged
        Genes that share their column with another gene of the same file; their values are added.
    n_columns
        How many columns a batch has, before `hvg_indices`: `n_columns - n_measured` of them are
        zero for every cell of the file.
    share_kept
        The genes of the file that have a column, as a share of `n_genes`. 0 to 1.
    share_known
        `n_known` as a share of the file's genes, or the genes of the list (or of the other files)
        that the file has as a share of these, whichever is more. 0 to 1. A gene without an id is a
        gene that nobody knows.
    """

    path: str
    n_genes: int
    n_known: int
    n_measured: int
    n_merged: int
    n_columns: int
    share_kept: float
    share_known: float


@dataclass(frozen=True)
class JoinedGenes:
    """The common genes of several files.

    Attributes
    ----------
    names
        object, one for each column.
    columns
        For each file its genes' columns, int32, -1 for a gene that is left out; None where its
        genes are the columns one by one.
    measured
        bool, shape (files, columns): whether the file has the gene at all.
    matches
        How well each file fits.
    """

    names: Names
    columns: tuple[npt.NDArray[np.int32] | None, ...]
    measured: npt.NDArray[np.bool_]
    matches: tuple[GeneMatch, ...]

    @property
    def n_bytes(self) -> int:
        """Memory of `measured` and the columns, which a pipeline has a copy of."""
        maps = {id(columns): columns.nbytes for columns in self.columns if columns is not None}
        return self.measured.nbytes + 2 * sum(maps.values())


class GeneLists:
    """The genes of files, in which equal lists are one, and equal names too: files are many.

    Attributes
    ----------
    of_files
        The list of each file that was added.
    """

    def __init__(self) -> None:
        self.of_files: list[Names] = []
        self._lists: dict[tuple[Any, ...], Names] = {}
        self._names: dict[Any, Any] = {}

    def add(self, names: Names) -> None:
        """Add the genes of one more file."""
        found = self._lists.get(tuple(names))
        if found is None:
            found = np.empty(len(names), dtype=object)
            found[:] = [self._names.setdefault(name, name) for name in names]
            self._lists[tuple(found)] = found
        self.of_files.append(found)


def without_version(name: str) -> str:
    """An Ensembl id less its version: `ENSG00000000003.15` is `ENSG00000000003`.

    Other names stay as they are, also clone names such as `AC012345.1`, and ids with more behind
    the version, such as `_PAR_Y`, which name another copy of the gene.
    """
    match = VERSIONED_ENSEMBL_ID.fullmatch(name)
    return name if match is None else match[1]


def matched_id(name: object) -> str:
    """What a gene is matched by: its id `without_version`, or `NO_ID` where it has none.

    It has none where the entry is missing or blank, and where it is one of `MISSING_TEXTS`.
    """
    if not isinstance(name, str) or name.strip() in MISSING_TEXTS:
        return NO_ID
    return without_version(name)


def gene_ids(
    var: pd.DataFrame, key: str | None, *, where: str, gaps: Literal["refuse", "no id"] = "refuse"
) -> Names:
    """What genes are matched by, as it stands in var.

    Parameters
    ----------
    var
        What is known of the genes.
    key
        A column of it, or None for the index.
    where
        The file, for messages.
    gaps
        What becomes of genes without an id (see `matched_id`): a ValueError, or `NO_ID`, which
        matches no gene.

    Returns
    -------
    object, a text for each gene.

    Raises
    ------
    KeyError
        var has no such column; the message lists those there are.
    ValueError
        It does not hold text, or no gene has an id.
    """
    if key is None:
        values: Names = var.index.to_numpy(dtype=object)
    elif key in var.columns:
        values = var[key].to_numpy(dtype=object)
    else:
        columns = ", ".join(map(str, var.columns)) or "none"
        raise NameNotFoundError(f"{where} has no var column {key!r}; it has {columns}")
    what = "the index of var" if key is None else f"var column {key!r}"
    missing = var.index.isna() if key is None else var[key].isna().to_numpy()
    for value in values[~np.asarray(missing)]:
        if not isinstance(value, str):
            raise ValueError(f"{what} of {where} holds {value!r}, not only text")
    without = np.array([matched_id(value) == NO_ID for value in values], dtype=np.bool_)
    if without.any() and (gaps == "refuse" or without.all()):
        raise ValueError(
            f"{what} of {where} has no id for {without.sum()} of its {len(values)} genes: the "
            f"entry of the first one is {values[without][0]!r}"
        )
    values = values.copy()
    values[without] = NO_ID
    return values


def join_genes(
    paths: Sequence[str],
    var_names: Sequence[Names],
    *,
    genes: Wanted,
    min_known_genes: float = MIN_KNOWN_GENES,
    advice: Sequence[str] | None = None,
    n_without_id: int = 0,
) -> JoinedGenes:
    """Find the common genes of files.

    Parameters
    ----------
    paths
        The files, for messages.
    var_names
        The genes of each.
    genes
        None: all files must have the same genes in the same order. "intersection": those that all
        files have, in the order of the first. "union": all, those of the first file first. A list
        of names: these, in this order. Names are compared as `matched_id` has them, but for None:
        a gene without an id is left out.
    min_known_genes
        The least `share_known` of each file.
    advice
        For each file what a message about unknown genes ends with; None for a general one.
    n_without_id
        How many genes the list of `genes` would also have, had they an id: its files know them as
        little as any other gene without one. Default 0.

    Raises
    ------
    ValueError
        The genes differ and `genes` is None, a file knows too few, no gene is left, or the list is
        empty or names a gene twice.
    """
    if genes is None:
        return _same_genes(paths, var_names)
    # Many files share few lists of genes: each list is worked on once.
    lists, which = _distinct(var_names)
    files_of = np.bincount(which, minlength=len(lists))
    matched = cache(matched_id)  # equal names stay one string
    ids = [[matched(name) for name in names] for names in lists]
    wanted = _wanted(genes, ids)
    column_of = {name: column for column, name in enumerate(wanted)}
    columns = [
        np.array([column_of.get(name, -1) for name in names], dtype=np.int32) for names in ids
    ]
    if isinstance(genes, str):
        known = _known_by_others(ids, files_of)
    else:
        known = [
            _known([name for name in names if name in column_of], names, len(wanted) + n_without_id)
            for names in ids
        ]
    measured = np.zeros((len(paths), len(wanted)), dtype=bool)
    matches = []
    for file, (path, number) in enumerate(zip(paths, which, strict=True)):
        kept = columns[number][columns[number] >= 0]
        measured[file, kept] = True
        n_measured = int(measured[file].sum())
        n_known, share = known[number]
        matches.append(
            GeneMatch(
                path=path,
                n_genes=len(ids[number]),
                n_known=n_known,
                n_measured=n_measured,
                n_merged=len(kept) - n_measured,
                n_columns=len(wanted),
                share_kept=len(kept) / max(1, len(ids[number])),
                share_known=share,
            )
        )
    _check_known(
        matches,
        [lists[number] for number in which],
        genes,
        min_known_genes,
        [GENERAL_ADVICE] * len(paths) if advice is None else advice,
    )
    if not wanted:
        raise ValueError(f"genes={genes!r} leaves no gene: no gene is in all {len(paths)} files")
    return JoinedGenes(
        names=np.array(wanted, dtype=object),
        columns=tuple(_column_map(columns[number], len(wanted)) for number in which),
        measured=measured,
        matches=tuple(matches),
    )


def _same_genes(paths: Sequence[str], var_names: Sequence[Names]) -> JoinedGenes:
    lists, which = _distinct(var_names)
    first = var_names[0]
    if len(lists) > 1:
        other = which.index(1)
        raise ValueError(
            f"the files have different genes: {_difference(paths, var_names, other)}; pass "
            'genes="intersection", genes="union" or a list of names to match them by name'
        )
    n = len(first)
    match = [GeneMatch(path, n, n, n, 0, n, 1.0, 1.0) for path in paths]
    measured = np.ones((len(paths), n), dtype=bool)
    return JoinedGenes(first, (None,) * len(paths), measured, tuple(match))


def _difference(paths: Sequence[str], var_names: Sequence[Names], other: int) -> str:
    """How the genes of a file differ from those of the first one."""
    first, second = var_names[0], var_names[other]
    only_first, only_second = set(first) - set(second), set(second) - set(first)
    if not only_first and not only_second:
        pairs = enumerate(zip(first, second, strict=False))
        place = next((index for index, (one, two) in pairs if one != two), None)
        where = ""
        if place is not None:
            where = f" (gene {place} is {first[place]!r} and {second[place]!r})"
        return f"{paths[other]} has those of {paths[0]} in another order or number{where}"
    parts = [
        f"{len(only)} of {len(names)} genes of {path} are not in the other, such as "
        f"{min(only, key=str)!r}"
        for only, names, path in (
            (only_first, first, paths[0]),
            (only_second, second, paths[other]),
        )
        if only
    ]
    return " and ".join(parts)


def _distinct(var_names: Sequence[Names]) -> tuple[list[Names], list[int]]:
    """The different lists of genes, in the order of the files, and which one each file has."""
    numbers: dict[tuple[Any, ...], int] = {}
    lists: list[Names] = []
    which = []
    for names in var_names:
        number = numbers.setdefault(tuple(names), len(lists))
        if number == len(lists):
            lists.append(names)
        which.append(number)
    return lists, which


def _wanted(
    genes: Literal["intersection", "union"] | Sequence[str], lists: list[list[str]]
) -> list[str]:
    """The names of the columns, in their order."""
    if genes == "union":
        union = dict.fromkeys(name for names in lists for name in names)
        union.pop(NO_ID, None)
        return list(union)
    if genes == "intersection":
        common = set(lists[0]).intersection(*lists[1:]) - {NO_ID}
        return [name for name in dict.fromkeys(lists[0]) if name in common]
    if isinstance(genes, str):
        raise ValueError(
            f"genes={genes!r} must be 'intersection', 'union', a list of names or None"
        )
    names = [str(name) for name in genes]
    if not names:
        raise ValueError("genes is an empty list: name at least one gene")
    wanted = [without_version(name) for name in names]
    if len(set(wanted)) < len(wanted):
        twice = next(name for place, name in enumerate(wanted) if name in wanted[:place])
        raise ValueError(f"genes names {twice!r} more than once (versions of ids do not count)")
    return wanted


def _known_by_others(
    lists: list[list[str]], files_of: npt.NDArray[np.int64]
) -> list[tuple[int, float]]:
    """For each list how many of its genes other files have, and the `share_known`."""
    owners = Counter(name for names in lists for name in set(names) - {NO_ID})
    without_id = [names.count(NO_ID) for names in lists]
    result = []
    for number, names in enumerate(lists):
        # The others have all of its genes where one has the same list; so has a single file.
        shared = files_of[number] > 1 or len(lists) == 1
        known = [name for name in names if owners[name] > (not shared)]
        alone = 0 if shared else sum(owners[name] == 1 for name in set(names))
        # Genes without an id are genes of the others, too.
        more = max(n for other, n in enumerate(without_id) if shared or other != number)
        result.append(_known(known, names, len(owners) - alone + more))
    return result


def _known(known: list[str], names: list[str], n_others: int) -> tuple[int, float]:
    """How many genes are known, and the `share_known`."""
    shares = [len(known) / max(1, len(names)), len(set(known)) / max(1, n_others)]
    return len(known), max(shares)


def _check_known(
    matches: list[GeneMatch],
    var_names: list[Names],
    genes: Wanted,
    least: float,
    advice: Sequence[str],
) -> None:
    """ValueError that names every file of which too few genes are known."""
    known = "are in any other file" if isinstance(genes, str) else "are in the list of genes"
    if isinstance(genes, str) and len(matches) == 1:
        known = "have an id"
    faults = []
    for match, names, remedy in zip(matches, var_names, advice, strict=True):
        if match.share_known >= least:
            continue
        if not match.n_genes:
            faults.append(f"{match.path} has no genes")
            continue
        with_id = [name for name in names if matched_id(name) != NO_ID]
        gaps = len(names) - len(with_id)
        looks = f"{gaps} of its genes have no id. " if gaps else ""
        if with_id:
            examples = ", ".join(map(str, with_id[:EXAMPLES]))
            looks += f"Its genes look like {examples}; are they ids of the same kind and species? "
        faults.append(
            f"{match.path}: {match.n_known} of its {match.n_genes} genes {known}, "
            f"{match.share_known:.0%} of what could be: less than "
            f"min_known_genes={least:g}. {looks}{remedy}"
        )
    if faults:
        raise ValueError("\n".join(faults))


def _column_map(columns: npt.NDArray[np.int32], n_columns: int) -> npt.NDArray[np.int32] | None:
    if len(columns) == n_columns and np.array_equal(columns, np.arange(n_columns)):
        return None
    return columns
