"""The reference codec is a codec: what it encodes comes back."""

import numpy as np
import pytest
import scipy.sparse as sp

from bench import reference_codec


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.float32, np.float64])
def test_round_trip(dtype: type) -> None:
    values = np.random.default_rng(0).integers(0, 250, 1000).astype(dtype)
    encoded = reference_codec.encode(values)
    np.testing.assert_array_equal(reference_codec.decode(encoded, dtype, 1000), values)


def test_layout_before_compression() -> None:
    """Two values of two bytes: low bytes 1, 3, high bytes 2, 0; each less the one before it."""
    import pyarrow as pa

    encoded = reference_codec.encode(np.array([0x0201, 0x0003], "<u2"))
    plain = pa.Codec("zstd").decompress(encoded, decompressed_size=4).to_pybytes()
    assert list(plain) == [1, 2, 255, 254]


def test_narrowest() -> None:
    assert reference_codec.narrowest(np.array([1.0, 255.0])).dtype == np.uint8
    assert reference_codec.narrowest(np.array([1.0, 256.0])).dtype == np.uint16
    assert reference_codec.narrowest(np.array([1.0, 65536.0])).dtype == np.uint32
    for unchanged in ([0.5], [-1.0], [float("nan")], [2.0**32]):
        assert reference_codec.narrowest(np.array(unchanged)).dtype == np.float64
    assert reference_codec.column_type(65_536) == np.uint16
    assert reference_codec.column_type(65_537) == np.uint32


def test_sizes_add_up_over_groups() -> None:
    counts = sp.random(700, 900, density=0.1, format="csr", random_state=0, dtype=np.float32)
    counts.data = np.ceil(counts.data * 300)
    whole = reference_codec.measure(iter([counts]))
    halves = reference_codec.measure(iter([counts[:512], counts[512:]]))
    assert whole == halves
    assert whole.stored == counts.nnz
    assert 0 < whole.best_total <= whole.total < counts.nnz * 8
