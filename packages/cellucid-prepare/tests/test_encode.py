"""Encoded chunks against independent decoders: zlib, gzip, and c-blosc in numcodecs."""

import gzip
import os
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import blosc

from cellucid_prepare.encode.codecs import Wrapping, chunk_streams
from cellucid_prepare.encode.native import deflate_streams

WIDTHS = (1, 2, 4, 8)


def plain_chunks(values, chunk, shuffle):
    """What decoders have to find: chunks filled up with zeros, as byte planes where asked."""
    whole = np.zeros(-(-len(values) // chunk) * chunk, values.dtype)
    whole[: len(values)] = values
    chunks = whole.reshape(-1, chunk)
    if not shuffle:
        return [part.tobytes() for part in chunks]
    return [part.view(np.uint8).reshape(chunk, values.itemsize).T.tobytes() for part in chunks]


def check(values, chunk):
    """Encode in every way and decode again."""
    for shuffle in (True, False):
        expected = plain_chunks(values, chunk, shuffle)
        zlibbed = chunk_streams(values, chunk, shuffle=shuffle, wrapping=Wrapping.ZLIB)
        gzipped = chunk_streams(values, chunk, shuffle=shuffle, wrapping=Wrapping.GZIP)
        for plain, one, two in zip(expected, zlibbed, gzipped, strict=True):
            decoder = zlib.decompressobj()
            assert decoder.decompress(one) == plain
            assert decoder.eof and not decoder.unused_data
            assert gzip.decompress(two) == plain
    plain = plain_chunks(values, chunk, shuffle=False)
    frames = chunk_streams(values, chunk, shuffle=True, wrapping=Wrapping.BLOSC)
    for part, frame in zip(plain, frames, strict=True):
        assert blosc.decompress(frame) == part
        n_bytes, compressed, _ = blosc._cbuffer_sizes(frame)
        assert (n_bytes, compressed) == (len(part), len(frame))
        assert blosc._cbuffer_metainfo(frame)[:2] == (values.itemsize, 1)


def inflated(stream):
    """What a DEFLATE stream without a wrapping holds; it ends where the bytes end."""
    decoder = zlib.decompressobj(-15)
    plain = decoder.decompress(stream)
    assert decoder.eof and not decoder.unused_data
    return plain


def test_an_array_without_values_has_no_chunks():
    assert chunk_streams(np.empty(0, "i4"), 5, shuffle=True, wrapping=Wrapping.ZLIB) == []
    assert chunk_streams(np.empty(0, "f4"), 5, shuffle=False, wrapping=Wrapping.GZIP) == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 127, 128, 129, 1000, 70_000])
def test_every_kind_of_plane(width, n):
    dtype = np.dtype(f"u{width}")
    rng = np.random.default_rng(n)
    top = np.iinfo(dtype).max
    samples = {
        "zeros": np.zeros(n, dtype),
        "constant": np.full(n, top - 3, dtype),
        "random": rng.integers(0, top, n, dtype, endpoint=True),
        "sorted": np.sort(rng.integers(0, top, n, dtype, endpoint=True)),
        "counting": np.arange(n).astype(dtype),
        "few": rng.geometric(0.6, n).astype(dtype),
        "periodic": (np.arange(n) % 7).astype(dtype),
        "two values": rng.integers(0, 2, n).astype(dtype) * dtype.type(top),
        "skewed": np.minimum(rng.zipf(1.3, n), 250).astype(dtype),
    }
    for values in samples.values():
        for chunk in {n, max(1, n // 2 + 1), n + 5}:
            check(values, chunk)


def test_counts_of_every_number_of_different_values():
    rng = np.random.default_rng(1)
    for n_different in (1, 2, 3, 255, 256):
        for dtype in ("f4", "f8"):
            values = rng.integers(0, n_different, 20_000).astype(dtype)
            values[:n_different] = np.arange(n_different)
            (stream,) = deflate_streams(values, len(values))
            assert inflated(stream) == values.tobytes()
            check(values, 16_384)
    values = np.arange(257, dtype="f4")
    assert deflate_streams(values, 257) == [None]
    check(values, 257)


@pytest.mark.parametrize(("width", "n"), [(4, 2_500_000), (8, 1_200_000)])
def test_one_value_again_and_again(width, n):
    (stream,) = deflate_streams(np.zeros(n, f"u{width}"), n)
    assert inflated(stream) == bytes(n * width)


@pytest.mark.parametrize("width", [1, 2, 16])
def test_other_widths_are_refused(width):
    with pytest.raises(ValueError, match="must be 4 or 8"):
        deflate_streams(np.zeros(5, f"V{width}"), 5)


@settings(max_examples=150, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.tuples(st.binary(min_size=1, max_size=6), st.integers(1, 700)).map(
                lambda pair: pair[0] * pair[1]
            ),
            st.tuples(st.integers(0, 2**32), st.integers(1, 3000), st.integers(1, 256)).map(
                lambda drawn: (
                    np.random.default_rng(drawn[0])
                    .integers(0, drawn[2], drawn[1], np.uint8)
                    .tobytes()
                )
            ),
        ),
        max_size=12,
    ),
    width=st.sampled_from(WIDTHS),
    chunk=st.integers(1, 5000),
)
def test_any_bytes_come_back(pieces, width, chunk):
    plain = b"".join(pieces)
    values = np.frombuffer(plain[: len(plain) // width * width], f"u{width}")
    if len(values):
        check(values, chunk)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), n_kinds=st.integers(1, 256), skew=st.floats(0.2, 8))
def test_any_counts_come_back(seed, n_kinds, skew):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(1 << 20, n_kinds, replace=False).astype("f4")
    values = kinds[(n_kinds * rng.random(rng.integers(1, 40_000)) ** skew).astype(int)]
    (stream,) = deflate_streams(values, len(values))
    assert inflated(stream) == values.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_chunk_does_not_depend_on_what_was_encoded_before(dtype):
    rng = np.random.default_rng(4)
    short = rng.geometric(0.6, 700).astype(dtype)
    (alone,) = deflate_streams(short, 1000)
    before = rng.integers(0, 200, 9000).astype(dtype)
    both = deflate_streams(np.concatenate([before, short]), 1000)
    assert both[-1] == alone


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    share=st.floats(0.3, 1),
    n=st.integers(1, 40_000),
    dtype=st.sampled_from(["f4", "f8", "i4"]),
)
def test_values_that_are_mostly_the_same_come_back(seed, share, n, dtype):
    rng = np.random.default_rng(seed)
    kinds = rng.integers(1, 1000, 20).astype(dtype)
    values = kinds[np.minimum(rng.geometric(share, n) - 1, 19)]
    # stretches that come again, cut anywhere
    for _ in range(5):
        length, to, start = rng.integers(0, n, 3) // 2
        values[to : to + length] = values[start : start + length].copy()
    check(values, 1 << 14)


def gene_like(rng):
    """Ascending cells of several genes, and their counts."""
    cells = [np.flatnonzero(rng.random(20_000) < share) for share in (0.5, 0.2, 0.1, 0.03)]
    counts = rng.geometric(0.6, sum(map(len, cells))).astype("f4")
    return np.concatenate(cells).astype("i4"), counts


def test_streams_are_no_larger_than_those_of_zlib():
    cells, counts = gene_like(np.random.default_rng(2))
    ones = np.minimum(np.random.default_rng(5).geometric(0.85, 60_000), 5).astype("f4")
    sparse = np.concatenate(
        [np.flatnonzero(np.random.default_rng(seed).random(20_000) < 0.1) for seed in range(50)]
    ).astype("i4")
    for values, shuffle in ((cells, True), (counts, False), (ones, False), (sparse, True)):
        streams = chunk_streams(values, 1 << 14, shuffle=shuffle, wrapping=Wrapping.ZLIB)
        ours = sum(len(stream) for stream in streams)
        theirs = sum(len(zlib.compress(part, 6)) for part in plain_chunks(values, 1 << 14, shuffle))
        assert ours <= theirs


def test_every_cpu_level_gives_the_same_bytes():
    script = """
import hashlib, sys
import numpy as np
from cellucid_prepare.encode.native import deflate_streams
rng = np.random.default_rng(3)
hashed = hashlib.sha256()
for dtype in ("f4", "f8"):
    counts = rng.geometric(0.7, 30_000).astype(dtype)
    for stream in deflate_streams(counts, 1 << 14):
        hashed.update(stream)
print(hashed.hexdigest())
"""
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "SCX_SIMD_LEVEL": level},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for level in ("v2", "v3", "v4")
    }
    assert len(seen) == 1
