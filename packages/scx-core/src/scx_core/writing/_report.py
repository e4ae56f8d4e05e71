"""What a conversion tells about the matrices it read, in one warning for each kind of finding."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scx_core._user_warnings import ScxWarning, warn_user

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Findings", "Report", "ScxWarning"]

logger = logging.getLogger("scx_core")


@dataclass
class Findings:
    """Counts for one matrix."""

    unsorted_rows: int = 0
    duplicate_entries: int = 0
    explicit_zeros: int = 0
    non_finite_values: int = 0
    first_non_finite: str = ""

    def mended(self) -> list[str]:
        """What was changed to make rows canonical, in words."""
        return [
            f"{count} {what}"
            for count, what in (
                (self.duplicate_entries, "repeated entries added up"),
                (self.explicit_zeros, "stored zeros dropped"),
                (self.unsorted_rows, "rows put into column order"),
            )
            if count
        ]


@dataclass
class Report:
    """The findings of all matrices, by the name a user would give each.

    `cells` are the names of the file's rows.
    """

    cells: pd.Index[Any]
    matrices: dict[str, Findings] = field(default_factory=dict)

    def of(self, label: str) -> Findings:
        """The findings of one matrix, to be added to."""
        return self.matrices.setdefault(label, Findings())

    def warn(self) -> None:
        """One `ScxWarning` for NaN and infinity, one for entries that were joined or dropped.

        Rows that were only out of order hold the same values as before: they are logged.
        """
        non_finite = [
            f"{label} ({findings.non_finite_values}"
            f"{findings.first_non_finite and ', the first in ' + findings.first_non_finite})"
            for label, findings in self.matrices.items()
            if findings.non_finite_values
        ]
        if non_finite:
            warn_user("NaN or infinite values were kept as they are, in " + ", ".join(non_finite))
        mended = []
        for label, findings in self.matrices.items():
            if findings.duplicate_entries or findings.explicit_zeros:
                mended.append(f"{label}: {', '.join(findings.mended())}")
            elif findings.mended():
                logger.info("%s: %s", label, ", ".join(findings.mended()))
        if mended:
            warn_user("matrices were made canonical; " + "; ".join(mended))
