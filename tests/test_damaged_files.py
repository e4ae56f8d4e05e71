"""A file with one wrong byte, or cut off, reads as before or says what is damaged.

The positions are spread over each section on its own, so that small sections get theirs.
"""

from __future__ import annotations

import os
from pathlib import Path

import anndata as ad
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core

POSITIONS_PER_SECTION = int(os.environ.get("SCX_DAMAGE_POSITIONS", "24"))


def sample() -> ad.AnnData:
    rng = np.random.default_rng(0)
    counts = sp.random(40, 30, 0.3, format="csr", rng=rng, dtype=np.float32)
    counts.data = np.ceil(counts.data * 5)
    adata = ad.AnnData(
        counts,
        obs=pd.DataFrame(
            {
                "cell_type": pd.Categorical(rng.choice(["B", "T"], 40)),
                "depth": rng.integers(0, 99, 40),
            },
            index=[f"cell{i}" for i in range(40)],
        ),
        var=pd.DataFrame(
            {"name": [f"n{i}" for i in range(30)]}, index=[f"g{i}" for i in range(30)]
        ),
    )
    adata.layers["log"] = counts.log1p()
    adata.layers["scattered"] = sp.csr_matrix(rng.normal(size=(40, 30)))
    adata.raw = adata.copy()
    adata.obsm["X_pca"] = rng.normal(size=(40, 3)).astype(np.float32)
    adata.varm["loadings"] = rng.normal(size=(30, 2))
    adata.obsp["graph"] = sp.random(40, 40, 0.1, format="csr", rng=rng)
    adata.uns["title"] = "a title"
    adata.uns["numbers"] = np.arange(5)
    return adata


def read_everything(path: Path) -> dict[str, bytes]:
    """What a user can see of the file, as bytes that can be compared."""
    seen: dict[str, bytes] = {}
    with scx_core.open(path) as experiment:
        adata = experiment.to_anndata()
        rows = experiment.gather_rows(np.arange(experiment.n_obs))
        seen["gathered"] = rows.indptr.tobytes() + rows.indices.tobytes() + rows.data.tobytes()
    seen["obs"] = adata.obs.to_csv().encode()
    seen["var"] = adata.var.to_csv().encode()
    matrices = {"X": adata.X, "raw": adata.raw.X, **adata.layers, **adata.obsp}
    matrices.pop(None, None)  # newer releases of anndata list X among the layers
    for name, matrix in matrices.items():
        kept = sp.csr_matrix(matrix)
        seen[name] = b"|".join(
            [
                str(kept.shape).encode(),
                kept.indptr.tobytes(),
                kept.indices.tobytes(),
                kept.data.tobytes(),
            ]
        )
    for name, array in {**adata.obsm, **adata.varm}.items():
        seen[name] = np.asarray(array).tobytes()
    seen["uns"] = repr(
        {key: np.asarray(value).tolist() for key, value in adata.uns.items()}
    ).encode()
    return seen


@pytest.fixture(scope="module", params=["rowpack", "none"])
def good(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "good.scx"
    scx_core.from_anndata(sample(), path, codec=request.param, shard_size=16, progress=False)
    return path


def places(path: Path) -> list[tuple[str, int, int]]:
    """Name, start and stop of every part of the file."""
    with scx_core.open(path) as experiment:
        parts = [(s["name"], s["offset"], s["offset"] + s["length"]) for s in experiment.sections()]
    last = max(stop for _, _, stop in parts)
    return [
        ("header", 0, 256),
        ("root catalog", 256, 4352),
        *parts,
        ("catalog", last, path.stat().st_size),
    ]


def test_one_wrong_byte(good, tmp_path):
    want = read_everything(good)
    content = good.read_bytes()
    rng = np.random.default_rng(1)
    damaged = tmp_path / "damaged.scx"
    refused = harmless = 0
    for name, start, stop in places(good):
        # the start of a part is where its structure is
        positions = {*range(start, min(start + 8, stop))}
        positions |= {int(p) for p in rng.integers(start, stop, POSITIONS_PER_SECTION)}
        for position in sorted(positions):
            changed = bytearray(content)
            changed[position] ^= 1 << int(rng.integers(8))
            damaged.write_bytes(changed)
            seen, message = None, ""
            try:
                seen = read_everything(damaged)
            except scx_core.CorruptFileError as error:
                message = str(error)
            if seen is None:
                refused += 1
                assert str(damaged) in message
            else:
                harmless += 1
                assert seen == want, f"byte {position} of {name} changed what is read"
    assert refused > harmless / 4  # most of what is harmless are the zeros of the root catalog


def test_cut_anywhere(good, tmp_path):
    content = good.read_bytes()
    damaged = tmp_path / "damaged.scx"
    rng = np.random.default_rng(2)
    lengths = {*range(0, 300, 7), *(int(x) for x in rng.integers(0, len(content), 60))}
    lengths |= {len(content) - 1, len(content) - 32, len(content) - 4096}
    for length in sorted(lengths):
        damaged.write_bytes(content[:length])
        with pytest.raises(scx_core.CorruptFileError, match=r"damaged\.scx"):
            scx_core.open(damaged)


def test_validate_finds_every_wrong_byte_outside_padding(good, tmp_path):
    content = good.read_bytes()
    damaged = tmp_path / "damaged.scx"
    rng = np.random.default_rng(3)
    with scx_core.open(good) as experiment:
        sections = experiment.sections()
        assert all(ok for _, ok in experiment.validate(deep=True))
    for section in sections:
        for position in rng.integers(section["offset"], section["offset"] + section["length"], 3):
            changed = bytearray(content)
            changed[position] ^= 0x10
            damaged.write_bytes(changed)
            try:
                experiment = scx_core.open(damaged)
            except scx_core.CorruptFileError:
                continue
            with experiment:
                verdict = dict(experiment.validate())
            assert not verdict[section["name"]], (section["name"], position)
