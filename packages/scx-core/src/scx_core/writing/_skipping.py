"""Parts of an experiment that are left out of its file, because the user says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from scx_core._errors import NameNotFoundError
from scx_core._names import did_you_mean
from scx_core._user_warnings import warn_user
from scx_core._value_types import VALUE_TYPES, WIDENED, stored_dtype
from scx_core.metadata import encode_embedding, encode_frame, encode_pairwise
from scx_core.sources.base import ExperimentContent, MatrixSource, ModalityContent
from scx_core.sources.unreadable import UnknownEncodingError

if TYPE_CHECKING:
    import pandas as pd

UNSTORABLE = "unstorable"
PARTS_SHOWN = 20

# what is said to be left out: "obsm/airr", and of a modality "mod/rna/obsm/airr"
COMPONENTS: dict[str, Callable[[Any, int, str], bytes]] = {
    "obsm": encode_embedding,
    "varm": encode_embedding,
    "obsp": encode_pairwise,
    "varp": encode_pairwise,
}


def skipped_names(skip: str | Iterable[str]) -> frozenset[str]:
    """`skip` as the user gave it, as a set; TypeError where it holds something else than text."""
    names = [skip] if isinstance(skip, str) else list(skip)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"skip={name!r} must be text, such as 'obsm/airr'")
    return frozenset(names)


def part_path(label: str) -> str:
    """`mod['rna'].obsm['airr']`, as messages call a part, as `skip` takes it."""
    parts = re.findall(r"([A-Za-z.]+)\[('.*?'|\".*?\")\](?=\.|$)", label)
    return "/".join(f"{kind.lstrip('.').replace('.', '/')}/{key[1:-1]}" for kind, key in parts)


def check_dtype(source: MatrixSource, label: str) -> None:
    """Raise TypeError where a file cannot hold the values of a matrix, called `label`."""
    if stored_dtype(source.dtype) is None:
        known = ", ".join([*VALUE_TYPES, *WIDENED])
        text = f"{label} has dtype {source.dtype}, which a .scx file cannot hold exactly: "
        with skippable(_matrix_path(label)):
            raise TypeError(f"{text}convert it to one of {known}")


def _matrix_path(label: str) -> str:
    """As `part_path`, of a matrix: raw goes with all that belongs to it."""
    if label.endswith("]"):
        return part_path(label)
    last = "raw" if label.endswith("raw.X") else "X"
    return "/".join(filter(None, [part_path(label), last]))


@contextmanager
def skippable(name: str) -> Iterator[None]:
    """Let errors about a part that cannot be stored or read say how to do without it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kinds = (TypeError, ValueError, UnknownEncodingError)  # and no other kinds of these
        if type(error) not in kinds or "skip=" in str(error):
            raise
        said = str(error).rstrip(".")
        raise type(error)(f"{said}; or leave it out, with skip={name!r}") from error


def encoded_frame(frame: pd.DataFrame, where: str) -> bytes:
    """The bytes of a table; an error about a column says how to do without it."""
    try:
        return encode_frame(frame, where=where)
    except (TypeError, ValueError):
        for column, error in _bad_columns(frame, where):
            with skippable(part_path(f"{where}[{str(column)!r}]")):
                raise error from None
        raise


def without_skipped(content: ExperimentContent, skip: frozenset[str]) -> None:
    """Take the parts of `skip` out of `content`, and with "unstorable" all that cannot be stored.

    The names of cells and genes are no such parts.

    Raises
    ------
    KeyError
        There is no such part; near ones are listed.

    Warns
    -----
    ScxWarning
        A part cannot be stored and is left out.
    """
    skipping = _Skipping(skip)
    for name, modality in content.modalities.items():
        skipping.take_from(modality, f"mod/{name}/" if name else "", len(content.obs))
    content.obs = skipping.columns(content.obs, "obs", "obs")
    if content.var is not None:
        content.var = skipping.columns(content.var, "var", "var")
    n_shared = 0 if content.var is None else len(content.var)
    skipping.components(content, "", len(content.obs), n_shared)
    content.uns = skipping.members(content.uns, "uns")
    skipping.check_names()


