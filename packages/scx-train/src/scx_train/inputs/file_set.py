"""One matrix out of each of several files as one, with the genes that they have in common."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core._faults import Faults
from scx_core._genes import GeneLists, JoinedGenes, Wanted, join_genes
from scx_train._arguments import is_list, number, text
from scx_train._given import one_path, ordered, refuse_repeated
from scx_train._warn import warn
from scx_train.inputs.joined_files import JoinedFiles
from scx_train.inputs.source import Source, open_source

# What an open file of few sections takes beside its map.
FILE_BYTES = 32 * 1024


@dataclass(frozen=True)
class GeneOptions:
    """How genes of files are matched; attributes are arguments of `TrainingDataset`."""

    genes: Wanted
    gene_key: str | None
    min_known_genes: float

    def join(self, parts: tuple[Source, ...], *, warns: bool = False) -> FileSet:
        """These matrices as one; raises as `join_genes`, and names the modality if there is one.

        With `warns` there is a UserWarning of genes that no file has and where few are common to
        all.
        """
        lists, faults = GeneLists(), Faults()
        for part in parts:
            with faults.kept():
                lists.add(self._ids(part))
        faults.raise_kept()
        try:
            genes = join_genes(
                [part.path for part in parts],
                lists.of_files,
                genes=self.genes,
                min_known_genes=self.min_known_genes,
            )
        except ValueError as error:
            if parts[0].modality is None:
                raise
            raise ValueError(f"modality {parts[0].modality.name!r}: {error}") from None
        message = self._doubt(genes)
        if message and warns:
            if parts[0].modality is not None:
                message = f"modality {parts[0].modality.name!r}: {message}"
            warn(message)
        return FileSet(parts, genes)

    def _ids(self, part: Source) -> npt.NDArray[np.object_]:
        if self.gene_key is None:
            return part.var_names()
        return part.var_column(self.gene_key, gaps="refuse" if self.genes is None else "no id")

    def _doubt(self, joined: JoinedGenes) -> str | None:
        """What the user may not expect of the columns."""
        if self.genes == "intersection":
            most = max(joined.matches, key=lambda match: match.n_genes)
            if most.share_kept >= self.min_known_genes:
                return None
            fewest = min(joined.matches, key=lambda match: match.n_genes)
            return (
                f'genes="intersection" leaves {most.n_columns} of the {most.n_genes} genes of '
                f"{most.path}, as no others are in all {len(joined.matches)} files "
                f"({fewest.path} has {fewest.n_genes}); gene_matches tells the share of each file, "
                'and genes="union" keeps all genes'
            )
        unknown = joined.names[~joined.measured.any(axis=0)]
        if not len(unknown):
            return None
        return (
            f"no file has {len(unknown)} of the {len(joined.names)} genes of genes=[...], "
            f"the first of them {unknown[0]!r}: their columns are zero for every cell"
        )


@dataclass(frozen=True)
class FileOptions:
    """Which files, and what of them: the matrix of each, and arguments of `TrainingDataset`."""

    paths: tuple[str, ...]
    sources: tuple[str, ...]
    modality: str | None
    genes: GeneOptions

    def open(self, *, warns: bool = False) -> FileSet:
        """Open the files; raises and warns as `open_source` and `GeneOptions.join`."""
        modality, parts, faults = self.modality, [], Faults()
        for path, source in zip(self.paths, self.sources, strict=True):
            with faults.kept():
                part = open_source(path, source=source, modality=modality, warns=warns)
                parts.append(part)
                # Where it was chosen for the user, he has been told so once.
                modality = None if part.modality is None else part.modality.name
        faults.raise_kept()
        return self.genes.join(tuple(parts), warns=warns)


@dataclass(frozen=True)
class FileSet(JoinedFiles[Source]):
    """Open files, a matrix of each.

    Attributes
    ----------
    genes
        Their common genes.
    """

    genes: JoinedGenes

    @property
    def where(self) -> str:
        """The files, for messages."""
        return self.path

    @property
    def label(self) -> str:
        """What messages call the matrix."""
        return " and ".join(dict.fromkeys(part.label for part in self.parts))

    @property
    def modality(self) -> Any:
        """The modality of the first file; None in a single-modality file."""
        return self.parts[0].modality

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


def refuse_matching(*, genes: Any, gene_key: Any) -> None:
    """ValueError where genes of a single file are to be matched."""
    if genes is not None or gene_key is not None:
        raise ValueError(
            "genes and gene_key match the genes of several files: give path as a list, or "
            "choose the genes of one file by hvg_indices"
        )


def file_options(
    paths: str | tuple[str, ...],
    *,
    source: Any,
    modality: Any,
    genes: Any,
    gene_key: Any,
    min_known_genes: Any,
    allow_repeated_files: Any,
) -> FileOptions | None:
    """Check the arguments; None for a single path, to which those on genes are nothing.

    Raises
    ------
    TypeError, ValueError
        One is not valid, or there is a single file and genes are to be matched.
    """
    if isinstance(paths, str):
        _share(min_known_genes, "min_known_genes")
        refuse_matching(genes=genes, gene_key=gene_key)
        return None
    refuse_repeated(paths, allowed=allow_repeated_files)
    return FileOptions(
        paths=paths,
        sources=source_of_each(source, paths),
        modality=None if modality is None else text(modality, "modality"),
        genes=gene_options(genes=genes, gene_key=gene_key, min_known_genes=min_known_genes),
    )


def source_of_each(value: Any, paths: Sequence[str]) -> tuple[str, ...]:
    """The matrix of each file: one for all, a list with one for each, or a dict by path.

    What a dict leaves out is "X".

    Raises
    ------
    TypeError, ValueError
        It is none of these, or a list of another length.
    KeyError
        A dict has an entry for another file.
    """
    if isinstance(value, str):
        return (text(value, "source"),) * len(paths)
    if isinstance(value, Mapping):
        known = [os.path.normpath(path) for path in paths]
        given = {os.path.normpath(one_path(path, "a file in source")): path for path in value}
        for path, key in given.items():
            if path not in known:
                raise NameNotFoundError(
                    f"source has an entry for '{os.fspath(key)}', which is none of the files"
                )
        return tuple(
            text(value[given[path]] if path in given else "X", "a source") for path in known
        )
    if not is_list(value):
        raise TypeError(
            f"source={value!r} must be a str, a list with one for each file, or a dict by file"
        )
    sources = tuple(text(each, "a source") for each in ordered(value, "source"))
    if len(sources) != len(paths):
        raise ValueError(
            f"source is a list of {len(sources)}, but there are {len(paths)} files: pass one for "
            "each, or a dict by file"
        )
    return sources


def matrix_of_each(sources: Sequence[str]) -> str:
    """The matrix of files, one for all or that of each; equal for equal choices."""
    return sources[0] if len(set(sources)) == 1 else ", ".join(sources)


def gene_options(*, genes: Any, gene_key: Any, min_known_genes: Any) -> GeneOptions:
    """Check the arguments on genes.

    Raises
    ------
    TypeError, ValueError
        One is not valid; the message names it and its value.
    """
    share = _share(min_known_genes, "min_known_genes")
    if genes is not None and not isinstance(genes, str):
        if not is_list(genes):
            raise TypeError(
                f"genes={genes!r} must be 'intersection', 'union', a list of names or None"
            )
        genes = tuple(text(name, "a name in genes") for name in ordered(genes, "genes"))
    key = None if gene_key is None else text(gene_key, "gene_key")
    return GeneOptions(genes=genes, gene_key=key, min_known_genes=share)


def _share(value: Any, argument: str) -> float:
    share = number(value, argument)
    if not 0 <= share <= 1:
        raise ValueError(f"{argument}={value!r} must be from 0 to 1")
    return share
