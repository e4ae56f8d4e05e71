"""What happens to the values of a matrix on their way into a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core._pipeline import CsrPipeline, DensePipeline

from . import _arguments as arguments
from ._budget import MatrixDemand
from ._counts import overdispersion, warn_unless_counts
from ._pipelines import MatrixPipeline
from ._source import Source


@dataclass(frozen=True)
class Transform:
    """Checked arguments of the same names; see `TrainingDataset`. `pflog` excludes the others."""

    normalize: bool
    log1p: bool
    target_sum: float
    pflog: bool
    pflog_alpha: float | None
    layout: Literal["dense", "csr"]

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
    ) -> Transform:
        """Check the arguments; TypeError or ValueError names the wrong one and its value."""
        normalize, log1p = arguments.flag(normalize, "normalize"), arguments.flag(log1p, "log1p")
        target_sum = arguments.positive(target_sum, "target_sum")
        pflog = arguments.flag(pflog, "pflog")
        if pflog_alpha is not None:
            pflog_alpha = arguments.positive(pflog_alpha, "pflog_alpha")
        return cls(
            normalize=normalize and not pflog,
            log1p=log1p and not pflog,
            target_sum=target_sum,
            pflog=pflog,
            pflog_alpha=pflog_alpha if pflog else None,
            layout=arguments.layout(layout, pflog=pflog),
        )

    def fitted(self, source: Source, *, stacklevel: int) -> Transform:
        """The same for one matrix: an overdispersion that was not given is estimated.

        Warns with a UserWarning, `stacklevel` frames up, when counts are expected and there are
        other values.
        """
        if source.matrix is None:
            return self
        if self.pflog or self.normalize:
            warn_unless_counts(
                source.matrix,
                source.rows,
                label=source.title,
                path=source.path,
                stacklevel=stacklevel + 2,
            )
        if not self.pflog or self.pflog_alpha is not None:
            return self
        alpha = overdispersion(source.matrix, rows=source.rows, where=source.where)
        return replace(self, pflog_alpha=alpha)

    def demand(self, source: Source, *, n_output_genes: int) -> MatrixDemand:
        """What a batch of the values takes."""
        mean_values = None
        if self.layout == "csr" and source.matrix is not None:
            mean_values = source.matrix.nnz / source.n_obs
        return MatrixDemand(
            n_vars=source.n_vars, n_output_genes=n_output_genes, mean_values=mean_values
        )

    def opener(
        self,
        source: Source,
        *,
        panel: npt.NDArray[np.uint32] | None,
        batches: int,
        threads: int,
    ) -> Callable[[], MatrixPipeline]:
        """Opens a pipeline of the values; `threads` is 0 for one per CPU."""
        kind = CsrPipeline if self.layout == "csr" else DensePipeline

        def open_pipeline() -> MatrixPipeline:
            assert source.matrix is not None  # a file without cells has no epochs
            return kind(
                source.matrix,
                columns=panel,
                normalize=self.normalize,
                log1p=self.log1p,
                target_sum=self.target_sum,
                pflog_alpha=self.pflog_alpha or 0.0,
                batches=batches,
                threads=threads,
                path=source.path,
            )

        return open_pipeline
