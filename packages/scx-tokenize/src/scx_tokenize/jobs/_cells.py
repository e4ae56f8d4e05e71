"""The cells of an input file: rows of one matrix, whichever format holds it."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from scx_core._closing import Closing
from scx_core._errors import NameNotFoundError

from .._genes import Csr, brought_to

if TYPE_CHECKING:
    import pandas as pd

    from scx_core.experiment import Experiment, MatrixView
    from scx_core.experiment._modality import Modality
    from scx_core.experiment._raw import RawView
    from scx_core.sources.base import MatrixSource
    from scx_core.sources.h5_compressed import CompressedArrays

InputKind = Literal["scx", "h5ad"]
Positions = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]

LAYERS = "layers/"
# Rows of an .h5ad that are read at once: those that a filter leaves out cost no more memory.
WINDOW_ROWS = 4096
WINDOW_BYTES = 32 * 2**20
# What is looked at to tell counts from other values.
FIRST_ROWS = 100
FIRST_GENES = 2000


class Cells(Closing):
    """One matrix of an open file, its cells and its genes.

    Attributes
    ----------
    path
        The file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._stack = ExitStack()

    @property
    @abstractmethod
    def rows(self) -> Positions:
        """The file's row of each cell that is there and measured: int64, ascending."""

    @abstractmethod
    def var(self) -> pd.DataFrame:
        """What is known of the matrix's genes."""

    @abstractmethod
    def obs(self) -> pd.DataFrame:
        """What is known of the cells, one row for each of `rows`."""

    @abstractmethod
    def gather(
        self, positions: Positions, places: Places | None, n_places: int, *, threads: int
    ) -> Csr:
        """Cells in CSR, their genes brought to their places.

        Parameters
        ----------
        positions
            Places in `rows`, ascending.
        places
            int32, the place of each gene, negative to leave it out; None for each as itself. The
            values of genes that share a place are added, after negatives and NaN became 0.
        n_places
            How many places there are.
        threads
            Threads that decode.
        """

    @property
    @abstractmethod
    def reads_in_threads(self) -> bool:
        """Whether `gather` keeps all its threads busy."""

    def close(self) -> None:
        """Let the file go."""
        self._stack.close()


class ScxCells(Cells):
    """Of a .scx file."""

    def __init__(self, path: str, source: str, modality: str | None) -> None:
        from scx_core.experiment import Experiment

        super().__init__(path)
        self.experiment = self._stack.enter_context(Experiment(path))
        try:
            self._part = _modality_of(self.experiment, modality)
            holder: Experiment | Modality = self._part or self.experiment
            self._matrix, self._genes = _scx_matrix(holder, source, path)
        except BaseException:
            self.close()
            raise

    @cached_property
    def _shown(self) -> Positions | None:
        """Rows of the modality among those that are shown; None for all."""
        return None if self._part is None else self._part.rows

    @cached_property
    def rows(self) -> Positions:
        live = self.experiment.live_rows
        return live if self._shown is None else np.sort(live[self._shown])

    @property
    def reads_in_threads(self) -> bool:
        return True

    def var(self) -> pd.DataFrame:
        return self._genes.load_var()

    def obs(self) -> pd.DataFrame:
        obs = self.experiment.obs
        if self._part is None or self._shown is None:
            return obs
        order = np.argsort(self._shown, kind="stable")
        shared = obs.iloc[self._shown[order]]
        own = self._part.obs
        if own is None:
            return shared
        own = own.iloc[order]
        more = [name for name in own.columns if name not in shared.columns]
        return shared.assign(**{name: own[name].to_numpy() for name in more}) if more else shared

    def gather(
        self, positions: Positions, places: Places | None, n_places: int, *, threads: int
    ) -> Csr:
        shown = positions if self._shown is None else np.sort(self._shown)[positions]
        if places is not None:
            return self._matrix.gather_mapped(shown, places, threads=threads)
        rows = self._matrix.gather(shown, threads=threads)
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(rows.values, dtype=np.float32)
        return rows.indptr, rows.indices, values


