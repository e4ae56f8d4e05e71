"""One matrix out of each of several files as one, with the genes that they have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core._genes import GeneLists, JoinedGenes, Wanted, join_genes
from scx_train._arguments import is_list, number, text
from scx_train._given import ordered
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

    def join(self, parts: tuple[Source, ...]) -> FileSet:
        """These matrices as one; raises as `join_genes`, and names the modality if there is one."""
        lists = GeneLists()
        for part in parts:
            if self.gene_key is None:
                lists.add(part.var_names())
            else:
                gaps: Literal["refuse", "no id"] = "refuse" if self.genes is None else "no id"
                lists.add(part.var_column(self.gene_key, gaps=gaps))
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
        return FileSet(parts, genes)


@dataclass(frozen=True)
class FileOptions:
    """Which files, and what of them; attributes are arguments of `TrainingDataset`."""

    paths: tuple[str, ...]
    source: str
    modality: str | None
    genes: GeneOptions

    def open(self, *, stacklevel: int = 0) -> FileSet:
        """Open the files; raises and warns as `open_source` and `join_genes`."""
        modality, parts = self.modality, []
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
        return self.genes.join(tuple(parts))


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
        return self.parts[0].label

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
    return FileOptions(
        paths=paths,
        source=text(source, "source"),
        modality=None if modality is None else text(modality, "modality"),
        genes=gene_options(genes=genes, gene_key=gene_key, min_known_genes=min_known_genes),
    )


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
