"""What happens to the values of a matrix on their way into a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core.native.members import OUTPUT_DTYPES, Columns, Member, into_panel
from scx_core.native.pipeline import CsrPipeline, DensePipeline
from scx_train import _arguments as arguments
from scx_train.inputs.counts import (
    NORMALISED,
    SHIFTED,
    Sample,
    overdispersion,
    overdispersion_of_files,
    warn_unless_counts,
)
from scx_train.inputs.file_set import FileSet
from scx_train.inputs.source import Source
from scx_train.streams.budget import MatrixDemand
from scx_train.streams.pipelines import MatrixPipeline


@dataclass(frozen=True)
class Transform:
    """Checked arguments of the same names; see `TrainingDataset`. `pflog` excludes the others."""

    normalize: bool
    log1p: bool
    target_sum: float
    pflog: bool
    pflog_alpha: float | None
    layout: Literal["dense", "csr"]
    dtype: str = "float32"

    @classmethod
    def checked(
        cls,
        *,
        normalize: Any,
        log1p: Any,
        target_sum: Any,
        pflog: Any = False,
        pflog_alpha: Any = None,
        layout: Any = "dense",
        dtype: Any = "float32",
    ) -> Transform:
        """Check the arguments; TypeError or ValueError names the wrong one and its value."""
        normalize, log1p = arguments.flag(normalize, "normalize"), arguments.flag(log1p, "log1p")
        target_sum = arguments.positive(target_sum, "target_sum")
        pflog = arguments.flag(pflog, "pflog")
        if pflog_alpha is not None:
            pflog_alpha = arguments.positive(pflog_alpha, "pflog_alpha")
        layout = arguments.layout(layout, pflog=pflog)
        return cls(
            normalize=normalize and not pflog,
            log1p=log1p and not pflog,
            target_sum=target_sum,
            pflog=pflog,
            pflog_alpha=pflog_alpha if pflog else None,
            layout=layout,
            dtype=arguments.dtype(dtype, layout=layout),
        )

    def fitted(self, source: Source | FileSet) -> Transform:
        """The same for these values: an overdispersion that was not given is estimated.

        Warns with a UserWarning when counts are expected and there are other values.
        """
        if self.pflog or self.normalize:
            consequence = SHIFTED if self.pflog else NORMALISED
            warn_unless_counts(source.parts, consequence)
        rows = source.rows
        n_cells = source.n_obs if rows is None else len(rows)
        if not self.pflog or self.pflog_alpha is not None or n_cells == 0:
            return self
        return replace(self, pflog_alpha=_overdispersion(source))

    def demand(self, source: Source | FileSet, *, n_output_genes: int) -> MatrixDemand:
        """What a batch of the values takes."""
        mean_stored = source.nnz / max(1, source.n_obs)
        is_csr = self.layout == "csr"
        return MatrixDemand(
            n_vars=max(part.n_vars for part in source.parts),
            n_output_genes=n_output_genes,
            mean_values=mean_stored if is_csr and source.n_obs > 0 else None,
            value_bytes=np.dtype(OUTPUT_DTYPES[self.dtype]).itemsize,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What the values of batches follow from, for the state of a data set."""
        alpha = self.pflog_alpha
        return {
            "pflog": self.pflog,
            # An estimate may differ in its last digits from one machine to another.
            "pflog_alpha": None if alpha is None else float(f"{alpha:.9g}"),
            "normalize": self.normalize,
            "target_sum": self.target_sum if self.normalize else None,
            "log1p": self.log1p,
            "layout": self.layout,
            "dtype": self.dtype,
        }

    def opener(
        self,
        source: Source | FileSet,
        *,
        panel: npt.NDArray[np.uint32] | None,
        batches: int,
        threads: int,
    ) -> Callable[[], MatrixPipeline]:
        """Opens a pipeline of the values; `threads` is 0 for one per CPU."""
        kind = CsrPipeline if self.layout == "csr" else DensePipeline

        def open_pipeline() -> MatrixPipeline:
            return kind(_members(source, panel, self._values), batches=batches, threads=threads)

        return open_pipeline

    @property
    def _values(self) -> dict[str, Any]:
        """As pipelines take it."""
        return {
            "normalize": self.normalize,
            "log1p": self.log1p,
            "target_sum": self.target_sum,
            "pflog_alpha": self.pflog_alpha or 0.0,
            "dtype": self.dtype,
        }


def _overdispersion(source: Source | FileSet) -> float:
    if not isinstance(source, FileSet):
        assert source.matrix is not None
        return overdispersion(source.matrix, rows=source.rows, where=source.where)
    samples = [
        Sample(part.matrix, part.rows, np.arange(part.n_vars) if columns is None else columns)
        for part, columns in zip(source.parts, source.genes.columns, strict=True)
        if part.matrix is not None
    ]
    kept = np.logical_and.reduce(source.genes.measured)
    return overdispersion_of_files(samples, kept=kept, where=source.where)


def _members(
    source: Source | FileSet, panel: npt.NDArray[np.uint32] | None, values: dict[str, Any]
) -> list[Member]:
    """The matrices of the files that have cells, each with its way into the panel's columns."""
    n_output = source.n_vars if panel is None else len(panel)
    of_files = source.genes.columns if isinstance(source, FileSet) else [None]
    # Files with the same list of genes share one map.
    shared: dict[tuple[int, int], Columns] = {}
    members = []
    for part, columns in zip(source.parts, of_files, strict=True):
        if part.matrix is None:
            continue
        key = (id(columns), part.n_vars)
        if key not in shared:
            targets = columns if panel is None else into_panel(columns, panel, source.n_vars)
            shared[key] = Columns(part.n_vars, targets, n_output, **values)
        members.append(Member(part.matrix, shared[key], part.path))
    return members
