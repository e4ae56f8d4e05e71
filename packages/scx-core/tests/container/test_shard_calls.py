"""The shard functions as FileWriter offers them: what is checked before the library is called."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from scx_core.native.container import FileReader, FileWriter, Mended, total_mended

CSR = 4
ROWPACK = 64
U16, F32, F16 = 1, 3, 4


@pytest.fixture
def writer(tmp_path: Path):
    with FileWriter(tmp_path / "a.scx", n_obs=4, n_vars=6, codec=ROWPACK) as writer:
        yield writer
        writer.close()


def begin(writer: FileWriter, *, value_type: int = F32, n_rows: int = 4) -> None:
    writer.begin_shard(
        "X_shard_0",
        section_type=CSR,
        codec=ROWPACK,
        value_type=value_type,
        row_start=0,
        n_rows=n_rows,
        n_cols=6,
    )


def csr(dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [3: 1, 1: 2], [], [0: 0, 2: 5, 2: 6], [5: nan or 7]."""
    last = np.nan if dtype == "float32" else 7
    return (
        np.array([10, 12, 12, 15, 16]),
        np.array([3, 1, 0, 2, 2, 5], np.int32),
        np.array([1, 2, 0, 5, 6, last], dtype),
    )


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("codec", [0, ROWPACK])
def test_a_shard_in_two_calls(tmp_path: Path, walk, index_dtype: type, codec: int) -> None:
    path = tmp_path / "a.scx"
    indptr, indices, values = csr()
    indices = indices.astype(index_dtype)
    with FileWriter(path, n_obs=4, n_vars=6) as writer:
        writer.begin_shard(
            "X_shard_0",
            section_type=CSR,
            codec=codec,
            value_type=F32,
            row_start=0,
            n_rows=4,
            n_cols=6,
            threads=1,
        )
        first = writer.append_csr(indptr[:2], indices[:2], values[:2])
        second = writer.append_csr(indptr[1:], indices[2:], values[2:])
        writer.finish_shard()
    assert first == Mended(unsorted_rows=1)
    assert second == Mended(duplicate_entries=1, explicit_zeros=1, non_finite_values=1)
    total = total_mended([first, second])
    assert (total.unsorted_rows, total.duplicate_entries, total.negative_values) == (1, 1, 0)
    with FileReader(path) as reader:
        (section,) = reader.sections
        assert section.shard is not None
        assert (section.shard.row_start, section.shard.row_end) == (0, 4)
        assert (section.shard.column_start, section.shard.column_end) == (0, 6)
        assert section.shard.nnz == reader.info.nnz == 4
        encoding = reader.shard_encoding(0)
        assert (encoding.codec, encoding.value_type) == (codec, F32)
    walked = walk(path)
    assert walked.sections[0].data[:4] == b"SCXS"
    assert walked.header["n_csr_shards"] == 1 and walked.groups[0][4] == 4


def test_dense_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.scx"
    with FileWriter(path, n_obs=4, n_vars=6) as writer:
        begin(writer, value_type=F16)
        values = np.zeros((4, 6), np.float16)
        values[1, 2] = -1.5
        assert writer.append_dense(values) == Mended(negative_values=1, fractional_values=1)
        writer.finish_shard()
    with FileReader(path) as reader:
        assert reader.info.nnz == 1


def test_arrays_that_do_not_fit(writer: FileWriter) -> None:
    indptr, indices, values = csr("uint16")
    with pytest.raises(ValueError, match="no shard is open"):
        writer.append_csr(indptr, indices, values)
    with pytest.raises(ValueError, match="no shard is open"):
        writer.append_dense(np.zeros((4, 6), np.uint16))
    begin(writer, value_type=U16)
    with pytest.raises(TypeError, match="values has dtype"):
        writer.append_csr(indptr, indices, values.astype(np.uint32))
    with pytest.raises(TypeError, match="indices has dtype"):
        writer.append_csr(indptr, indices.astype(np.uint32), values)
    with pytest.raises(TypeError, match="indptr has dtype"):
        writer.append_csr(indptr.astype(np.int32), indices, values)
    with pytest.raises(ValueError, match="indptr decreases"):
        writer.append_csr(np.array([0, 7, 6]), indices, values)
    with pytest.raises(ValueError, match="indices has 5 entries, expected 6"):
        writer.append_csr(indptr, indices[:5], values)
    with pytest.raises(ValueError, match="values has 7 entries"):
        writer.append_csr(indptr, indices, np.zeros(7, np.uint16))
    with pytest.raises(ValueError, match="one dimension"):
        writer.append_csr(np.zeros(0, np.int64), indices[:0], values[:0])
    with pytest.raises(ValueError, match="contiguous"):
        writer.append_csr(indptr, np.zeros(12, np.int32)[::2], values)
    with pytest.raises(ValueError, match="expected \\(rows, 6\\)"):
        writer.append_dense(np.zeros((4, 5), np.uint16))
    # after all that the shard is as it was
    writer.append_csr(indptr, indices, values)
    writer.finish_shard()
    writer.finish()
    with FileReader(writer.path) as reader:
        assert reader.info.nnz == 4


def test_calls_in_the_wrong_order(writer: FileWriter) -> None:
    with pytest.raises(ValueError, match="shard"):
        writer.finish_shard()
    begin(writer)
    with pytest.raises(ValueError, match="shard"):
        begin(writer)
    with pytest.raises(ValueError, match="a section is being written"):
        writer.add_section("uns", b"{}", section_type=10)
    with pytest.raises(ValueError, match="rows"):
        writer.finish_shard()


def test_shards_do_not_go_in_as_plain_sections(writer: FileWriter) -> None:
    for section_type in (4, 5, 7, 9, 16, 27):
        with pytest.raises(ValueError, match="scx_shard_begin"):
            writer.add_section("X_shard_0", b"SCXS", section_type=section_type)


def test_closing_with_a_shard_open_drops_everything(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "b.scx", n_obs=4, n_vars=6)
    begin(writer)
    writer.append_csr(*csr())
    writer.close()
    assert os.listdir(tmp_path) == []
