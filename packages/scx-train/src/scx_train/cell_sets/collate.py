"""Collation: gathered cell sets become the inputs of a set model."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from scx_core._memory import check_room
from scx_core.native import binding
from scx_core.native.csr_rows import csr_rows, vector, whole_numbers
from scx_train import _arguments as arguments

COLLATE_CELLSET_CONTRACT_VERSION: Final = 3
"""The version of what `collate_cellset_gathered` computes: assert it where a model is set up."""

CollateMode = Literal["pass_through", "log1p_raw", "normalize_log1p", "pflog_raw"]
MODES: dict[str, int] = {  # SCX_PASS_THROUGH and its like
    "pass_through": 0,
    "log1p_raw": 1,
    "normalize_log1p": 2,
    "pflog_raw": 3,
}

_WHO = "collate_gathered"
_ID_MAX = 2**31 - 1


def collate_cellset_gathered(
    indptr: npt.ArrayLike,
    indices: npt.ArrayLike,
    data: npt.ArrayLike,
    set_offsets: npt.ArrayLike,
    cell_indices: npt.ArrayLike,
    file_ids: npt.ArrayLike,
    role_tags: npt.ArrayLike,
    k_dec: int,
    query_gene_ids: npt.ArrayLike,
    enc_mask_positions: npt.ArrayLike | None,
    hide_readout: npt.ArrayLike | None,
    n_measured: npt.ArrayLike | None,
    k_enc: int,
    mode: CollateMode,
    n_genes_total: int,
    target_sum: float = 1e4,
    lib_size_redef: bool = False,  # noqa: FBT001, FBT002 - the published order of arguments
    pflog_alpha: float | None = None,
    query_offsets: npt.ArrayLike | None = None,
    *,
    shape: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Collate the rows of gathered cell sets into stacked arrays of fixed width.

    For each row there are `k_enc` encoder tokens and `k_dec` target values.

    *Encoder.* The positive genes of the row are ranked by raw count, ties by gene id, and cropped
    at `k_enc`. Of those, the genes that the row's query marks in `enc_mask_positions` are dropped;
    the others move left, and the slots that are left over are PAD (`n_genes_total + 1`): no gene
    from beyond the crop comes in. Where all of them are dropped, or `hide_readout` says so, there
    is one GENE_MASK token (`n_genes_total`) with mask 1; where the row has no positive gene, one
    with mask 0.

    *Target.* The row's value at each gene of its query, 0 for genes that it does not hold.

    Negative counts and NaN are 0. By `mode` the values are

    - "pass_through": the counts, in encoder and target;
    - "log1p_raw": ln(1 + count) in the encoder, counts in the target;
    - "normalize_log1p": ln(1 + count * target_sum / total) in both, with the total over all genes
      of the row;
    - "pflog_raw": ln(1 + 4 a count) less its sum over the row's genes divided by `n_measured` in
      the encoder, counts in the target.

    Parameters
    ----------
    indptr, indices, data
        The batch in CSR, as `SparseCellSetDataset` gives it, or of any integer or float dtype:
        gene ids non-negative, strictly ascending in each row and below `n_genes_total`.
    set_offsets
        Where each set begins among the rows, from 0, and the number of rows at the end.
    cell_indices, file_ids, role_tags
        One entry for each row; passed through.
    k_dec
        Target values of a row.
    query_gene_ids
        The genes asked for: (n_sets, k_dec), shared by the rows of a set, or the same flat. With
        `query_offsets` flat and as many as each row has. An id that no row holds has value 0.
    enc_mask_positions
        True where the encoder may not see the gene: parallel to `query_gene_ids`, or, without
        `query_offsets`, (n_rows, k_dec), flat or not, so that rows of a set hide different genes.
        Where both are as long, it is parallel to `query_gene_ids`. A gene that is listed twice is
        dropped when either is marked. None or empty for nowhere.
    hide_readout
        True for rows (or, without `query_offsets`, for sets) whose encoder part is hidden as a
        whole. None or empty for none.
    n_measured
        For "pflog_raw": how many genes were measured, at least 1; for each set, or for each row
        with `query_offsets`. None or empty with another mode.
    k_enc
        Encoder tokens of a row.
    mode
        How values are changed.
    n_genes_total
        Size of the vocabulary.
    target_sum
        For "normalize_log1p": positive, and finite as float32.
    lib_size_redef
        Let `library_size` be the total over the query's entries, instead of all genes of the row.
        Values are not concerned.
    pflog_alpha
        For "pflog_raw": the overdispersion a, positive, and finite as float32.
    query_offsets
        Rows + 1 entries: the query genes of row i are those from query_offsets[i] to
        query_offsets[i + 1]. Rows with fewer than `k_dec` are padded. None for a query of each set.
    shape
        The rows and columns of the batch, as `SparseCellSetDataset` gives them, so that its batch
        can be passed as `**batch`: there must be as many rows, and at most `n_genes_total` columns.

    Returns
    -------
    dict
        Flat arrays, row after row: ``encoder_gene_ids`` (int32), ``encoder_counts`` (float32),
        ``encoder_mask`` and ``encoder_pad_mask`` (uint8), each ``n_rows * k_enc``;
        ``target_counts`` (float32) and ``target_pad_mask`` (uint8), each ``n_rows * k_dec``;
        ``library_size`` (float64, ``n_rows``), of clipped raw counts; ``cell_indices``,
        ``file_ids``, ``role_tags`` and ``set_offsets`` as given; and the numbers ``n_rows``,
        ``k_enc`` and ``k_dec``.

    Raises
    ------
    ValueError
        Beginning with "collate_gathered:": an argument is out of range, a length does not fit,
        gene ids are out of order, or the result is larger than memory; rows are named.
    TypeError
        An argument holds something else than numbers.
    """
    batch = csr_rows(indptr, indices, data, who=_WHO)
    n_rows = batch.n_rows
    offsets = _offsets(set_offsets, "set_offsets")
    if len(offsets) == 0:
        raise ValueError(f"{_WHO}: set_offsets is empty, but it has one entry more than sets")
    n_sets = len(offsets) - 1
    given = {"cell_indices": cell_indices, "file_ids": file_ids, "role_tags": role_tags}
    passed = {name: _of_rows(value, name, n_rows) for name, value in given.items()}
    widths = {
        "k_enc": arguments.whole_number(k_enc, "k_enc", lowest=1, highest=_ID_MAX, who=_WHO),
        "k_dec": arguments.whole_number(k_dec, "k_dec", lowest=1, highest=_ID_MAX, who=_WHO),
    }
    n_genes = arguments.whole_number(n_genes_total, "n_genes_total", lowest=1, who=_WHO)
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"{_WHO}: mode={mode!r} must be one of {', '.join(map(repr, MODES))}")
    query = _query_genes(_flat(query_gene_ids, "query_gene_ids", widths["k_dec"]))
    row_starts = None if query_offsets is None else _offsets(query_offsets, "query_offsets")
    if row_starts is not None:
        _check_length(row_starts, "query_offsets", n_rows + 1, "n_rows + 1")
    if shape is not None and (shape[0] != n_rows or shape[1] > n_genes):
        raise ValueError(
            f"{_WHO}: shape={shape} does not fit {n_rows} rows and n_genes_total={n_genes}"
        )
    marks = _flags(
        _flat(enc_mask_positions, "enc_mask_positions", widths["k_dec"]), "enc_mask_positions"
    )
    hidden = _hidden(hide_readout, offsets, n_rows, by_set=row_starts is None)
    measured = None if n_measured is None else _offsets(n_measured, "n_measured")
    if measured is not None and len(measured) == 0 and mode != "pflog_raw":
        measured = None
    if measured is not None:
        if row_starts is None:
            _check_length(measured, "n_measured", n_sets, "one for each set")
        else:
            _check_length(measured, "n_measured", n_rows, "one for each row")
    options = binding.new_struct(
        "scx_collate_options",
        mode=MODES[mode],
        lib_size_redef=arguments.flag(lib_size_redef, "lib_size_redef"),
        set_offsets=binding.input_array(offsets, np.int64, "set_offsets"),
        n_sets=n_sets,
        n_genes_total=n_genes,
        target_sum=_number(target_sum, "target_sum"),
        pflog_alpha=0.0 if pflog_alpha is None else _number(pflog_alpha, "pflog_alpha"),
        query_gene_ids=binding.input_array(query, np.int32, "query_gene_ids"),
        enc_mask_positions=_pointer(marks, "enc_mask_positions"),
        query_offsets=_pointer(row_starts, "query_offsets"),
        n_query=len(query),
        hide_readout=_pointer(hidden, "hide_readout"),
        n_measured=_pointer(measured, "n_measured"),
        n_marks=0 if marks is None else len(marks),
        **widths,
    )
    check_room(
        n_rows * (10 * widths["k_enc"] + 5 * widths["k_dec"] + 8),
        what=f"{_WHO}: k_enc={widths['k_enc']} and k_dec={widths['k_dec']} for {n_rows} rows",
        advice="take fewer cell sets at a time, or smaller widths",
    )
    arrays = _outputs(n_rows, **widths)
    collated = binding.new_struct(
        "scx_collated",
        **{name: binding.output_array(array, array.dtype, name) for name, array in arrays.items()},
    )
    binding.call("scx_collate_cell_sets", batch.pointer(), options, collated)
    return {**arrays, **passed, "set_offsets": offsets, "n_rows": n_rows, **widths}


def _outputs(n_rows: int, *, k_enc: int, k_dec: int) -> dict[str, npt.NDArray[Any]]:
    encoder, target = n_rows * k_enc, n_rows * k_dec
    return {
        "encoder_gene_ids": np.empty(encoder, dtype=np.int32),
        "encoder_counts": np.empty(encoder, dtype=np.float32),
        "encoder_mask": np.empty(encoder, dtype=np.uint8),
        "encoder_pad_mask": np.empty(encoder, dtype=np.uint8),
        "target_counts": np.empty(target, dtype=np.float32),
        "target_pad_mask": np.empty(target, dtype=np.uint8),
        "library_size": np.empty(n_rows, dtype=np.float64),
    }


def _offsets(value: Any, argument: str) -> npt.NDArray[np.int64]:
    return whole_numbers(value, np.int64, argument, who=_WHO)


def _of_rows(value: Any, argument: str, n_rows: int) -> npt.NDArray[Any]:
    array = vector(value, argument, who=_WHO)
    _check_length(array, argument, n_rows, "one for each row")
    return array


def _check_length(array: npt.NDArray[Any], argument: str, length: int, reason: str) -> None:
    if len(array) != length:
        raise ValueError(
            f"{_WHO}: {argument} has {len(array)} entries, but {length} are needed ({reason})"
        )


def _flat(value: Any, argument: str, k_dec: int) -> Any:
    """A table of `k_dec` columns row after row; anything else as it is."""
    array = np.asanyarray([] if value is None else value)  # a masked array stays one
    if array.ndim != 2:
        return array
    if array.size and array.shape[1] != k_dec:
        raise ValueError(
            f"{_WHO}: {argument} has shape {array.shape}, but a table has k_dec={k_dec} columns"
        )
    return array.ravel()


def _query_genes(value: Any) -> npt.NDArray[np.int32]:
    array = vector(value, "query_gene_ids", who=_WHO)
    if array.dtype != np.int32 and array.dtype.kind in "iu" and array.dtype.itemsize >= 4:
        # No row holds them either way; so they need not fit into 32 bits.
        array = np.where((array < 0) | (array > _ID_MAX), -1, array)
        return np.ascontiguousarray(array, dtype=np.int32)
    return whole_numbers(array, np.int32, "query_gene_ids", who=_WHO)


def _flags(value: Any, argument: str) -> npt.NDArray[np.uint8] | None:
    """Numbers or booleans as 0 and 1; None where there are none."""
    array = np.asanyarray([] if value is None else value)
    array = vector(array.ravel() if array.ndim == 2 else array, argument, who=_WHO)
    if array.size == 0:
        return None
    if array.dtype.kind not in "biu":
        raise TypeError(f"{_WHO}: {argument} has dtype {array.dtype}, but booleans are needed")
    return np.ascontiguousarray(array != 0).view(np.uint8)


def _hidden(
    value: Any, set_offsets: npt.NDArray[np.int64], n_rows: int, *, by_set: bool
) -> npt.NDArray[np.uint8] | None:
    hidden = _flags(value, "hide_readout")
    if hidden is None or len(hidden) == n_rows:
        return hidden
    n_sets = len(set_offsets) - 1
    widths = np.diff(set_offsets)
    if by_set and len(hidden) == n_sets and (widths >= 0).all() and widths.sum() == n_rows:
        return np.repeat(hidden, widths)
    _check_length(hidden, "hide_readout", n_rows, "one for each row")
    return hidden


def _number(value: Any, argument: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{_WHO}: {argument}={value!r} must be a number") from None


def _pointer(array: npt.NDArray[Any] | None, argument: str) -> Any:
    if array is None:
        return binding.native().ffi.NULL
    return binding.input_array(array, array.dtype, argument)
