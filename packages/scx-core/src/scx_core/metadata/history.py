"""What other writers put into the provenance section: the steps by which a file was made.

u8 version 1, u32 number of steps; each: i64 Unix seconds, u16 and the action, u16 and the tool,
u32 and its parameters (JSON), u8 number of checksums of 32 bytes each.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

VERSION = 1
CHECKSUM_BYTES = 32


@dataclass(frozen=True)
class Step:
    """What was done with a file: when, if it is known, by which tool and with which parameters.

    `seconds` are those of Unix, `parameters` JSON or "".
    """

    seconds: int | None
    action: str
    tool: str
    parameters: str

    def told(self) -> dict[str, str | None]:
        """The step with its time as text, in UTC."""
        time = None if self.seconds is None else f"{np.datetime64(self.seconds, 's')}Z"
        return {
            "time": time,
            "action": self.action,
            "tool": self.tool,
            "parameters": self.parameters,
        }


def read_history(encoded: bytes) -> list[Step]:
    """The steps, the first one first; ValueError when the bytes are no such list."""
    if encoded[:1] != bytes([VERSION]):
        raise ValueError("it is neither a JSON object nor a list of steps that this version knows")
    place = 1

    def take(length: int) -> bytes:
        nonlocal place
        place += length
        if place > len(encoded):
            raise ValueError(f"its list of steps ends behind its {len(encoded)} bytes")
        return encoded[place - length : place]

    def number(form: str) -> int:
        return int(struct.unpack(form, take(struct.calcsize(form)))[0])

    def text(form: str) -> str:
        return take(number(form)).decode()

    steps = []
    for _ in range(number("<I")):
        steps.append(Step(number("<q"), text("<H"), text("<H"), text("<I")))
        take(number("<B") * CHECKSUM_BYTES)
    if place != len(encoded):
        raise ValueError(f"{len(encoded) - place} bytes lie behind its list of steps")
    return steps
