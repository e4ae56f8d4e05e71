"""What `medians` gives, and its table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import GeneMatch, JoinedGenes
from scx_tokenize._medians.inputs import Input
from scx_tokenize._medians.run import Counted
from scx_tokenize._version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"scx_tokenize.medians"


@dataclass(frozen=True)
class GeneMedians:
    """Medians of normalised expression of each gene, over the cells that express it.

    Attributes
    ----------
    gene_ids
        object; the genes that any cell expresses, in the order of the first file, then of those
        genes that the second has in addition, and so on; ids without versions.
    medians
        float64, of each.
    n_cells_expressing
        int64; cells in which it is positive.
    totals
        float64; the sum of its counts over all cells.
    unseen
        object; genes that no cell expresses, which have no median.
    target_sum
        What the values of a cell were scaled to.
    n_cells
        Cells of all files.
    n_passes
        How often the files were read.
    matches
        How each file's genes fit those of the others.
    inputs
        Of each file what tells it from others, and how many of its cells were taken: dicts with
        `path`, `bytes`, `n_cells`, `source` and so on.
    """

    gene_ids: npt.NDArray[np.object_]
    medians: npt.NDArray[np.float64]
    n_cells_expressing: npt.NDArray[np.int64]
    totals: npt.NDArray[np.float64]
    unseen: npt.NDArray[np.object_]
    target_sum: float
    n_cells: int
    n_passes: int
    matches: tuple[GeneMatch, ...]
    inputs: tuple[dict[str, Any], ...]

    def to_arrow(self) -> pa.Table:
        """The table that is written: gene_id, median, n_cells and total, a row for each gene.

        The schema's metadata has one key, `scx_tokenize.medians`: a JSON object with the version,
        `target_sum`, `n_cells` (of all files), `unseen` (how many genes have no median) and
        `inputs`, of each file its identity and the shares of its genes.
        """
        import pyarrow as pa

        facts = {
            "version": __version__,
            "target_sum": self.target_sum,
            "n_cells": self.n_cells,
            "n_genes_unseen": len(self.unseen),
            "inputs": [
                {
                    **identity,
                    "n_genes": match.n_genes,
                    "n_genes_known_to_others": match.n_known,
                    "n_genes_merged": match.n_merged,
                }
                for identity, match in zip(self.inputs, self.matches, strict=True)
            ],
        }
        table = pa.table(
            {
                "gene_id": pa.array(self.gene_ids, pa.string()),
                "median": pa.array(self.medians, pa.float64()),
                "n_cells": pa.array(self.n_cells_expressing, pa.int64()),
                "total": pa.array(self.totals, pa.float64()),
            }
        )
        return table.replace_schema_metadata({METADATA_KEY: json.dumps(facts, sort_keys=True)})


def result_of(
    counted: Counted, genes: JoinedGenes, inputs: Sequence[Input], *, target_sum: float
) -> GeneMedians:
    """The result of all passes, without genes that no cell expresses."""
    seen = counted.n_values > 0
    return GeneMedians(
        gene_ids=genes.names[seen],
        medians=counted.medians[seen],
        n_cells_expressing=counted.n_values[seen],
        totals=counted.totals[seen],
        unseen=genes.names[~seen],
        target_sum=target_sum,
        n_cells=sum(each.n_cells for each in inputs),
        n_passes=counted.n_passes,
        matches=genes.matches,
        inputs=tuple(_described(each) for each in inputs),
    )


def _described(each: Input) -> dict[str, Any]:
    facts = {
        "path": each.path,
        "bytes": each.stamp[0],
        "identity": each.identity,
        "n_cells": each.n_cells,
        **asdict(each.selection),
    }
    return {name: value for name, value in facts.items() if value is not None}
