"""The values of the expression matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cellucid_prepare._faults import Faults
from cellucid_prepare.matrix.expression import Expression, Judged, judged
from scx_core.writing._blocks import first_non_finite


def check_expression(
    expression: Expression, where: str, faults: Faults, genes: Sequence[str] = ()
) -> Judged | None:
    """The matrix, once its values are known to be finite float32, those of all its genes.

    `genes` are the names of the genes in the output, where they are known.
    """
    dtype = expression.source.dtype
    if dtype.kind not in "biuf":
        faults.add_type(where, f"holds values of type {dtype}", "it takes real numbers")
        return None
    if expression.n_cells > 2**31 - 1:
        faults.add(where, "has more than 2,147,483,647 cells", "write it in parts")
        return None
    try:
        result = judged(expression)
    except IndexError:
        faults.add(
            where,
            "is damaged: it has values beyond its cells or genes",
            "build it anew",
        )
        return None
    scan = result.scan
    found = {
        "NaN": scan.nan_values,
        "+Inf": scan.positive_infinities,
        "-Inf": scan.negative_infinities,
        "beyond the range of float32": scan.beyond_f32,
    }
    wrong = sum(found.values())
    if wrong:
        parts = ", ".join(f"{count:,} {what}" for what, count in found.items() if count)
        faults.add(
            where,
            f"values must be finite float32, and {parts} are not{_first(expression, genes)}",
            "replace them, for instance by 0",
            n_cells=wrong,
        )
        return None
    return result


def _first(expression: Expression, genes: Sequence[str]) -> str:
    """Where the first value is that is no finite float32, for messages."""
    for row, block in expression.blocks():
        with np.errstate(over="ignore"):
            narrow = replace(block, values=block.values.astype(np.float32))
        if expression.places is not None:  # genes that are left out may have any values
            kept = expression.places[block.indices] >= 0
            narrow = replace(narrow, values=np.where(kept, narrow.values, 0))
        place = first_non_finite(narrow)
        if place is not None:
            column = place[1] if expression.places is None else int(expression.places[place[1]])
            gene = repr(genes[column]) if len(genes) else str(column)
            return f", the first in row {row + place[0]}, gene {gene}"
    return ""
