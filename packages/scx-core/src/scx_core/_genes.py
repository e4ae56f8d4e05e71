"""The genes of several files as one list: which column of a batch each file's genes go to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

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
        How many of them the others know: those of the list, or of any other file.
    n_measured
        How many columns of a batch the file has values for.
    n_merged
        Genes that share their column with another gene of the same file; their values are added.
    share_known
        `n_known` as a share of what could be known: of the file's genes or, where these are fewer,
        of the list or the other files' genes. 0 to 1.
    """

    path: str
    n_genes: int
    n_known: int
    n_measured: int
    n_merged: int
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
        What becomes of genes without an entry: a ValueError, or `NO_ID`, which matches no gene.

    Returns
    -------
    object, a text for each gene.

    Raises
    ------
    KeyError
        var has no such column; the message lists those there are.
    ValueError
        It does not hold text, or does not for every gene.
    """
    if key is None:
        values: Names = var.index.to_numpy(dtype=object)
    elif key in var.columns:
        values = var[key].to_numpy(dtype=object)
    else:
        columns = ", ".join(map(str, var.columns)) or "none"
        raise KeyError(f"{where} has no var column {key!r}; it has {columns}")
    missing = var.index.isna() if key is None else var[key].isna().to_numpy()
    if gaps == "no id" and missing.any() and not missing.all():
        values = values.copy()
        values[missing] = NO_ID
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        what = "the index of var" if key is None else f"var column {key!r}"
        raise ValueError(f"{what} of {where} holds {wrong[0]!r}, not only text")
    return values


def join_genes(
    paths: Sequence[str],
    var_names: Sequence[Names],
    *,
    genes: Wanted,
    min_known_genes: float = MIN_KNOWN_GENES,
    advice: Sequence[str] | None = None,
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
        of names: these, in this order. Names are compared `without_version`, but for None.
    min_known_genes
        The least `share_known` of each file.
    advice
        For each file what a message about unknown genes ends with; None for a general one.

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
    stripper = cache(without_version)  # equal names stay one string
    stripped = [[stripper(name) for name in names] for names in lists]
    wanted = _wanted(genes, stripped)
    column_of = {name: column for column, name in enumerate(wanted)}
    columns = [
        np.array([column_of.get(name, -1) for name in names], dtype=np.int32) for names in stripped
    ]
    if isinstance(genes, str):
        possible, known = _known_by_others(stripped, files_of)
    else:
        possible = [min(len(set(names) - {NO_ID}), len(wanted)) for names in stripped]
        known = [len({name for name in names if name in column_of}) for names in stripped]
    measured = np.zeros((len(paths), len(wanted)), dtype=bool)
    matches = []
    for file, (path, number) in enumerate(zip(paths, which, strict=True)):
        kept = columns[number][columns[number] >= 0]
        measured[file, kept] = True
        n_measured = int(measured[file].sum())
        share = known[number] / possible[number] if possible[number] else 0.0
        matches.append(
            GeneMatch(
                path=path,
                n_genes=len(stripped[number]),
                n_known=known[number],
                n_measured=n_measured,
                n_merged=len(kept) - n_measured,
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
    match = [GeneMatch(path, len(first), len(first), len(first), 0, 1.0) for path in paths]
    measured = np.ones((len(paths), len(first)), dtype=bool)
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
) -> tuple[list[int], list[int]]:
    """For each list how many genes other files could know, and how many they do."""
    owners: dict[str, int] = {}
    for names in lists:
        for name in set(names) - {NO_ID}:
            owners[name] = owners.get(name, 0) + 1
    possible, known = [], []
    for names, n_files in zip(lists, files_of, strict=True):
        distinct = set(names) - {NO_ID}
        alone = sum(owners[name] == 1 for name in distinct)
        if n_files > 1 or len(lists) == 1:
            alone = 0
        possible.append(min(len(distinct), len(owners) - alone))
        known.append(len(distinct) - alone)
    return possible, known


def _check_known(
    matches: list[GeneMatch],
    var_names: list[Names],
    genes: Wanted,
    least: float,
    advice: Sequence[str],
) -> None:
    for match, names, remedy in zip(matches, var_names, advice, strict=True):
        if match.share_known >= least:
            continue
        if not match.n_genes:
            raise ValueError(f"{match.path} has no genes")
        examples = ", ".join(map(str, names[:EXAMPLES]))
        whose = "any other file" if isinstance(genes, str) else "the list of genes"
        raise ValueError(
            f"{match.path}: {match.n_known} of its {match.n_genes} genes are in {whose}, "
            f"{match.share_known:.0%} of what could be: less than "
            f"min_known_genes={least:g}. Its genes look like {examples}; are they ids of the same "
            f"kind and species? {remedy}"
        )


def _column_map(columns: npt.NDArray[np.int32], n_columns: int) -> npt.NDArray[np.int32] | None:
    if len(columns) == n_columns and np.array_equal(columns, np.arange(n_columns)):
        return None
    return columns
