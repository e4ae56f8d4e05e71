"""Several modalities of several files as one data set, the genes of each modality matched alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._errors import NameNotFoundError
from scx_core._faults import Faults
from scx_train._by_modality import ByModality
from scx_train._given import refuse_repeated
from scx_train.inputs.file_set import (
    FileSet,
    GeneOptions,
    gene_options,
    refuse_matching,
    source_of_each,
)
from scx_train.inputs.joined_files import JoinedFiles
from scx_train.inputs.modalities import Modalities, open_modalities


@dataclass(frozen=True)
class ModalitySet(JoinedFiles[Modalities]):
    """Open files, the same modalities of each.

    Attributes
    ----------
    sources
        By the name of the modality, its matrices in all files.
    """

    sources: Mapping[str, FileSet]

    @property
    def fingerprint(self) -> object:
        """Equal for files of equal content in the same order."""
        return tuple(part.fingerprint for part in self.parts)

    @property
    def metadata_bytes(self) -> int:
        """Memory of what is known of the files and their genes."""
        return sum(files.metadata_bytes for files in self.sources.values())

    @cached_property
    def measured(self) -> dict[str, npt.NDArray[np.bool_]]:
        """For each modality a mask over the rows of all files."""
        return {
            name: np.concatenate([part.measured[name] for part in self.parts])
            for name in self.sources
        }


@dataclass(frozen=True)
class ModalityOptions:
    """Which files, and what of them; attributes are arguments of `MultimodalTrainingDataset`.

    `paths` is a str for a single file; `sources` tells the matrix of a modality in each file, and
    `genes` how its genes are matched.
    """

    paths: str | tuple[str, ...]
    names: tuple[str, ...] | None
    sources: Callable[[str], tuple[str, ...]]
    genes: Callable[[str], GeneOptions]

    def open(self, *, warns: bool = False) -> Modalities | ModalitySet:
        """Open the file or files; warns as `GeneOptions.join`.

        Raises
        ------
        KeyError
            There is no such modality or layer, or, where none are named, a file has others than
            the first; the message names the file.
        ValueError
            A modality has no such matrix, two differ in their shards within a file, or genes do not
            match.
        CorruptFileError, OSError
            As `open_source` does.
        """
        if isinstance(self.paths, str):
            return open_modalities(self.paths, self.names, lambda name: self.sources(name)[0])
        parts: list[Modalities] = []
        faults = Faults()
        for place, path in enumerate(self.paths):
            with faults.kept():
                part = open_modalities(path, self.names, partial(self._source, place))
                if parts and self.names is None:
                    part = _as_in_first(part, parts[0])
                parts.append(part)
        faults.raise_kept()
        sources = {
            name: self.genes(name).join(tuple(part.sources[name] for part in parts), warns=warns)
            for name in parts[0].sources
        }
        return ModalitySet(tuple(parts), sources)

    def _source(self, place: int, name: str) -> str:
        return self.sources(name)[place]


def _as_in_first(part: Modalities, first: Modalities) -> Modalities:
    """The modalities in the order of the first file; KeyError where they are others."""
    for one, other in ((first, part), (part, first)):
        for name in one.sources:
            if name not in other.sources:
                raise NameNotFoundError(
                    f"{other.path} has no modality {name!r}, which {one.path} has: name those that "
                    "all files have, such as "
                    f"modalities={[each for each in first.sources if each in part.sources]}"
                )
    return replace(part, sources={name: part.sources[name] for name in first.sources})


def modality_options(
    paths: str | tuple[str, ...],
    names: tuple[str, ...] | None,
    *,
    source: ByModality[Any],
    of_genes: Mapping[str, ByModality[Any]],
    allow_repeated_files: Any,
) -> ModalityOptions:
    """Check the arguments; `of_genes` are those of `gene_options`, by their names.

    Raises
    ------
    TypeError, ValueError
        One is not valid, or there is a single file and genes are to be matched.
    """

    def options(name: str | None) -> GeneOptions:
        return gene_options(**{argument: of(name) for argument, of in of_genes.items()})

    # Once for each: an iterator of names can be used once.
    named = dict.fromkeys(name for of in of_genes.values() for name in of.names)
    genes = {name: options(name) for name in named}
    others = options(None)
    given = (paths,) if isinstance(paths, str) else paths
    refuse_repeated(given, allowed=allow_repeated_files)
    sources = {name: source_of_each(source(name), given) for name in (None, *source.names)}
    if isinstance(paths, str):
        for each in (others, *genes.values()):
            refuse_matching(genes=each.genes, gene_key=each.gene_key)
    return ModalityOptions(
        paths,
        names,
        lambda name: sources.get(name, sources[None]),
        lambda name: genes.get(name, others),
    )
