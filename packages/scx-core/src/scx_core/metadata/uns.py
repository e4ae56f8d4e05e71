"""uns as JSON, with envelopes for what JSON has no word for.

None, booleans, text, finite floats and integers of up to 64 bits are themselves, lists and
mappings with text keys are arrays and objects. All else is an object with the key `__scx__`, whose
value is the kind:

| kind | more keys | what |
|---|---|---|
| dict | items: pairs of key and value | a mapping with the key `__scx__` or `__scx_type__` |
| tuple, set, frozenset | items | |
| bytes | value: base64 | |
| int | hex | integers beyond 64 bits |
| float | bits: hex, big-endian | infinities and NaN |
| complex | bits | |
| numpy | as ndarray, shape `[]` | a numpy scalar |
| numpy.str, numpy.bytes | value | numpy's text and bytes |
| ndarray | dtype, shape, data or items or fields (see `_uns_arrays`); record | |
| sparse | class, shape, data, indices, indptr | CSR and CSC of scipy |
| dataframe | data: base64 of the Arrow IPC file; columns: an index, unless distinct text | |
| series | data, name | |
| index, array, moment | data | pandas' Index, arrays, Timestamp and Timedelta |
| NA, NaT | | pandas' missing values |
| datetime, time, date | value: ISO; zone, fold | |
| timedelta | parts: days, seconds, microseconds | |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scx_core._user_warnings import warn_user

from ._decoding import decoding
from ._uns_decode import decode_value
from ._uns_encode import Encoder

PROBLEMS_SHOWN = 20


def encode_uns(uns: Mapping[str, Any], *, strict: bool = False, where: str = "uns") -> bytes:
    """uns as JSON in UTF-8, from which `decode_uns` makes an equal dict.

    Held are None, booleans, numbers, text, bytes, lists, tuples, sets and mappings with text keys;
    numpy scalars and arrays of all dtypes of fixed meaning, structured ones and object arrays of
    anything held here too; CSR and CSC matrices of scipy; pandas frames, Series, indexes of one
    level, arrays, timestamps and missing values; standard dates and times. Subclasses of Python's
    own types come back as these.

    Parameters
    ----------
    uns
        The mapping; it is not changed.
    strict
        False (the default) leaves out what cannot be stored, with one `UserWarning` for each
        entry; True raises instead.
    where
        What messages call the mapping.

    Raises
    ------
    ValueError
        With `strict`, for entries that cannot be stored; it names them all by their path.

    Warns
    -----
    UserWarning
        An entry cannot be stored: its full path, such as `uns['a']['b'][2]`, and why. When it lies
        in a list or an array, the whole entry around that is left out.
    """
    encoder = Encoder()
    content = encoder.encode(uns, where)
    if encoder.problems and strict:
        shown = "; ".join(problem for problem, _ in encoder.problems[:PROBLEMS_SHOWN])
        more = len(encoder.problems) - PROBLEMS_SHOWN
        raise ValueError(shown if more <= 0 else f"{shown}; and {more} more")
    for problem, what in encoder.problems:
        warn_user(f"{problem}; {what} is left out")
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def decode_uns(buffer: Any, *, where: str = "uns") -> dict[str, Any]:
    """The dict of `encode_uns`.

    Parameters
    ----------
    buffer
        Anything with the buffer protocol. The result owns its memory.
    where
        What messages call the mapping.

    JSON of other writers comes back as Python reads it, unless it has objects with the key
    `__scx__`. Their own envelopes, with the key `__scx_type__`, are decoded too: see
    `_uns_published`. One of an unknown kind stays a dict, with an `ScxWarning`.

    Raises
    ------
    ValueError
        The bytes are no JSON object, or an envelope is damaged or of an unknown kind; the message
        names its path.
    """
    with decoding(f"{where} cannot be read"):
        content = json.loads(bytes(memoryview(buffer)).decode())
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        value = decode_value(content, where)
        if not isinstance(value, dict):
            raise ValueError("it is no mapping")
        return value
