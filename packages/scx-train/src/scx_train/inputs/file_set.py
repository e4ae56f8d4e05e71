"""Several files as one data set: their cells end to end, with common genes, labels and columns."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import GeneLists, JoinedGenes, Wanted, join_genes
from scx_train._arguments import number, text
from scx_train._given import ordered, path_list
from scx_train.inputs.obs import EXACT_IN_FLOAT64, ObsValues, farthest_from_0
from scx_train.inputs.source import Source, open_source

# What an open file of few sections takes beside its map.
FILE_BYTES = 32 * 1024


@dataclass(frozen=True)
class FileOptions:
    """Which files, and what of them; attributes are arguments of `TrainingDataset`."""

    paths: tuple[str, ...]
    source: str
    modality: str | None
    genes: Wanted
    gene_key: str | None
    min_known_genes: float

    def open(self, *, stacklevel: int = 0) -> FileSet:
        """Open the files; raises and warns as `open_source` and `join_genes`."""
        modality, parts, lists = self.modality, [], GeneLists()
        for path in self.paths:
            part = open_source(
                path,
                source=self.source,
                modality=modality,
                stacklevel=stacklevel + 1 if stacklevel else 0,
            )
            parts.append(part)
            # Where it was chosen for the user, he has been told so once.
            modality = None if part.modality is None else part.modality.name
            lists.add(part.var_names() if self.gene_key is None else part.var_column(self.gene_key))
        genes = join_genes(
            self.paths, lists.of_files, genes=self.genes, min_known_genes=self.min_known_genes
        )
        return FileSet(tuple(parts), genes)


@dataclass(frozen=True)
class FileSet:
    """Open files, of which the rows are numbered on from one to the next.

    Attributes
    ----------
    parts
        The matrix of each.
    genes
        Their common genes.
    """

    parts: tuple[Source, ...]
    genes: JoinedGenes

    @property
    def path(self) -> str:
        """The files, for messages."""
        first = self.parts[0].path
        return first if len(self.parts) == 1 else f"{first} and {len(self.parts) - 1} more"

    @property
    def where(self) -> str:
        """The files, for messages."""
        return self.path

    @property
    def label(self) -> str:
        """What messages call the matrix."""
        return self.parts[0].label

    @property
    def modality(self) -> Any:
        """The modality of the first file; None in a single-modality file."""
        return self.parts[0].modality

    @cached_property
    def row_offsets(self) -> npt.NDArray[np.int64]:
        """First row of each file and, as the last entry, the number of rows."""
        return np.cumsum([0, *(part.n_obs for part in self.parts)], dtype=np.int64)

    @property
    def n_obs(self) -> int:
        """Rows of all files."""
        return int(self.row_offsets[-1])

    @property
    def n_vars(self) -> int:
        """Common genes."""
        return len(self.genes.names)

    @property
    def nnz(self) -> int:
        """Stored values of all files."""
        return sum(part.matrix.nnz for part in self.parts if part.matrix is not None)

    @property
    def metadata_bytes(self) -> int:
        """Memory of what is known of the files and their genes."""
        return FILE_BYTES * len(self.parts) + self.genes.n_bytes

    @property
    def file_bytes(self) -> int:
        """Size of all files."""
        return sum(part.file_bytes for part in self.parts)

    @property
    def shard_starts(self) -> npt.NDArray[np.int64]:
        """First row of each shard and, as the last entry, the number of rows."""
        starts = [part.shard_starts[:-1] + offset for part, offset in self._with_offsets()]
        return np.concatenate([*starts, self.row_offsets[-1:]])

    @property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """The rows of the cells that there are, ascending; None for all."""
        if all(part.rows is None for part in self.parts):
            return None
        return np.concatenate(
            [
                (np.arange(part.n_obs) if part.rows is None else part.rows) + offset
                for part, offset in self._with_offsets()
            ]
        )

    @property
    def deleted_rows(self) -> npt.NDArray[np.int64]:
        """The rows that are marked as deleted, ascending."""
        return np.concatenate(
            [part.deleted_rows + offset for part, offset in self._with_offsets()]
        ).astype(np.int64)

    @property
    def fingerprint(self) -> object:
        """Equal for files of equal content in the same order."""
        return tuple(part.fingerprint for part in self.parts)

    @property
    def genes_digest(self) -> str:
        """Equal for the same common genes, out of the same genes of each file."""
        digest = hashlib.blake2b(repr(list(self.genes.names)).encode(), digest_size=16)
        for columns in self.genes.columns:
            digest.update(b"all" if columns is None else columns.tobytes())
        return digest.hexdigest()

    def var_names(self) -> npt.NDArray[np.object_]:
        """Names of the common genes."""
        return self.genes.names

    def obs_columns(self, names: tuple[str, ...]) -> dict[str, ObsValues]:
        """The columns of all files, end to end, with one code for each label.

        Labels come in the order in which the files have them, those of the first file first. Whole
        numbers beside floats become floats.

        Raises
        ------
        KeyError
            A file has no such column; the message lists those it has.
        ValueError
            A column is of different kinds in two files, or holds what batches cannot.
        """
        columns = [part.obs_columns(names) for part in self.parts]
        paths = [part.path for part in self.parts]
        return {name: joined(name, [each[name] for each in columns], paths) for name in names}

    def embeddings(self, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
        """The entries of obsm of all files, end to end.

        Raises
        ------
        KeyError
            A file has no such entry; the message lists those it has.
        ValueError
            Two have different widths, or one is no array of numbers.
        """
        arrays = [part.embeddings(names) for part in self.parts]
        for name in names:
            first = arrays[0][name]
            for part, each in zip(self.parts, arrays, strict=True):
                if each[name].shape[1:] != first.shape[1:]:
                    raise ValueError(
                        f"obsm[{name!r}] has shape {first.shape} in {self.parts[0].path} and "
                        f"{each[name].shape} in {part.path}: its cells have different dimensions"
                    )
        return {name: np.concatenate([each[name] for each in arrays]) for name in names}

    def _with_offsets(self) -> zip[tuple[Source, np.int64]]:
        return zip(self.parts, self.row_offsets[:-1], strict=True)


def joined(name: str, columns: list[ObsValues], paths: Sequence[str]) -> ObsValues:
    """A column of several files end to end, as `FileSet.obs_columns` describes it."""
    kinds = ["labels" if isinstance(column, dict) else "numbers" for column in columns]
    if len(set(kinds)) > 1:
        other = next(file for file, kind in enumerate(kinds) if kind != kinds[0])
        raise ValueError(
            f"obs column {name!r} holds {kinds[0]} in {paths[0]} and {kinds[other]} "
            f"in {paths[other]}"
        )
    labelled = [column for column in columns if isinstance(column, dict)]
    if labelled:
        numbers: dict[str, int] = {}
        for column in labelled:
            for label in column["categories"]:
                numbers.setdefault(label, len(numbers))
        codes = []
        for column in labelled:
            # One more place at the end: -1, a gap, finds itself there.
            recoded = [numbers[label] for label in column["categories"]] + [-1]
            codes.append(np.array(recoded, dtype=np.int32)[column["codes"]])
        return {"codes": np.concatenate(codes), "categories": list(numbers)}
    arrays = [column for column in columns if not isinstance(column, dict)]
    if len({array.dtype for array in arrays}) > 1:
        for path, array in zip(paths, arrays, strict=True):
            if farthest_from_0(array) > EXACT_IN_FLOAT64:
                raise ValueError(
                    f"obs column {name!r} of {path} holds whole numbers beyond 2**53, "
                    "which the floats of another file cannot stand beside"
                )
    result: ObsValues = np.concatenate(arrays)  # type: ignore[assignment]
    return result


def file_of(
    row_offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """The number of the file of each row."""
    return (np.searchsorted(row_offsets, rows, side="right") - 1).astype(np.int32)


def file_options(
    path: Any,
    *,
    source: Any,
    modality: Any,
    genes: Any,
    gene_key: Any,
    min_known_genes: Any,
) -> FileOptions | None:
    """Check the arguments; None where `path` is a single one, to which those on genes are nothing.

    Raises
    ------
    TypeError, ValueError
        One is not valid, or there is a single file and genes are to be matched.
    """
    share = _share(min_known_genes, "min_known_genes")
    if isinstance(path, (str, bytes, os.PathLike)):
        if genes is not None or gene_key is not None:
            raise ValueError(
                "genes and gene_key match the genes of several files: give path as a list, or "
                "choose the genes of one file by hvg_indices"
            )
        return None
    paths = path_list(path)
    if genes is not None and not isinstance(genes, str):
        if isinstance(genes, bytes) or not isinstance(genes, Iterable):
            raise TypeError(
                f"genes={genes!r} must be 'intersection', 'union', a list of names or None"
            )
        genes = tuple(text(name, "a name in genes") for name in ordered(genes, "genes"))
    return FileOptions(
        paths=paths,
        source=text(source, "source"),
        modality=None if modality is None else text(modality, "modality"),
        genes=genes,
        gene_key=None if gene_key is None else text(gene_key, "gene_key"),
        min_known_genes=share,
    )


def _share(value: Any, argument: str) -> float:
    share = number(value, argument)
    if not 0 <= share <= 1:
        raise ValueError(f"{argument}={value!r} must be from 0 to 1")
    return share