class H5adCells(Cells):
    """Of an .h5ad file; `turned` is a .scx file with the same matrix where that is not in CSR."""

    def __init__(self, path: str, source: str, turned: str | None) -> None:
        from scx_core.sources.hdf5 import check_readable, open_hdf5

        super().__init__(path)
        self._file: Any = self._stack.enter_context(
            open_hdf5(Path(path), "from_h5ad", "an .h5ad file")
        )
        try:
            check_readable(self._file)
            self._item, self._var_item = _h5ad_matrix(self._file, source, path)
            self._turned = None
            if turned is not None:
                self._turned = ScxCells(turned, "X", None)
                self._stack.callback(self._turned.close)
        except BaseException:
            self.close()
            raise

    @cached_property
    def matrix_source(self) -> MatrixSource:
        """The matrix as scx-core's converter reads it."""
        from scx_core.sources.h5_matrices import ReadingMeans, matrix_source

        means = ReadingMeans(memory_bytes=2**30, folder=Path(self.path).parent)
        return matrix_source(self._item, means)

    @cached_property
    def is_in_rows(self) -> bool:
        """Whether rows can be read one by one."""
        from scx_core.sources.h5_matrices import CsrOnDisk

        return isinstance(self.matrix_source, CsrOnDisk)

    def first_values(self) -> npt.NDArray[Any]:
        """Some of the values, also where rows cannot be read one by one."""
        from scx_core.sources.h5_matrices import DenseOnDisk

        if isinstance(self.matrix_source, DenseOnDisk):
            return np.asarray(self._item[:FIRST_ROWS, :FIRST_GENES]).ravel()
        return np.asarray(self._item["data"][: FIRST_ROWS * FIRST_GENES])

    @cached_property
    def rows(self) -> Positions:
        return np.arange(self.matrix_source.shape[0], dtype=np.int64)

    @property
    def reads_in_threads(self) -> bool:
        return self._turned is not None

    def var(self) -> pd.DataFrame:
        from scx_core.sources.h5_elements import read_frame

        return read_frame(self._var_item)

    def obs(self) -> pd.DataFrame:
        from scx_core.sources.h5_elements import read_frame

        return read_frame(self._file["obs"])

    def gather(
        self, positions: Positions, places: Places | None, n_places: int, *, threads: int
    ) -> Csr:
        if self._turned is not None:
            return self._turned.gather(positions, places, n_places, threads=threads)
        parts = []
        start = 0
        while start < len(positions):
            stop = int(np.searchsorted(positions, positions[start] + WINDOW_ROWS))
            parts.append(self._window(positions[start:stop], places, n_places))
            start = stop
        if len(parts) == 1:
            return parts[0]
        return _concatenated(parts)

    def _window(self, positions: Positions, places: Places | None, n_places: int) -> Csr:
        first = int(positions[0])
        piece = self._arrays.majors(first, int(positions[-1]) + 1)
        indptr, indices, values = piece.indptr, piece.indices, piece.values
        if piece.n_majors != len(positions):
            chosen = np.zeros(piece.n_majors, dtype=np.bool_)
            chosen[positions - first] = True
            counts = np.diff(indptr)
            kept = np.repeat(chosen, counts)
            indices, values = indices[kept], values[kept]
            indptr = np.zeros(len(positions) + 1, dtype=np.int64)
            np.cumsum(counts[chosen], out=indptr[1:])
        return brought_to(places, n_places, indptr, indices, np.fmax(values, 0))

    @cached_property
    def _arrays(self) -> CompressedArrays:
        from scx_core.sources.h5_matrices import CsrOnDisk

        assert isinstance(self.matrix_source, CsrOnDisk)
        return self.matrix_source.arrays.with_caches(WINDOW_BYTES)


def open_cells(
    path: str, *, source: str = "X", modality: str | None = None, turned: str | None = None
) -> Cells:
    """Open an input.

    Parameters
    ----------
    path
        A .scx or .h5ad file.
    source
        "X", "raw" or "layers/NAME".
    modality
        Which one, in a .scx file that has several.
    turned
        For an .h5ad whose matrix is not in CSR: a .scx file with its rows.

    Raises
    ------
    CorruptFileError
        A .scx file is damaged or cut off.
    KeyError
        There is no such layer or modality; the message names the file and what there is.
    ValueError
        It is of another kind or damaged, or has no such matrix.
    """
    kind = kind_of(path)
    if kind == "scx":
        return ScxCells(path, source, modality)
    if modality is not None:
        raise ValueError(f"{path} is an .h5ad, which has no modality {modality!r}")
    return H5adCells(path, source, turned)


