"""The genes that a model knows: their tokens, in the order of these, and their statistics."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from scx_core._genes import without_version

from ._gene_files import Table

TOKEN_MAX = 2**31 - 1
# 2^24 times as much is a float32 too: the statistic of unknown genes, see `_tokens`.
STATISTIC_MAX = 1e30


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What tokens stand for. A gene's place is where it stands here.

    Attributes
    ----------
    names
        Ids of genes, in the order of their tokens.
    tokens
        int32, ascending.
    statistics
        float32, what each gene is divided by for ranks; None where nothing is.
    special_tokens
        Tokens that are no gene's, such as "<pad>".
    """

    names: tuple[str, ...]
    tokens: npt.NDArray[np.int32]
    statistics: npt.NDArray[np.float32] | None = None
    special_tokens: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def special(self, name: str | None) -> int | None:
        """The number of a special token; None stays None."""
        return None if name is None else self.special_tokens[name]

    @property
    def digest(self) -> str:
        """What stands for the contents: equal for equal vocabularies."""
        parts = hashlib.sha256()
        parts.update("\0".join(self.names).encode("utf-8", "surrogatepass"))
        parts.update(self.tokens.astype("<i4").tobytes())
        if self.statistics is not None:
            parts.update(self.statistics.astype("<f4").tobytes())
        parts.update(repr(sorted(self.special_tokens.items())).encode())
        return parts.hexdigest()


def make_vocabulary(
    tokens: Table | None,
    statistics: Table | None,
    names: Sequence[str] | None = None,
    *,
    special: Sequence[str] = (),
    append_special: bool = False,
) -> Vocabulary:
    """The vocabulary of a job.

    Parameters
    ----------
    tokens
        The number of each gene and of special tokens, whose names are in angle brackets; None
        numbers the genes of `statistics`, or else `names`, from 0.
    statistics
        A number for each gene. Genes that are not in both are unknown.
    names
        Genes, where neither is given.
    special
        The special tokens that are needed.
    append_special
        Give those that are missing the numbers behind the largest one.

    Raises
    ------
    ValueError
        A number is wrong, two genes have one, no gene is in both, or a special token is missing.
    """
    if tokens is None:
        genes = list(statistics) if statistics is not None else list(names or ())
        tokens = {name: number for number, name in enumerate(genes)}
    numbers = {name: _token(name, number) for name, number in tokens.items()}
    specials = {name: number for name, number in numbers.items() if is_special(name)}
    free = max(numbers.values(), default=-1) + 1
    for name in special:
        if name in specials:
            continue
        if not append_special:
            there = ", ".join(map(repr, specials)) or "none"
            raise ValueError(
                f"token_dictionary: it has no special token {name!r}, which is needed; those it "
                f"has: {there}"
            )
        specials[name], free = free, free + 1
    genes = [name for name in numbers if name not in specials]
    if statistics is not None:
        _refuse_special(statistics)
        known = _plain(statistics, "gene_medians")
        genes = [name for name in genes if without_version(name) in known]
        if not genes:
            raise ValueError(
                f"no gene is both in token_dictionary (such as {_first(numbers, specials)}) and in "
                f"gene_medians (such as {next(iter(statistics))!r})"
            )
    if not genes:
        raise ValueError("token_dictionary: it has no gene")
    genes.sort(key=numbers.__getitem__)
    _refuse_shared_numbers(genes, numbers, specials)
    _plain(dict.fromkeys(genes), "token_dictionary")
    return Vocabulary(
        names=tuple(genes),
        tokens=np.array([numbers[name] for name in genes], dtype=np.int32),
        statistics=None if statistics is None else _statistics(genes, known),
        special_tokens=specials,
    )


def is_special(name: str) -> bool:
    """Whether a token is no gene's."""
    return name.startswith("<") and name.endswith(">")


def _refuse_special(statistics: Table) -> None:
    """Medians with special tokens are a token dictionary, whose numbers would pass for medians."""
    for name in statistics:
        if is_special(name):
            raise ValueError(
                f"gene_medians: it has the special token {name!r}, as a token dictionary has: give "
                "the table with the median of each gene"
            )


def _token(name: str, number: Any) -> int:
    try:
        token = operator.index(number)
    except TypeError:
        token = -1
    if isinstance(number, bool) or not 0 <= token <= TOKEN_MAX:
        raise ValueError(
            f"token_dictionary: {name!r} has {number!r}; tokens are whole numbers from 0 to "
            f"{TOKEN_MAX}"
        )
    return token


def _plain(table: Table, argument: str) -> dict[str, Any]:
    """The table by ids without versions."""
    result: dict[str, Any] = {}
    first: dict[str, str] = {}
    for name, value in table.items():
        plain = without_version(name)
        if plain in first:
            raise ValueError(
                f"{argument}: it has both {first[plain]!r} and {name!r}; versions of ids do not "
                "count"
            )
        first[plain], result[plain] = name, value
    return result


def _statistics(genes: Sequence[str], known: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    values = [known[without_version(name)] for name in genes]
    for name, value in zip(genes, values, strict=True):
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or not 0 < np.float32(value) <= STATISTIC_MAX:
            raise ValueError(
                f"gene_medians: {name!r} has {value!r}; medians are numbers above 0 and up to "
                f"{STATISTIC_MAX:g}"
            )
    return np.array(values, dtype=np.float32)


def _refuse_shared_numbers(
    genes: Sequence[str], numbers: Mapping[str, int], specials: Mapping[str, int]
) -> None:
    owners = {number: name for name, number in specials.items()}
    for name in genes:
        other = owners.setdefault(numbers[name], name)
        if other != name:
            raise ValueError(
                f"token_dictionary: it gives {numbers[name]} to both {other!r} and {name!r}; to "
                "count them as one gene, name one of them in gene_synonyms as the other"
            )


def _first(numbers: Mapping[str, int], specials: Mapping[str, int]) -> str:
    return repr(next((name for name in numbers if name not in specials), None))