class _Skipping:
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names - {UNSTORABLE}
        self._drops_unstorable = UNSTORABLE in names
        self._there: set[str] = set()

    def take_from(self, modality: ModalityContent, prefix: str, n_obs: int) -> None:
        n_cells = n_obs if modality.obs is None else len(modality.obs)
        self.components(modality, prefix, n_cells, len(modality.var))
        modality.layers = dict(self.members(modality.layers, f"{prefix}layers"))
        label = prefix and f"mod[{prefix.split('/')[1]!r}]."
        if self._drops_unstorable:
            _drop_unstorable(modality, label)
        modality.uns = self.members(modality.uns, f"{prefix}uns")
        if modality.X is not None:
            self._there.add(f"{prefix}X")
            if f"{prefix}X" in self._names:
                modality.X = None
        modality.var = self.columns(modality.var, f"{prefix}var", f"{label}var")
        if modality.obs is not None:
            modality.obs = self.columns(modality.obs, f"{prefix}obs", f"{label}obs")
        if modality.raw_var is not None:
            self._there.add(f"{prefix}raw")
            if f"{prefix}raw" in self._names:
                modality.raw_X, modality.raw_var, modality.raw_varm = None, None, {}
                return
            raw_varm = self.members(modality.raw_varm, f"{prefix}raw/varm")
            modality.raw_varm = cast("dict[str, Any]", raw_varm)
            modality.raw_var = self.columns(modality.raw_var, f"{prefix}raw/var", f"{label}raw.var")

    def components(self, holder: Any, prefix: str, n_cells: int, n_vars: int) -> None:
        """Take members out of obsm, varm, obsp and varp, where `holder` has them."""
        for kind, encode in COMPONENTS.items():
            length = n_cells if kind.startswith("obs") else n_vars
            kept = self.members(getattr(holder, kind), f"{prefix}{kind}")
            if self._drops_unstorable:
                kept = {
                    key: kept[key]
                    for key in kept
                    if self._is_storable(partial(kept.__getitem__, key), encode, length, kind, key)
                }
            setattr(holder, kind, kept)

    def members(self, held: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """Those that stay; none is loaded for that."""
        names = {f"{path}/{key}": key for key in held}
        self._there |= set(names)
        if not self._names.intersection(names):
            return held
        return _Without(held, {key for name, key in names.items() if name in self._names})

    def columns(self, frame: pd.DataFrame, path: str, where: str) -> pd.DataFrame:
        """The table without the columns that are left out."""
        self._there |= {f"{path}/{column}" for column in frame.columns}
        left = [column for column in frame.columns if f"{path}/{column}" in self._names]
        kept = frame.drop(columns=left) if left else frame
        if not self._drops_unstorable:
            return kept
        bad = list(_bad_columns(kept, where))
        for _column, error in bad:
            warn_user(f"{error} The column is left out")
        return kept.drop(columns=[column for column, _error in bad]) if bad else kept

    def _is_storable(
        self,
        load: Callable[[], Any],
        encode: Callable[[Any, int, str], bytes],
        length: int,
        kind: str,
        key: str,
    ) -> bool:
        try:
            encode(load(), length, f"{kind}[{key!r}]")
        except (TypeError, ValueError) as error:
            warn_user(f"{error} The entry {kind}/{key} is left out")
            return False
        return True

    def check_names(self) -> None:
        for name in sorted(self._names - self._there):
            some = ", ".join(sorted(self._there)[:PARTS_SHOWN])
            near = did_you_mean(name, self._there) or (some and f"; there are {some}")
            raise NameNotFoundError(f"skip: there is no part {name!r}{near}")


def _drop_unstorable(modality: ModalityContent, label: str) -> None:
    """Take out layers and raw that cannot be read or held; X is not left out by itself."""
    for key, layer in list(modality.layers.items()):
        if _is_unstorable(layer, f"{label}layers[{key!r}]"):
            del modality.layers[key]
    if modality.raw_X is not None and _is_unstorable(modality.raw_X, f"{label}raw.X"):
        modality.raw_X, modality.raw_var, modality.raw_varm = None, None, {}


def _is_unstorable(source: MatrixSource, label: str) -> bool:
    try:
        check_dtype(source, label)
    except (TypeError, ValueError) as error:
        warn_user(f"{error.__cause__ or error}; {_matrix_path(label)} is left out")
        return True
    return False


class _Without(Mapping[str, Any]):
    """A mapping without some of its keys, whose values are loaded as before."""

    def __init__(self, held: Mapping[str, Any], left_out: set[str]) -> None:
        self._held = held
        self._keys = [key for key in held if key not in left_out]

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self._held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _bad_columns(frame: pd.DataFrame, where: str) -> Iterator[tuple[Any, Exception]]:
    """The columns that cannot be stored, and why."""
    for place, column in enumerate(frame.columns):
        try:
            encode_frame(frame.iloc[:, [place]], where=where)
        except (TypeError, ValueError) as error:
            yield column, error
