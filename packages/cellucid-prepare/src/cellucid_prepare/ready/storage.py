"""Rules on how arrays are stored: codecs, and pieces of a size that suits one request."""

from __future__ import annotations

from cellucid_prepare.layout.chunks import (
    CELL_CHUNK_ELEMENTS,
    SLICED_CHUNK_ELEMENTS,
    WHOLE_CHUNK_ELEMENTS,
)
from cellucid_prepare.ready.report import PREPARE, Findings
from cellucid_prepare.ready.tree import StoredArray, StoredGroup, arrays_in, encoding, place

# arrays this small are one request in whatever way they are cut
SMALL_ELEMENTS = WHOLE_CHUNK_ELEMENTS
# beyond it a gene costs much more than its own values
SLICED_CHUNK_MAX = 8 * SLICED_CHUNK_ELEMENTS
# below it a gene is many requests
SLICED_CHUNK_MIN = SLICED_CHUNK_ELEMENTS // 16
# so many pieces of an array that is read whole are borne
PIECES_BORNE = 8


def check_codecs(root: StoredGroup, findings: Findings) -> None:
    """Every array can be decoded in a browser."""
    for array in arrays_in(root):
        if array.undecodable:
            findings.fault(
                place(array.path),
                f"is packed with {', '.join(array.undecodable)}, which browsers do not undo",
                "use gzip (or none), or " + PREPARE,
            )
        if array.is_sharded:
            findings.note(
                place(array.path),
                "is sharded: each piece needs a request for the shard's index first",
                "write one chunk a file",
            )


def check_pieces(array: StoredArray, findings: Findings) -> None:
    """An array that is read whole comes in few pieces."""
    wanted = -(-array.size // CELL_CHUNK_ELEMENTS)
    if array.n_chunks > PIECES_BORNE and array.n_chunks > 4 * wanted:
        findings.fault(
            place(array.path),
            f"is cut into {array.n_chunks:,} pieces, each of them a request",
            f"use chunks of {CELL_CHUNK_ELEMENTS:,} values, or {PREPARE}",
        )


def check_matrix(item: StoredArray | StoredGroup, findings: Findings) -> None:
    """X: by gene, in pieces of which a gene needs one or two."""
    if isinstance(item, StoredArray):
        _check_dense(item, findings)
        return
    where = place(item.path)
    kind = encoding(item)
    if kind == "csr_matrix":
        findings.fault(
            where,
            "is stored by cell (CSR): for one gene a browser must read all of it",
            f"store it by gene (CSC): {PREPARE}",
        )
    elif kind != "csc_matrix":
        findings.fault(where, f"is no matrix that viewers know ({kind or 'no encoding'})")
        return
    for name in ("data", "indices"):
        array = item.array(name)
        if array is not None:
            _check_sliced(array, findings)


def _check_sliced(array: StoredArray, findings: Findings) -> None:
    where = place(array.path)
    mend = f"use chunks of {SLICED_CHUNK_ELEMENTS:,} values, or {PREPARE}"
    if not array.is_packed and array.size > SMALL_ELEMENTS:
        findings.note(where, "is not compressed: there is more to fetch", PREPARE)
    if array.chunks is None:
        return
    length = array.chunks[0]
    if length > SLICED_CHUNK_MAX and array.size > SMALL_ELEMENTS:
        findings.fault(where, f"has chunks of {length:,} values, of which a gene needs few", mend)
    elif length < SLICED_CHUNK_MIN and array.n_chunks > PIECES_BORNE:
        findings.fault(where, f"has chunks of {length:,} values: a gene is many requests", mend)
    elif length > SLICED_CHUNK_ELEMENTS and array.size > SMALL_ELEMENTS:
        findings.note(where, f"has chunks of {length:,} values, more than a gene needs", mend)


def _check_dense(array: StoredArray, findings: Findings) -> None:
    if array.size <= SMALL_ELEMENTS:
        return
    where = place(array.path)
    n_cells = array.shape[0]
    if array.chunks is None:
        findings.fault(
            where,
            "is stored by cell, in one piece: for one gene a browser must read all of it",
            f"store strips of genes: {PREPARE}",
        )
        return
    pieces = -(-n_cells // array.chunks[0])
    read = pieces * array.chunks[0] * array.chunks[1]
    if pieces > PIECES_BORNE + n_cells // CELL_CHUNK_ELEMENTS:
        findings.fault(
            where,
            f"has chunks of {array.chunks[0]:,} cells: a gene is {pieces:,} requests",
            f"store strips of genes: {PREPARE}",
        )
    elif array.chunks[1] > 1 and read > max(4 * WHOLE_CHUNK_ELEMENTS, 4 * n_cells):
        findings.fault(
            where,
            f"has chunks of {array.chunks[1]:,} genes: for one of them a browser reads "
            f"{read:,} values",
            f"store strips of genes: {PREPARE}",
        )
