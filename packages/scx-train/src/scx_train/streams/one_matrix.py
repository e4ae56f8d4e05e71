"""What a data set of one matrix says of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scx_train.streams.transform import Transform


class OneMatrix:
    """A data set whose batches come from one matrix of its file, or of each of its files.

    A subclass calls `_keep_matrix` in its constructor.
    """

    def _keep_matrix(
        self,
        *,
        n_vars: int,
        panel: npt.NDArray[np.uint32] | None,
        transform: Transform,
        modality: str | None,
        source: str,
    ) -> None:
        """Remember the genes (`panel` None for all), what happens to values, and where they are."""
        self._n_vars = n_vars
        self._panel = panel
        self._transform = transform
        self._modality = modality
        self._source_label = source

    @property
    def n_vars(self) -> int:
        """How many genes the matrix has."""
        return self._n_vars

    @property
    def n_output_genes(self) -> int:
        """How many columns a batch has."""
        return self._n_vars if self._panel is None else len(self._panel)

    @property
    def gene_indices(self) -> npt.NDArray[np.int64]:
        """The position of each column of a batch in var, or among the common genes of files."""
        if self._panel is None:
            return np.arange(self._n_vars, dtype=np.int64)
        return self._panel.astype(np.int64)

    @property
    def modality(self) -> str | None:
        """Which modality is read; None in a single-modality file."""
        return self._modality

    @property
    def pflog_alpha(self) -> float | None:
        """The overdispersion that `pflog` uses, given or estimated; None without `pflog`."""
        return self._transform.pflog_alpha

    def _shown(self, path: str, n_obs: int, n_genes: int = 0) -> str:
        """For `repr`: the file, the matrix and its shape; `n_genes` are those of a file, or 0."""
        n_genes = max(n_genes, self._n_vars)
        genes = f"{self.n_output_genes} genes"
        if self.n_output_genes < n_genes or self._panel is not None:
            genes = f"{self.n_output_genes} of {n_genes} genes"
        parts = [self._modality, None if self._source_label == "X" else self._source_label]
        where = "".join(f"[{part}]" for part in parts if part is not None)
        return f"'{path}'{where}: {n_obs} cells × {genes}"
