"""The .scx file as a container: sections, modalities, and shards that are filled row by row.

Thin classes over the file and writer functions of scx.h. What sections mean is known elsewhere.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scx_core._closing import Closing
from scx_core.native import binding
from scx_core.native.binding import CData, call, native
from scx_core.native.file_writer import FileWriter, Mended, total_mended

__all__ = [
    "FileInfo",
    "FileReader",
    "FileWriter",
    "Mended",
    "Modality",
    "Section",
    "ShardEncoding",
    "ShardInfo",
    "total_mended",
]

VERIFY = 1  # SCX_OPEN_VERIFY
GENERATIONS_BACK_MAX = (1 << 16) - 1  # the upper half of the flags


@dataclass(frozen=True)
class FileInfo:
    """What the header says, and counts of what the catalog lists."""

    format_version: int
    catalog_version: int
    flags: int
    file_bytes: int
    n_obs: int
    n_vars: int
    nnz: int
    manifest_sequence: int
    shard_target_rows: int
    n_sections: int
    n_modalities: int
    n_unknown_sections: int


@dataclass(frozen=True)
class ShardInfo:
    """The catalog's statistics of a shard; ends are exclusive.

    `value_min`, `value_max` and `value_sum` mean something for integer values alone.
    """

    row_start: int
    row_end: int
    column_start: int
    column_end: int
    nnz: int
    value_min: int
    value_max: int
    value_sum: int


@dataclass(frozen=True)
class ShardEncoding:
    """How a shard stores its values: numbers of the format."""

    codec: int
    value_type: int


@dataclass(frozen=True)
class Section:
    """One section of a file; `index` is its place in the catalog."""

    index: int
    name: str
    section_type: int
    modality_id: int
    offset: int
    length: int
    blake3: bytes
    shard: ShardInfo | None


@dataclass(frozen=True)
class Modality:
    """One modality of a multimodal file; ids count from 1, id 0 is what all share."""

    modality_id: int
    name: str
    modality_type: int
    codec: int
    value_type: int
    n_vars: int
    nnz: int
    n_csr_shards: int


class FileReader(Closing):
    """A .scx file that is open for reading; threads may share it.

    The file is mapped into memory, not read. `close` gives the map back once nothing that was
    taken from it (`section_bytes`, matrices) is in use any more. To put another file in its place,
    rename that one: who overwrites the file itself makes whatever reads from it fail.

    Parameters
    ----------
    path
        The file.
    verify
        Check what is read: a section against its hash the first time it is used, rows against
        their checksums.
    generations_back
        How many generations before the last one are shown; 0 is the last one. `FileWriter.change`
        makes generations.

    Raises
    ------
    CorruptFileError
        When the file is damaged or cut off.
    KeyError
        When the file does not hold so many generations.
    ValueError
        When it needs something that this version cannot do.
    OSError
        When it cannot be opened.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, verify: bool = True, generations_back: int = 0
    ) -> None:
        if not 0 <= generations_back <= GENERATIONS_BACK_MAX:
            raise ValueError(
                f"generations_back is {generations_back}; 0 to {GENERATIONS_BACK_MAX} are allowed"
            )
        raw_path = binding.path_bytes(path)
        self.path = os.fspath(path)
        self.verify = verify
        library = native()
        out = library.ffi.new("scx_file **")
        flags = (VERIFY if verify else 0) | generations_back << 16
        call("scx_file_open", raw_path, flags, out, path=self.path)
        self._handle: CData | None = binding.owned(out[0], library.lib.scx_file_close)
        self._checked: set[int] = set()

    @property
    def handle(self) -> CData:
        """The `scx_file` pointer. Who passes it on keeps it, so that the file stays mapped."""
        if self._handle is None:
            raise RuntimeError(f"{self.path}: the file is closed")
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._handle is None

    @functools.cached_property
    def info(self) -> FileInfo:
        """Shape, counts and versions."""
        struct = binding.new_struct("scx_file_info")
        call("scx_file_get_info", self.handle, struct, path=self.path)
        fields = FileInfo.__dataclass_fields__
        return FileInfo(**{name: int(getattr(struct, name)) for name in fields})

    @functools.cached_property
    def sections(self) -> tuple[Section, ...]:
        """Every section in the order of the catalog."""
        return tuple(self.section(index) for index in range(self.info.n_sections))

    def section(self, index: int) -> Section:
        """One section, without listing the others; IndexError beyond the last."""
        struct = self._section_struct(index)
        return Section(
            index=index,
            name=_name(struct),
            section_type=int(struct.section_type),
            modality_id=int(struct.modality_id),
            offset=int(struct.offset),
            length=int(struct.length),
            blake3=bytes(native().ffi.buffer(struct.blake3)),
            shard=_shard_info(struct) if struct.has_shard_stats else None,
        )

    def shard_encoding(self, index: int) -> ShardEncoding:
        """How a shard stores its values; ValueError for a section that is no shard.

        This reads the shard's first page, which `sections` does not.
        """
        codec, value_type = (native().ffi.new("uint32_t *") for _ in range(2))
        call(
            "scx_file_get_shard_encoding",
            self.handle,
            _section_index(index),
            codec,
            value_type,
            path=self.path,
        )
        return ShardEncoding(int(codec[0]), int(value_type[0]))

    @functools.cached_property
    def modalities(self) -> tuple[Modality, ...]:
        """The modalities; none in a single-modality file."""
        return tuple(self._modality(index) for index in range(self.info.n_modalities))

    def declare_columns(self, modality_id: int, n_vars: int) -> None:
        """Say how many genes a modality has whose `n_vars` is 0, as early files have it.

        Its matrices can be opened then. ValueError where the file itself says how many.
        """
        call("scx_file_declare_columns", self.handle, modality_id - 1, n_vars, path=self.path)
        for name in ("info", "modalities"):
            self.__dict__.pop(name, None)

    def find(self, section_type: int, name: str, *, modality_id: int = 0) -> Section | None:
        """The section of that type, name and modality, or None."""
        handle = self.handle
        out = native().ffi.new("uint32_t *")
        raw_name = binding.name_bytes(name, "name")
        try:
            call(
                "scx_file_find_section",
                handle,
                int(section_type),
                modality_id,
                raw_name,
                out,
                path=self.path,
            )
        except KeyError:
            return None
        return self.section(int(out[0]))

    def section_bytes(self, index: int, *, verify: bool | None = None) -> memoryview:
        """The bytes of a section, straight from the map: read-only, nothing is copied.

        The view keeps the file mapped, also after `close`. See `expect_unchanged`.

        Parameters
        ----------
        index
            Place in `sections`.
        verify
            Compare the bytes with their hash when this section is used for the first time;
            None: as the file was opened.
        """
        handle = self.handle
        struct = self._section_struct(index)
        if (self.verify if verify is None else verify) and index not in self._checked:
            self.verify_section(index)
        if struct.length == 0:
            return memoryview(b"")
        ffi = native().ffi
        # the buffer keeps this pointer, the pointer keeps the file
        data = binding.keeping(ffi.cast("uint8_t *", struct.data), handle)
        return memoryview(ffi.buffer(data, struct.length)).toreadonly()

    def row_range_ends(self) -> npt.NDArray[np.int64]:
        """The ends (exclusive) of the row ranges that deletion vectors count in, ascending.

        The first range starts at row 0. They are those of the shards of X, else of other shards.
        ValueError where the shards of another writer do not follow one another.
        """
        count = native().ffi.new("uint64_t *")
        null = native().ffi.NULL
        call("scx_file_get_row_ranges", self.handle, null, 0, count, path=self.path)
        ends = np.empty(int(count[0]), dtype=np.uint64)
        pointer = binding.output_array(ends, np.uint64, "ends")
        call("scx_file_get_row_ranges", self.handle, pointer, len(ends), count, path=self.path)
        return ends.astype(np.int64)

    def deleted_rows(self) -> npt.NDArray[np.int64]:
        """The rows that are marked as deleted, int64, ascending.

        Raises CorruptFileError when the file's deletion vectors are damaged.
        """
        count = native().ffi.new("uint64_t *")
        call("scx_file_count_deleted", self.handle, count, path=self.path)
        rows = np.empty(int(count[0]), dtype=np.int64)
        pointer = binding.output_array(rows, np.int64, "rows")
        call("scx_file_get_deleted", self.handle, pointer, len(rows), path=self.path)
        return rows

    def verify_section(self, index: int) -> None:
        """Compare a section with its hash; CorruptFileError when they differ."""
        call("scx_file_verify_section", self.handle, _section_index(index), path=self.path)
        self._checked.add(index)

    def verify_checksum(self) -> None:
        """Compare the whole file with the header's checksum; CorruptFileError when they differ."""
        call("scx_file_verify_checksum", self.handle, path=self.path)

    def expect_unchanged(self) -> None:
        """Refuse what was read from `section_bytes` if the file has been overwritten since.

        To be called when the bytes have been used: those of a file that was cut in place, or that
        a disk could not deliver, are zeros. Rows and verified sections are looked at by themselves.
        What `mark_deleted` adds is no such change, nor is a file that was renamed over this one.

        Raises
        ------
        FileBusyError
            The file was cut or overwritten in place since it was opened.
        OSError
            The disk failed.
        """
        call("scx_file_expect_unchanged", self.handle, path=self.path)

    def close(self) -> None:
        """Forget the file. Views and matrices that were taken from it stay valid."""
        self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.info.n_sections} sections"
        return f"FileReader('{self.path}', {state})"

    def _section_struct(self, index: int) -> CData:
        struct = binding.new_struct("scx_section_info")
        call("scx_file_get_section", self.handle, _section_index(index), struct, path=self.path)
        return struct

    def _modality(self, index: int) -> Modality:
        struct = binding.new_struct("scx_modality_info")
        call("scx_file_get_modality", self.handle, index, struct, path=self.path)
        return Modality(
            modality_id=index + 1,
            name=_name(struct),
            modality_type=int(struct.modality_type),
            codec=int(struct.codec_id),
            value_type=int(struct.value_type),
            n_vars=int(struct.n_vars),
            nnz=int(struct.nnz),
            n_csr_shards=int(struct.n_csr_shards),
        )


def _section_index(index: int) -> int:
    if not 0 <= index < 2**32:
        raise IndexError(f"section {index} does not exist")
    return int(index)


def _name(struct: CData) -> str:
    raw = native().ffi.buffer(struct.name, struct.name_bytes)[:]
    assert isinstance(raw, bytes)
    return raw.decode("utf-8")


def _shard_info(struct: CData) -> ShardInfo:
    return ShardInfo(
        row_start=int(struct.row_start),
        row_end=int(struct.row_end),
        column_start=int(struct.column_start),
        column_end=int(struct.column_end),
        nnz=int(struct.nnz),
        value_min=int(struct.value_min),
        value_max=int(struct.value_max),
        value_sum=int(struct.value_sum),
    )
