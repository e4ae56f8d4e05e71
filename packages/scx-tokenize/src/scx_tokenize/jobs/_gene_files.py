"""Tables of genes that users give: tokens, medians, synonyms and lists."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from scx_core._paths import StrPath, local_path

Table: TypeAlias = Mapping[str, Any]
GeneTable: TypeAlias = StrPath | Mapping[str, Any]
GeneList: TypeAlias = StrPath | Sequence[str]

PICKLES = (".pkl", ".pickle")
TEXT = "utf-8-sig"  # UTF-8, also with the mark that some editors put in front
GENE_COLUMNS = ("gene", "gene_id", "ensembl_id", "id")


def read_table(
    given: GeneTable, argument: str, *, values: Sequence[str], allow_pickle: bool
) -> Table:
    """A table with an entry for each gene.

    Parameters
    ----------
    given
        A mapping; or a file: JSON with one object, Parquet with a column of text and one of
        values, or a pickled dict where `allow_pickle`.
    argument
        Its name, for messages.
    values
        Names that the column of values may have in Parquet, where there are several columns.
    allow_pickle
        Read pickles too: by an unpickler that makes nothing but dicts, texts and numbers.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is something else; the file is named, and what is in it.
    """
    if isinstance(given, Mapping):
        return _checked(given, argument)
    path = Path(local_path(given, argument))
    if not path.is_file():
        raise FileNotFoundError(f"{argument}: there is no file {path}")
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        if not allow_pickle:
            raise ValueError(
                f"{argument}: {path} is a pickle, which can run any code: turn it into JSON where "
                "you trust it, or pass allow_pickle=True to have its dict, texts and numbers read "
                "and everything else refused"
            )
        from ._restricted_pickle import load_pickle

        return _checked(load_pickle(path), f"{argument}: {path}")
    if suffix == ".parquet":
        return _checked(_from_parquet(path, argument, values), f"{argument}: {path}")
    if suffix != ".json":
        raise ValueError(
            f"{argument}: {path} is of no known kind: expected are .json, .parquet and, with "
            "allow_pickle=True, .pkl"
        )
    return _checked(_from_json(path, argument), f"{argument}: {path}")


def read_list(given: GeneList, argument: str) -> list[str]:
    """A list of genes: a sequence, a JSON array, or a text file with one on each line.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It holds something else, or nothing.
    """
    if isinstance(given, str | os.PathLike):
        path = Path(local_path(given, argument))
        if not path.is_file():
            raise FileNotFoundError(f"{argument}: there is no file {path}")
        if path.suffix.lower() == ".json":
            names = _from_json(path, argument)
        else:
            names = _lines(path, argument)
        where = f"{argument}: {path}"
    else:
        names, where = list(given), argument
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{where} holds something else than a list of names")
    if not names:
        raise ValueError(f"{where} is empty: name at least one gene")
    return names


def _lines(path: Path, argument: str) -> list[str]:
    try:
        lines = path.read_text(TEXT).splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{argument}: {path} is no text in UTF-8 with a gene on each line: {error}"
        ) from None
    return [line.strip() for line in lines if line.strip()]


def _each_once(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(entries)
    if len(result) < len(entries):
        names = [name for name, _ in entries]
        raise _NamedTwice(_twice(names))
    return result


class _NamedTwice(Exception):
    """A name that an object of JSON has more than once."""


def _twice(names: Sequence[Any]) -> Any:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _from_json(path: Path, argument: str) -> Any:
    try:
        return json.loads(path.read_text(TEXT), object_pairs_hook=_each_once)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{argument}: {path} is no JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{argument}: {path} is no table: it is nested too deep") from None
    except _NamedTwice as error:
        raise ValueError(f"{argument}: {path} has {error.args[0]!r} more than once") from None


def _from_parquet(path: Path, argument: str, values: Sequence[str]) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{argument}: {path} cannot be read as Parquet: {error}") from None
    kinds = {field.name: field.type for field in table.schema}
    texts = [name for name, kind in kinds.items() if _is_text(kind)]
    numbers = [name for name, kind in kinds.items() if name not in texts]
    wanted = [name for name in texts if name in values] or numbers or texts[1:]
    gene = _one_of(texts, GENE_COLUMNS)
    value = _one_of([name for name in wanted if name != gene], values)
    if gene is None or value is None:
        described = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none"
        raise ValueError(
            f"{argument}: {path} has the columns {described}; expected are one of text, or named "
            f"{' or '.join(GENE_COLUMNS)}, and one of values, or named {' or '.join(values)}"
        )
    genes, entries = table[gene].to_pylist(), table[value].to_pylist()
    result = dict(zip(genes, entries, strict=True))
    if len(result) < len(genes):
        raise ValueError(f"{argument}: {path} has the gene {_twice(genes)!r} more than once")
    # a statistic may be unknown for genes that were seen in no cell
    return {name: entry for name, entry in result.items() if entry is not None}


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def _one_of(names: Iterable[str], preferred: Sequence[str]) -> str | None:
    there = list(names)
    return next(
        (name for name in preferred if name in there), there[0] if len(there) == 1 else None
    )


def _checked(table: Any, where: str) -> Table:
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} holds {type(table).__name__}, not an entry for each gene")
    for name in table:
        if not isinstance(name, str):
            raise ValueError(f"{where} has the key {name!r}; names of genes are text")
    if not table:
        raise ValueError(f"{where} is empty")
    return table
