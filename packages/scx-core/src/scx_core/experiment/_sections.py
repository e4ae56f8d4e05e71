"""The sections of an open file, found by what they hold, and their bytes decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from scx_core._errors import CorruptFileError
from scx_core._section_names import SHARD_NAME, SectionType, key_of
from scx_core.metadata import decode_frame, merge_frame_shards, read_index
from scx_core.native.container import FileReader, Section

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")


class Sections:
    """What a file has, by section type and modality."""

    def __init__(self, file: FileReader) -> None:
        self.file = file
        self._groups: dict[tuple[int, int], list[Section]] = {}
        for section in file.sections:
            group = self._groups.setdefault((section.section_type, section.modality_id), [])
            group.append(section)

    def of(self, section_type: SectionType, modality_id: int) -> list[Section]:
        """All sections of a type, in the order of the catalog."""
        return self._groups.get((section_type, modality_id), [])

    def unknown_types(self) -> list[int]:
        """Section types that this version does not know, ascending."""
        known = set(SectionType)
        return sorted({kind for kind, _ in self._groups if kind not in known})

    def bytes_of(self, section: Section) -> memoryview:
        """A section's bytes, from the map."""
        return self.file.section_bytes(section.index)

    def table(
        self, whole: SectionType, row_shards: SectionType | None, modality_id: int
    ) -> tuple[Any, str] | None:
        """The bytes of a frame that lies in one section or in row shards, and a name for it.

        None when the file has neither; CorruptFileError when it has both.
        """
        single = self.of(whole, modality_id)
        shards = self.of(row_shards, modality_id) if row_shards is not None else []
        if not single and not shards:
            return None
        if len(single) > 1 or (single and shards):
            name = single[0].name
            raise self.damage(name, "the file has this table more than once")
        if single:
            return self.bytes_of(single[0]), single[0].name
        name = shards[0].name
        parts = [self.bytes_of(shard) for shard in shards]
        return self.decoded(name, lambda: merge_frame_shards(parts, where=name)), name

    def frame(self, table: tuple[Any, str], n_rows: int | None = None) -> pd.DataFrame:
        """A fresh copy of obs or var, of `n_rows` if given. Entries without names get numbers."""
        buffer, name = table
        frame = self.decoded(name, partial(decode_frame, buffer, copy=True, where=name))
        if n_rows is not None:
            self.check_length(name, frame, n_rows)
        if frame.index.dtype.kind in "iu":
            frame.index = frame.index.astype(str)  # as AnnData would have it
        return frame

    def names(self, table: tuple[Any, str], n_rows: int | None = None) -> npt.NDArray[np.object_]:
        """The names that `frame` would have, read without pandas."""
        buffer, name = table
        names = self.decoded(name, partial(read_index, buffer, where=name))
        if n_rows is not None:
            self.check_length(name, names, n_rows)
        if len(names) and isinstance(names[0], int):
            return names.astype(str).astype(object)
        return names

    def members(
        self,
        whole: SectionType,
        row_shards: SectionType | None,
        modality_id: int,
        kind: str,
        modality: str,
    ) -> dict[str, Callable[[], tuple[Any, str]]]:
        """For each key of obsm and the like: a function that gives its bytes and its name."""
        found: dict[str, Callable[[], tuple[Any, str]]] = {}
        for section in self.of(whole, modality_id):
            key = self.decoded(section.name, partial(key_of, section.name, kind, modality))
            found[key] = partial(self._whole, section)
        if row_shards is None:
            return found
        by_key: dict[str, list[Section]] = {}
        for section in self.of(row_shards, modality_id):
            match = SHARD_NAME.fullmatch(section.name)
            base = section.name if match is None else match["matrix"]
            key = self.decoded(section.name, partial(key_of, base, kind, modality))
            by_key.setdefault(key, []).append(section)
        for key, shards in by_key.items():
            if key in found:
                raise self.damage(shards[0].name, f"{kind} has the key {key!r} more than once")
            found[key] = partial(self._merged, shards)
        return found

    def _whole(self, section: Section) -> tuple[Any, str]:
        return self.bytes_of(section), section.name

    def _merged(self, shards: list[Section]) -> tuple[Any, str]:
        name = shards[0].name
        parts = [self.bytes_of(shard) for shard in shards]
        return self.decoded(name, lambda: merge_frame_shards(parts, where=name)), name

    def check_length(self, section_name: str, decoded: Sized, expected: int) -> None:
        """Refuse a table with another number of rows than the file's header promises."""
        if len(decoded) != expected:
            raise self.damage(section_name, f"it has {len(decoded)} rows instead of {expected}")

    def damage(self, section_name: str, message: str) -> CorruptFileError:
        """An error that names the file and the section."""
        return CorruptFileError(message, path=self.file.path, section=section_name)

    @contextmanager
    def decoding(self, section_name: str) -> Iterator[None]:
        """Turn the ValueError of a decoder into the file's: its bytes are damaged.

        FileBusyError, where the file was overwritten while its bytes were read.
        """
        try:
            yield
        except CorruptFileError:
            raise
        except ValueError as error:
            self.file.expect_unchanged()
            raise self.damage(section_name, str(error)) from error
        self.file.expect_unchanged()

    def decoded(self, section_name: str, decode: Callable[[], Value]) -> Value:
        """What `decode` gives; its ValueError as the file's damage."""
        with self.decoding(section_name):
            return decode()
