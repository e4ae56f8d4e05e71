"""rowpack: decoding on one core, and size, on realistic counts and on log-normalised floats.

Decoding goes through the library's own entry points into buffers that are used again and again, as
the training pipeline does it, in batches of 1,024 rows. Rates count the stored values of the rows
that are decoded, also where only a panel of them is wanted. The copy of as many bytes as CSR output
has is there to show what the memory allows.

Sizes are those of the shards, with row tables and checksums, against the reference codec on the
same rows. What float values cost is the size of their matrix less that of the same matrix with
nothing but ones. Not measured: metadata, and decoding with several threads (see the training
benchmark).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bench import reference_codec
from bench.harness import Limit, Result, Run, Sample, alternate, repeat, timed
from bench.reference_codec import StreamBytes
from bench.setup import BATCH_SIZE, PANEL_GENES, Setup

DECODE_CSR = Limit("at least", 8e8, aim=1.2e9)
DECODE_PANEL = Limit("at least", 4.5e8, aim=7e8)
SIZE_RATIO = Limit("at most", 1.10)
FLOAT_RATIO = Limit("at most", 0.60)
SIZE_SHARDS = 2
FLOAT_ROWS = 8_192
MATRIX = "X"
CACHED_ROWS = 256
"""Rows a call whose CSR (some 4 MB) stays in the cache: decoding is measured, not the memory."""


def run(setup: Setup) -> Result:
    """Convert once, then measure."""
    import scx_core
    from scx_core.native import binding

    result = Result("codec")
    h5ad = setup.counts()
    scx = setup.folder / "codec.scx"
    scx_core.from_h5ad(h5ad, scx, overwrite=True)
    result.facts.update(h5ad=h5ad.name, simd_level=binding.simd_level())
    _decoding(scx, h5ad, setup, result)
    _count_sizes(scx, h5ad, setup, result)
    scx.unlink()
    _float_sizes(h5ad, setup, result)
    return result


class _Batches:
    """The rows of a file in batches, with buffers that fit the largest."""

    def __init__(self, matrix: Any, order: npt.NDArray[np.int64], n_rows: int) -> None:
        self.matrix = matrix
        self.rows = [order[i : i + n_rows] for i in range(0, order.size, n_rows)]
        self.indptrs = [
            np.concatenate(([0], np.cumsum(matrix.row_counts(rows)))) for rows in self.rows
        ]
        self.stored = sum(int(indptr[-1]) for indptr in self.indptrs)
        most = max(int(indptr[-1]) for indptr in self.indptrs)
        self.indices = np.zeros(most, np.int32)
        self.values = np.zeros(most, np.float32)

    def decode_csr(self) -> None:
        """Every batch into the CSR buffers."""
        for rows, indptr in zip(self.rows, self.indptrs, strict=True):
            self.decode_batch(rows, indptr)

    def decode_batch(self, rows: npt.NDArray[np.int64], indptr: npt.NDArray[np.int64]) -> None:
        """One batch, through the C interface: the method of the class makes new arrays."""
        from scx_core._value_types import value_type
        from scx_core.native import binding

        binding.call(
            "scx_matrix_gather_csr",
            self.matrix.handle,
            binding.input_array(rows, np.int64, "rows"),
            rows.size,
            binding.input_array(indptr, np.int64, "indptr"),
            binding.output_array(self.indices, np.int32, "indices"),
            value_type(self.values.dtype),
            binding.output_array(self.values, np.float32, "values"),
            1,
        )

    def decode_panel(self, panel: npt.NDArray[np.uint32], out: npt.NDArray[np.float32]) -> None:
        """Every batch into the dense buffer, normalised and logged."""
        for rows in self.rows:
            self.matrix.gather_dense(
                rows, columns=panel, normalize=True, log1p=True, out=out[: rows.size], threads=1
            )


def _decoding(scx: Path, h5ad: Path, setup: Setup, result: Result) -> None:
    from scx_core._section_names import SectionType
    from scx_core.native.container import FileReader
    from scx_core.native.matrix import Matrix

    with FileReader(scx) as file:
        matrix = Matrix(file, section_type=SectionType.CSR_SHARD, name=MATRIX)
        n_rows, n_genes = matrix.shape
        order = np.random.default_rng(1).permutation(n_rows)
        shuffled = _Batches(matrix, order, CACHED_ROWS)
        large = _Batches(matrix, order, BATCH_SIZE)
        ordered = _Batches(matrix, np.arange(n_rows), CACHED_ROWS)
        _check(shuffled, h5ad, result)
        n = setup.n_pairs

        csr = alternate(_run(shuffled, shuffled.decode_csr), _copy_run(shuffled), n)
        limit = None if setup.quick else DECODE_CSR
        result.add("into CSR, shuffled rows", [s.rate for s in csr.ours], "values/s", limit)
        result.add("copy of the CSR bytes", [s.rate for s in csr.theirs], "values/s")
        written = alternate(_run(large, large.decode_csr), _copy_run(large), n)
        name = f"into CSR, {BATCH_SIZE:,} shuffled rows a call"
        result.add(name, [s.rate for s in written.ours], "values/s")
        result.add("copy of these CSR bytes", [s.rate for s in written.theirs], "values/s")
        in_order = repeat(_run(ordered, ordered.decode_csr), n)
        result.add("into CSR, rows in order", [s.rate for s in in_order], "values/s")

        random = np.random.default_rng(0)
        panel = random.choice(n_genes, min(PANEL_GENES, n_genes), replace=False)
        columns = np.sort(panel).astype(np.uint32)
        out = np.zeros((CACHED_ROWS, columns.size), np.float32)
        dense = repeat(_run(shuffled, lambda: shuffled.decode_panel(columns, out)), n)
        limit = None if setup.quick else DECODE_PANEL
        result.add("into a panel, normalised", [s.rate for s in dense], "values/s", limit)
        matrix.close()


def _run(batches: _Batches, work: Any) -> Run:
    return lambda: timed(batches.stored, work)


def _copy_run(batches: _Batches) -> Run:
    """The baseline: as many bytes from one buffer to another, batch by batch."""
    indices, values = batches.indices.copy(), batches.values.copy()

    def copy() -> Sample:
        def work() -> None:
            for indptr in batches.indptrs:
                n = indptr[-1]
                np.copyto(batches.indices[:n], indices[:n])
                np.copyto(batches.values[:n], values[:n])

        return timed(batches.stored, work)

    return copy


def _check(batches: _Batches, h5ad: Path, result: Result) -> None:
    """The first batch, value by value, against the source."""
    rows, indptr = batches.rows[0], batches.indptrs[0]
    batches.decode_batch(rows, indptr)
    with h5py.File(h5ad) as file:
        starts = file["X/indptr"][:]
        for i, row in enumerate(rows):
            source, ours = slice(starts[row], starts[row + 1]), slice(indptr[i], indptr[i + 1])
            np.testing.assert_array_equal(batches.indices[ours], file["X/indices"][source])
            np.testing.assert_array_equal(batches.values[ours], file["X/data"][source])
    result.checks.append(f"{rows.size:,} shuffled rows decode to the source's columns and values")


def _count_sizes(scx: Path, h5ad: Path, setup: Setup, result: Result) -> None:
    """Bytes of the first shards against the reference codec on the same rows."""
    shard_bytes, n_rows = _shard_bytes(scx, SIZE_SHARDS)
    reference = reference_codec.measure(_csr_blocks(h5ad, n_rows))
    result.facts["size_rows"] = n_rows
    limit = None if setup.quick else SIZE_RATIO
    result.add("counts, rowpack", shard_bytes / reference.stored, "B/value")
    result.add("counts, shuffle + delta + zstd-3", reference.total / reference.stored, "B/value")
    result.add("counts, rowpack / reference", shard_bytes / reference.total, "x", limit)
    # Differencing suits columns, not counts: the reference at its best leaves it out there.
    best = reference.best_total
    result.add("counts, the reference at its best", best / reference.stored, "B/value")
    result.add("counts, rowpack / reference at its best", shard_bytes / best, "x", limit)
    result.facts["reference_bytes_per_value"] = {
        "indptr": reference.indptr / reference.stored,
        "indices": reference.indices / reference.stored,
        "values": reference.values / reference.stored,
        "values_without_delta": reference.values_without_delta / reference.stored,
    }


def _float_sizes(h5ad: Path, setup: Setup, result: Result) -> None:
    """Log-normalised floats, against what zstd-3 makes of the same float32 values."""
    blocks = list(_csr_blocks(h5ad, FLOAT_ROWS))
    counts = sp.vstack(blocks, format="csr")
    depth = np.asarray(counts.sum(axis=1)).ravel()
    counts.data = np.log1p(counts.data * np.repeat(1e4 / depth, np.diff(counts.indptr)))
    counts.data = counts.data.astype(np.float32)
    _float_size("log-normalised counts", counts, setup, result, limited=not setup.quick)
    try:
        import scanpy as sc
    except ImportError as error:
        result.skipped["pbmc68k_reduced"] = str(error)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pbmc = sc.datasets.pbmc68k_reduced()
    raw = sp.csr_matrix(pbmc.raw.X)
    raw.sort_indices()
    _float_size("pbmc68k_reduced raw", raw, setup, result, limited=True)


def _float_size(
    name: str, matrix: sp.csr_matrix, setup: Setup, result: Result, *, limited: bool
) -> None:
    """What the values cost: the matrix, less the same matrix with ones in place of its values."""
    ones = matrix.copy()
    ones.data = np.ones_like(ones.data)
    whole, bare = _written_bytes(matrix, setup), _written_bytes(ones, setup)
    reference: StreamBytes = reference_codec.measure(iter([matrix]))
    stored, values_alone = reference.stored, reference.values_zstd_alone
    result.add(f"{name}, rowpack", whole / stored, "B/value")
    result.add(f"{name}, of which values", (whole - bare) / stored, "B/value")
    result.add(f"{name}, values as zstd-3", values_alone / stored, "B/value")
    limit = FLOAT_RATIO if limited else None
    result.add(f"{name}, values / zstd-3", (whole - bare) / values_alone, "x", limit)
    both = reference.indptr + reference.indices + values_alone
    result.add(f"{name}, rowpack / columns and values as zstd-3", whole / both, "x")


def _written_bytes(matrix: sp.csr_matrix, setup: Setup) -> int:
    import anndata

    import scx_core

    scx = setup.folder / "floats.scx"
    scx_core.from_anndata(anndata.AnnData(matrix), scx, overwrite=True)
    shard_bytes, _ = _shard_bytes(scx, None)
    scx.unlink()
    return shard_bytes


def _shard_bytes(scx: Path, n_shards: int | None) -> tuple[int, int]:
    """Bytes and rows of the first shards of X, all of them for None."""
    import scx_core

    with scx_core.open(scx) as experiment:
        shards = [s for s in experiment.sections() if s["type"] == "csr_shard"][:n_shards]
    return sum(shard["length"] for shard in shards), max(shard["rows"][1] for shard in shards)


def _csr_blocks(h5ad: Path, n_rows: int) -> Iterator[sp.csr_matrix]:
    """The first rows of X, in blocks that are multiples of the reference's groups."""
    step = 16 * reference_codec.GROUP_ROWS
    with h5py.File(h5ad) as file:
        group = file["X"]
        n_rows = min(n_rows, int(group.attrs["shape"][0]))
        n_genes = int(group.attrs["shape"][1])
        for start in range(0, n_rows, step):
            stop = min(n_rows, start + step)
            indptr = group["indptr"][start : stop + 1].astype(np.int64)
            part = slice(indptr[0], indptr[-1])
            yield sp.csr_matrix(
                (group["data"][part], group["indices"][part], indptr - indptr[0]),
                shape=(stop - start, n_genes),
            )