def kind_of(path: str) -> InputKind:
    """Whether a file is a .scx or an .h5ad; ValueError for anything else."""
    from scx_core.sources.detect import DESCRIPTIONS, source_kind

    kind = source_kind(Path(path))
    if kind == "missing":
        raise FileNotFoundError(f"there is no file {path}")
    if kind == "scx" or kind == "h5ad":
        return kind
    raise ValueError(
        f"{path} looks like {DESCRIPTIONS[kind]}; jobs read .scx and .h5ad files: `scx convert` "
        "may make one of it"
    )


def _modality_of(experiment: Experiment, name: str | None) -> Modality | None:
    if not experiment.is_multimodal:
        if name is not None:
            raise NameNotFoundError(
                f"{experiment.path} has a single modality without a name, not {name!r}"
            )
        return None
    if name is None:
        names = [repr(one) for one in experiment.modality_names]
        raise ValueError(
            f"{experiment.path} has the modalities {', '.join(names)}: choose one, as in "
            f"modality={names[0]}"
        )
    return experiment.modality(name)


def _scx_matrix(
    holder: Experiment | Modality, source: str, path: str
) -> tuple[MatrixView, Modality | RawView]:
    from scx_core.experiment import Experiment

    part = holder.parts()[0] if isinstance(holder, Experiment) else holder
    if source == "raw":
        if part.raw is None:
            raise ValueError(
                f"{path} has no raw; {_matrices(part.layers, has_x=part.X is not None)}"
            )
        return part.raw.X, part.raw
    name = _layer(source)
    if name is None:
        if part.X is None:
            raise ValueError(f"{path} has no X; {_matrices(part.layers, has_x=False)}")
        return part.X, part
    if name not in part.layers:
        raise NameNotFoundError(
            f"{path} has no layer {name!r}; {_matrices(part.layers, has_x=part.X is not None)}"
        )
    return part.layers[name], part


def _h5ad_matrix(file: Any, source: str, path: str) -> tuple[Any, Any]:
    """The element with the matrix and the one with its genes."""
    from scx_core.sources.h5ad import is_null, layer_names, raw_parts

    has_x = "X" in file and not is_null(file["X"])
    layers = layer_names(file)
    if source == "raw":
        parts = raw_parts(file)
        if "X" not in parts or "var" not in parts:
            raise ValueError(f"{path} has no raw; {_matrices(layers, has_x=has_x)}")
        return parts["X"], parts["var"]
    name = _layer(source)
    if name is None:
        if not has_x:
            raise ValueError(f"{path} has no X; {_matrices(layers, has_x=False)}")
        return file["X"], file["var"]
    if name not in layers:
        raise NameNotFoundError(f"{path} has no layer {name!r}; {_matrices(layers, has_x=has_x)}")
    # listed by name, so that a slash in a name is no path
    return dict(file["layers"].items())[name], file["var"]


def _layer(source: str) -> str | None:
    """The layer that `source` names; None for X."""
    if source == "X":
        return None
    if isinstance(source, str) and source.startswith(LAYERS):
        return source[len(LAYERS) :]
    raise ValueError(f"source={source!r} must be 'X', 'raw' or 'layers/NAME'")


def _matrices(layers: Any, *, has_x: bool) -> str:
    """What a file has instead, for messages."""
    names = [*(["X"] if has_x else []), *(f"{LAYERS}{name}" for name in layers)]
    return f"it has {', '.join(names) or 'no matrix'}"


def _concatenated(parts: list[Csr]) -> Csr:
    if not parts:
        empty: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)
        return np.zeros(1, dtype=np.int64), empty, np.empty(0, dtype=np.float32)
    counts = np.concatenate([np.diff(part[0]) for part in parts])
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return (
        indptr,
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )
