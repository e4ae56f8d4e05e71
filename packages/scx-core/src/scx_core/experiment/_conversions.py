"""An experiment as other objects and files: AnnData, MuData, .h5ad and .h5mu."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import anndata
    import mudata

    from scx_core.experiment._experiment import Experiment
    from scx_core.export.h5ad import Compression
    from scx_core.writing import Progress


class Conversions:
    """The methods of `Experiment` that give its content in another form."""

    def to_anndata(self, *, backed: bool = False, modality: str | None = None) -> anndata.AnnData:
        """The content as an AnnData of its own, equal to the one that was written.

        Parameters
        ----------
        backed
            True leaves X, layers and raw.X in the file: they are dask arrays (of CSR or dense
            chunks of whole rows) that decode rows when something is computed from them, so the
            object fits in memory whatever the file's size. It needs dask, and the experiment must
            stay open. All other parts are loaded. Matrices that were CSC are CSR then.
        modality
            Which modality of a multimodal file; its own cells in its own order.

        Raises
        ------
        ValueError
            The file is multimodal and no modality is named, or the other way round.
        ImportError
            `backed` without dask.
        """
        from scx_core.experiment._to_anndata import to_anndata

        return to_anndata(_whole(self), backed=backed, modality=modality)

    def to_mudata(self, *, backed: bool = False) -> mudata.MuData:
        """The content of a multimodal file as a MuData of its own, equal to the one written.

        `backed` is that of `to_anndata`, for every modality. A single-modality file is a
        ValueError; ImportError when mudata is not installed.
        """
        from scx_core.experiment._to_mudata import to_mudata

        return to_mudata(_whole(self), backed=backed)

    def to_h5ad(
        self,
        path: str | os.PathLike[str],
        *,
        modality: str | None = None,
        compression: Compression = None,
        compression_opts: int | None = None,
        overwrite: bool = False,
        memory_budget: int | str = "2GiB",
        progress: Progress = None,
    ) -> None:
        """Write the content to an .h5ad file, matrices piece by piece.

        Parameters
        ----------
        path
            The file to write; a failure leaves none, and an old one untouched.
        modality
            Which modality of a multimodal file.
        compression, compression_opts
            None, "gzip" or "lzf", and the level of gzip.
        overwrite
            Whether an existing file may be replaced.
        memory_budget
            About how much memory the matrices may take: bytes, or a text such as "512MiB".
        progress
            None shows a bar on a terminal or in a notebook, True always, False never; or a
            callable, see `from_anndata`.

        Raises
        ------
        ValueError
            The file holds what an .h5ad cannot, datetimes for example: the message names it and
            says what to store instead. Or a modality must be named, or an argument is wrong. Or
            `path` is the open file itself, or has the suffix of another kind of file.
        FileExistsError
            `path` exists and `overwrite` is False.

        Warns
        -----
        ScxWarning
            Columns of text with gaps became categorical; they are named.
        """
        from scx_core.export import export_h5ad

        export_h5ad(
            _whole(self),
            path,
            modality=modality,
            compression=compression,
            compression_opts=compression_opts,
            overwrite=overwrite,
            memory_budget=memory_budget,
            progress=progress,
        )

    def to_h5mu(
        self,
        path: str | os.PathLike[str],
        *,
        compression: Compression = None,
        compression_opts: int | None = None,
        overwrite: bool = False,
        memory_budget: int | str = "2GiB",
        progress: Progress = None,
    ) -> None:
        """Write a multimodal file's content to an .h5mu file; parameters are those of `to_h5ad`."""
        from scx_core.export import export_h5mu

        export_h5mu(
            _whole(self),
            path,
            compression=compression,
            compression_opts=compression_opts,
            overwrite=overwrite,
            memory_budget=memory_budget,
            progress=progress,
        )


def _whole(part: Conversions) -> Experiment:
    return cast("Experiment", part)
