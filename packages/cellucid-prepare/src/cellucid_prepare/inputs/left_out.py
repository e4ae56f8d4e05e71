"""What the data holds and an output does not, named in the log."""

from __future__ import annotations

from collections.abc import Mapping

from cellucid_prepare.checks.names import LOG

COLOURS = "_colors"


def tell_left_out(names_of: Mapping[str, list[str]]) -> None:
    """Log the members that are left out, by kind, such as ``layers`` or ``mod['rna'].layers``."""
    told: list[str] = []
    colours: list[str] = []
    for kind, names in names_of.items():
        others = names
        if kind.endswith("uns"):
            others = [name for name in names if not name.endswith(COLOURS)]
            colours += [name for name in names if name.endswith(COLOURS)]
        if others:
            told.append(f"{kind} ({', '.join(others)})")
    if told:
        LOG.warning("left out, since viewers do not read it: %s", ", ".join(told))
    if colours:
        LOG.warning(
            "the colours in uns (%s) are left out: the layout that viewers read has no place for "
            "them, and viewers choose their own",
            ", ".join(dict.fromkeys(colours)),
        )
