"""Time zones as text: names such as Europe/Berlin, UTC, and fixed offsets such as UTC+02:00."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ._refusals import refuse_dtype

if TYPE_CHECKING:
    import datetime

    import pandas as pd

# A zone's name is also a path below the machine's zone data: nothing may lead out of there.
ZONE = re.compile(r"(UTC)?[+-]\d\d:\d\d|[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def zone_tag(dtype: pd.DatetimeTZDtype, where: str) -> dict[str, Any]:
    """What must be kept beside the zone's name so that the same kind of object comes back.

    Raises
    ------
    TypeError
        The zone has no name by which it could be found again.
    """
    import pandas as pd

    for tag in ({}, {"zoneinfo": True}):
        try:
            found = zone_from_text(str(dtype.tz), tag)
            if pd.DatetimeTZDtype(dtype.unit, found) == dtype:
                return tag
        except (ValueError, KeyError):  # the errors of pandas, pytz and zoneinfo for no such zone
            continue
    refuse_dtype(dtype, where, f'name its time zone first, with {where}.dt.tz_convert("UTC")')


def zone_from_text(text: str, tag: dict[str, Any]) -> str | datetime.tzinfo:
    """What to give to pandas as the time zone of this name.

    Raises
    ------
    ValueError
        The text is no zone's name.
    """
    if not ZONE.fullmatch(text) or text.startswith("dateutil/"):
        raise ValueError(f"{text!r} is no name of a time zone")
    if not tag.get("zoneinfo"):
        return text
    import zoneinfo

    return zoneinfo.ZoneInfo(text)
