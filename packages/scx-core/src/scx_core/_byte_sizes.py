"""Amounts of memory as people write them."""

from __future__ import annotations

import re

UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    # what most tools mean by the bare letter
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}


def parse_bytes(size: int | str, argument: str) -> int:
    """`size` in bytes: an integer, or a text such as "512MiB", "2 GB" or "1.5G".

    Raises
    ------
    ValueError
        The text is no amount, or the amount is below one byte; the message names `argument`.
    """
    if isinstance(size, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", size)
        unit = UNITS.get(match.group(2).upper()) if match else None
        if match is None or unit is None:
            raise ValueError(
                f"{argument}={size!r} is not an amount of memory: give bytes as an integer, "
                'or a text such as "512MiB" or "2GiB"'
            )
        amount = int(float(match.group(1)) * unit)
    elif isinstance(size, bool) or not isinstance(size, int):
        raise ValueError(f"{argument} must be an integer or a text, not {type(size).__name__}")
    else:
        amount = size
    if amount < 1:
        raise ValueError(f"{argument}={size!r} must be at least one byte")
    return amount


def format_bytes(amount: int | float) -> str:
    """`amount` bytes for people: "1.5 GB"."""
    value = float(amount)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
