"""The generator of all random draws by the text of its definition: no code of the packages."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MASK = 2**64 - 1


def splitmix64(x: int) -> int:
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def key_of(stream: int) -> tuple[int, ...]:
    state, words = stream, []
    for _ in range(8):
        state = (state * 6364136223846793005 + 11634580027462260723) & MASK
        shifted = (((state >> 18) ^ state) >> 27) & 0xFFFFFFFF
        turn = state >> 59
        words.append(((shifted >> turn) | (shifted << (32 - turn))) & 0xFFFFFFFF)
    return tuple(words)


def words_of(stream: int) -> Iterator[int]:
    """ChaCha with 8 rounds by the text of its definition, one block after the other."""
    constants = struct.unpack("<4I", b"expand 32-byte k")
    key = key_of(stream)
    block = 0
    while True:
        start = [*constants, *key, block & 0xFFFFFFFF, block >> 32, 0, 0]
        state = list(start)
        for _ in range(4):
            for a, b, c, d in (
                (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
            ):  # fmt: skip
                for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    state[x] = (state[x] + state[y]) & 0xFFFFFFFF
                    mixed = state[z] ^ state[x]
                    state[z] = ((mixed << turn) | (mixed >> (32 - turn))) & 0xFFFFFFFF
        for left, right in zip(state, start, strict=True):
            yield (left + right) & 0xFFFFFFFF
        block += 1


def stream_of(seed: int, *parts: int) -> int:
    """The number of a stream, from the seed and what tells it from others."""
    mixed = splitmix64(seed)
    for part in parts:
        mixed = splitmix64(mixed ^ part)
    return mixed


def below(words: Iterator[int], bound: int) -> int:
    """A draw from 0 to `bound` - 1."""
    low_max = (bound << (32 - bound.bit_length())) - 1
    while True:
        product = next(words) * bound
        if product & 0xFFFFFFFF <= low_max:
            return product >> 32


def shuffled(values: list[int], words: Iterator[int]) -> list[int]:
    """The values in the order of a shuffle with these words."""
    result = list(values)
    for place in range(len(result) - 1, 0, -1):
        other = below(words, place + 1)
        result[place], result[other] = result[other], result[place]
    return result
