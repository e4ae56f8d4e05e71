"""The values of the expression matrix."""

from __future__ import annotations

from cellucid_prepare._faults import Faults
from cellucid_prepare.matrix.expression import Expression, Judged, judged


def check_expression(expression: Expression, where: str, faults: Faults) -> Judged | None:
    """The matrix, once its values are known to be finite float32, those of all its genes."""
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
            f"values must be finite float32, and {parts} are not",
            "replace them, for instance by 0",
            n_cells=wrong,
        )
        return None
    return result
