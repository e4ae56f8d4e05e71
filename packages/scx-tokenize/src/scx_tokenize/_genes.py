"""The genes of input files: their ids, their places in a vocabulary, and rows brought there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import (
    MIN_KNOWN_GENES,
    NO_ID,
    GeneLists,
    JoinedGenes,
    Names,
    gene_ids,
    join_genes,
    without_version,
)

if TYPE_CHECKING:
    import pandas as pd

Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class FileGenes:
    """The genes of one file.

    Attributes
    ----------
    path
        The file.
    ids
        object; the text that each gene is matched by, `NO_ID` where it has none.
    advice
        What a message about ids that nothing knows ends with.
    """

    path: str
    ids: Names
    advice: str


def file_genes(
    path: str,
    var: pd.DataFrame,
    gene_key: str | None,
    *,
    synonyms: Mapping[str, str] | None = None,
) -> FileGenes:
    """The ids of a file's genes.

    Parameters
    ----------
    path
        The file.
    var
        What it knows of its genes.
    gene_key
        The column of var with the ids, None for the index. Genes may lack one.
    synonyms
        The id to take instead of another; versions do not count.

    Raises
    ------
    KeyError
        var has no such column; the message names file and key and lists the columns there are.
    ValueError
        The column holds something else than text.
    """
    ids = gene_ids(var, gene_key, where=path, gaps="no id")
    if synonyms:
        plain = {without_version(old): new for old, new in synonyms.items()}
        renamed = np.empty(len(ids), dtype=object)
        renamed[:] = [plain.get(without_version(name), name) for name in ids]
        ids = renamed
    columns = ", ".join(map(repr, var.columns)) or "none"
    used = "the index of var" if gene_key is None else f"the var column {gene_key!r}"
    advice = f"gene_key=NAME takes another column than {used}; the columns there are: {columns}"
    return FileGenes(path, ids, advice)


def match_genes(
    files: Sequence[FileGenes],
    vocabulary: Sequence[str] | None = None,
    *,
    min_known_genes: float = MIN_KNOWN_GENES,
    n_without_id: int = 0,
) -> JoinedGenes:
    """Where each file's genes are in a vocabulary, or in the union of all files' genes.

    Ids are compared without the versions of Ensembl ids. Genes of a file that come to one place
    are to be added (`brought_to`).

    Parameters
    ----------
    files
        Their genes.
    vocabulary
        Ids in the order of their places, each once; None for the union, first file first.
    min_known_genes
        The least `share_known` that the vocabulary, or any other file, has to give a file: see
        `GeneMatch`. 0 to 1.
    n_without_id
        As of `join_genes`: genes that the vocabulary lacks since they have no id.

    Returns
    -------
    `names` are the ids without versions, `columns[file]` the place of each gene of the file (-1
    for none, None where they are the places one by one), and `matches[file]` the shares.

    Raises
    ------
    ValueError
        A file knows too few, which names the file and what its ids look like; or the vocabulary is
        empty or names a gene twice.
    """
    lists = GeneLists()
    for file in files:
        lists.add(file.ids)
    return join_genes(
        [file.path for file in files],
        lists.of_files,
        genes="union" if vocabulary is None else list(vocabulary),
        min_known_genes=min_known_genes,
        advice=[file.advice for file in files],
        n_without_id=n_without_id,
    )


def brought_to(
    places: npt.NDArray[np.int32] | None,
    n_places: int,
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
) -> Csr:
    """Rows with their genes brought to their places.

    Genes without a place are left out and those that meet in one are added, in float64; so are
    columns that a row stores twice. Where anything is added, negative values and NaN count as 0.
    Stored zeros stay.

    Parameters
    ----------
    places
        int32, the place of each column, negative for none; None for each column as itself.
    n_places
        How many places there are.
    indptr, indices, values
        The rows in CSR, also unsorted; `indptr` may start anywhere.

    Returns
    -------
    indptr, indices, values
        int64 from 0, int32 strictly ascending in each row, and float32.
    """
    indptr = indptr - indptr[0]
    if places is not None:
        indices = places[indices]
        kept = indices >= 0
        if not kept.all():
            before = np.zeros(len(kept) + 1, dtype=np.int64)
            np.cumsum(kept, out=before[1:])
            indptr, indices, values = before[indptr], indices[kept], values[kept]
    narrow = np.ascontiguousarray(indices, dtype=np.int32)
    if _ascending(indptr, narrow):
        with np.errstate(over="ignore"):
            return indptr, narrow, np.ascontiguousarray(values, dtype=np.float32)
    return _summed(indptr, narrow, values, n_places)


def _ascending(indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32]) -> bool:
    """Whether the columns of each row ascend strictly."""
    rising = np.ones(len(indices) + 1, dtype=np.bool_)
    np.greater(indices[1:], indices[:-1], out=rising[1 : len(indices)])
    rising[indptr] = True  # the first of a row follows nothing
    return bool(rising.all())


def _summed(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int32],
    values: npt.NDArray[Any],
    n_places: int,
) -> Csr:
    import scipy.sparse as sp

    clipped = np.where(values > 0, values, 0).astype(np.float64)
    matrix = sp.csr_matrix((clipped, indices, indptr), shape=(len(indptr) - 1, n_places))
    matrix.sum_duplicates()
    with np.errstate(over="ignore"):
        return (
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int32, copy=False),
            matrix.data.astype(np.float32),
        )


__all__ = [
    "MIN_KNOWN_GENES",
    "NO_ID",
    "FileGenes",
    "brought_to",
    "file_genes",
    "match_genes",
]
