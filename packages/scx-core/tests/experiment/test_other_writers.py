"""Files as other writers lay them out: without provenance, with tables and graphs in shards."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import scx_core
from scx_core._section_names import SectionType
from scx_core.native.container import FileWriter

UINT16, FLOAT32, ROWPACK = 1, 3, 64


def ipc_file(columns: dict[str, object], metadata: dict[str, str] | None = None) -> bytes:
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    batch = batch.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def row_shard(index: int, start: int, total: int, columns: dict[str, object]) -> bytes:
    n_rows = len(next(iter(columns.values())))  # type: ignore[arg-type]
    metadata = {
        "shard_idx": index,
        "row_start": start,
        "n_shard_rows": n_rows,
        "n_rows_total": total,
    }
    return ipc_file(columns, {key: str(value) for key, value in metadata.items()})


def add_matrix(
    file: FileWriter,
    matrix: sp.csr_matrix,
    kind: SectionType,
    names: list[str],
    value_type: int,
    modality_id: int = 0,
) -> None:
    n_rows = matrix.shape[0]
    for number, name in enumerate(names):
        start = number * n_rows // len(names)
        stop = (number + 1) * n_rows // len(names)
        part = matrix[start:stop]
        file.begin_shard(
            name,
            section_type=kind,
            modality_id=modality_id,
            codec=ROWPACK,
            value_type=value_type,
            row_start=start,
            n_rows=stop - start,
            n_cols=matrix.shape[1],
            keep_zeros=kind == SectionType.OBSP_CSR_SHARD,
        )
        file.append_csr(part.indptr.astype(np.int64), part.indices, part.data)
        file.finish_shard()


@pytest.fixture
def counts() -> sp.csr_matrix:
    return sp.random(
        5, 3, 0.6, "csr", random_state=0, data_rvs=lambda n: np.arange(1, n + 1)
    ).astype(np.uint16)


@pytest.fixture
def graph() -> sp.csr_matrix:
    triple = (
        np.array([0.0, 2.0, 3.0], dtype="f4"),
        np.array([1, 0, 4]),
        np.array([0, 1, 2, 2, 2, 3]),
    )
    return sp.csr_matrix(triple, shape=(5, 5))


def test_tables_and_graphs_in_shards(
    tmp_path: Path, counts: sp.csr_matrix, graph: sp.csr_matrix
) -> None:
    path = tmp_path / "other.scx"
    kinds = SectionType
    with FileWriter(path, n_obs=5, n_vars=3) as file:
        for number, (start, names) in enumerate([(0, ["c0", "c1", "c2"]), (3, ["c3", "c4"])]):
            n = len(names)
            file.add_section(
                f"obs_metadata/shard_{number}",
                row_shard(
                    number, start, 5, {"_index": names, "depth": list(range(start, start + n))}
                ),
                section_type=kinds.OBS_ROW_SHARD,
            )
            pca = {"0": np.full(n, start, "f4"), "1": np.arange(n, dtype="f4")}
            file.add_section(
                f"obsm/X_pca_shard_{number}",
                row_shard(number, start, 5, pca),
                section_type=kinds.OBSM_ROW_SHARD,
            )
        file.add_section("var", ipc_file({"_index": ["g0", "g1", "g2"]}), section_type=kinds.VAR)
        add_matrix(file, counts, kinds.CSR_SHARD, ["X_shard_0", "X_shard_1"], UINT16)
        add_matrix(file, counts, kinds.LAYER_CSR_SHARD, ["a/b_shard_0", "a/b_shard_1"], UINT16)
        graph_names = ["obsp/distances_shard_0", "obsp/distances_shard_1"]
        add_matrix(file, graph, kinds.OBSP_CSR_SHARD, graph_names, FLOAT32)
    with scx_core.open(path) as experiment:
        assert all(ok for _, ok in experiment.validate(deep=True))
        assert list(experiment.obs_names) == ["c0", "c1", "c2", "c3", "c4"]
        np.testing.assert_array_equal(experiment.obs_column("depth"), np.arange(5))
        assert list(experiment.layers) == ["a/b"]
        adata = experiment.to_anndata()
    assert isinstance(adata.X, sp.csr_matrix)
    assert adata.X.dtype == np.uint16
    np.testing.assert_array_equal(adata.X.toarray(), counts.toarray())
    np.testing.assert_array_equal(adata.layers["a/b"].toarray(), counts.toarray())
    np.testing.assert_array_equal(adata.obsm["X_pca"], [[0, 0], [0, 1], [0, 2], [3, 0], [3, 1]])
    np.testing.assert_array_equal(adata.obsp["distances"].toarray(), graph.toarray())
    assert adata.obsp["distances"].nnz == 3
    pd.testing.assert_frame_equal(
        adata.obs, pd.DataFrame({"depth": range(5)}, [f"c{i}" for i in range(5)])
    )


def test_tables_that_come_twice(tmp_path: Path) -> None:
    path = tmp_path / "twice.scx"
    whole = ipc_file({"_index": ["c0"]})
    with FileWriter(path, n_obs=1, n_vars=1) as file:
        file.add_section("obs", whole, section_type=SectionType.OBS)
        file.add_section("var", whole, section_type=SectionType.VAR)
        file.add_section(
            "obs_metadata/shard_0",
            row_shard(0, 0, 1, {"_index": ["c0"]}),
            section_type=SectionType.OBS_ROW_SHARD,
        )
    with (
        scx_core.open(path) as experiment,
        pytest.raises(scx_core.CorruptFileError, match="more than once"),
    ):
        experiment.to_anndata()


def test_modalities_over_the_same_cells(tmp_path: Path, counts: sp.csr_matrix) -> None:
    """As published: obs for all, no var over all modalities, no maps."""
    path = tmp_path / "multi.scx"
    kinds = SectionType
    with FileWriter(path, n_obs=5, n_vars=3) as file:
        file.add_modality("rna", modality_type=0, n_vars=3, codec=ROWPACK, value_type=UINT16)
        file.add_modality("prot", modality_type=1, n_vars=2, codec=ROWPACK, value_type=UINT16)
        cells = ipc_file(
            {"_index": [f"c{number}" for number in range(5)], "batch": [1, 1, 2, 2, 2]}
        )
        file.add_section("obs", cells, section_type=kinds.OBS)
        for number, (name, n_vars) in enumerate([("rna", 3), ("prot", 2)]):
            genes = ipc_file({"_index": [f"{name}{gene}" for gene in range(n_vars)]})
            file.add_section(f"var/{name}", genes, section_type=kinds.VAR, modality_id=number + 1)
            names = [f"X/{name}/shard_0"]
            part = counts[:, :n_vars].tocsr()
            add_matrix(file, part, kinds.CSR_SHARD, names, UINT16, modality_id=number + 1)
    with scx_core.open(path) as experiment:
        assert all(ok for _, ok in experiment.validate(deep=True))
        assert experiment["prot"].n_obs == 5
        np.testing.assert_array_equal(experiment["prot"].X[:].toarray(), counts[:, :2].toarray())
        adata = experiment.to_anndata(modality="rna")
        assert list(adata.obs["batch"]) == [1, 1, 2, 2, 2]
        with pytest.raises(ValueError, match="no var over all modalities"):
            experiment.var_names  # noqa: B018
        mdata = experiment.to_mudata()
    assert mdata.shape == (5, 5)
    assert list(mdata.var_names) == ["rna0", "rna1", "rna2", "prot0", "prot1"]
    assert list(mdata.obs["batch"]) == [1, 1, 2, 2, 2]
    np.testing.assert_array_equal(mdata.mod["rna"].X.toarray(), counts.toarray())


def history(*steps: tuple[int, str, str, str, int]) -> bytes:
    """Provenance as other writers pack it: what was done, when and by what."""
    encoded = struct.pack("<BI", 1, len(steps))
    for seconds, action, tool, parameters, n_checksums in steps:
        encoded += struct.pack("<q", seconds)
        for form, words in (("<H", action), ("<H", tool), ("<I", parameters)):
            encoded += struct.pack(form, len(words.encode())) + words.encode()
        encoded += bytes([n_checksums]) + bytes(32 * n_checksums)
    return encoded


GOOD_HISTORY = history(
    (1770000000, "from_anndata", "pyscx 0.4.0", '{"codec_selection":{"profile":"auto"}}', 0),
    (-1, "merge", "é", "", 2),
)

TOLD_HISTORY = [
    {
        "time": "2026-02-02T02:40:00Z",
        "action": "from_anndata",
        "tool": "pyscx 0.4.0",
        "parameters": '{"codec_selection":{"profile":"auto"}}',
    },
    {"time": "1969-12-31T23:59:59Z", "action": "merge", "tool": "é", "parameters": ""},
]


@pytest.mark.parametrize(
    ("provenance", "damage"),
    [
        (GOOD_HISTORY, None),
        (history(), None),
        (GOOD_HISTORY + b"x", "1 bytes lie behind"),
        (GOOD_HISTORY[:-1], "ends behind"),
        (b"\x02\0\0\0\0", "neither a JSON object nor a list of steps"),
        (b"[]", "neither a JSON object nor a list of steps"),
        (b"", "neither a JSON object nor a list of steps"),
    ],
)
def test_no_matrix_needs_the_provenance_of_another_writer(
    tmp_path: Path, counts: sp.csr_matrix, provenance: bytes, damage: str | None
) -> None:
    path = tmp_path / "other.scx"
    with FileWriter(path, n_obs=5, n_vars=3) as file:
        names = [f"c{i}" for i in range(5)]
        file.add_section("obs", ipc_file({"_index": names}), section_type=SectionType.OBS)
        var = ipc_file({"_index": ["g0", "g1", "g2"]})
        file.add_section("var", var, section_type=SectionType.VAR)
        add_matrix(file, counts, SectionType.CSR_SHARD, ["X_shard_0"], UINT16)
        add_matrix(file, counts, SectionType.LAYER_CSR_SHARD, ["n_shard_0"], UINT16)
        file.add_section("provenance", provenance, section_type=SectionType.PROVENANCE)
    with scx_core.open(path) as experiment:
        wanted = counts.toarray()
        np.testing.assert_array_equal(experiment.X[:].toarray(), wanted)
        np.testing.assert_array_equal(experiment.layers["n"][:].toarray(), wanted)
        np.testing.assert_array_equal(experiment.gather_rows([4, 0]).toarray(), wanted[[4, 0]])
        np.testing.assert_array_equal(experiment.to_anndata().X.toarray(), wanted)
        found = experiment.find_damage(deep=True)
        if damage is None:
            assert experiment.provenance() == (TOLD_HISTORY if provenance == GOOD_HISTORY else [])
        else:
            with pytest.raises(scx_core.CorruptFileError, match=damage):
                experiment.provenance()
    if damage is None:
        assert found == []
    else:
        assert [name for name, _ in found] == ["provenance"]
        assert damage in found[0][1]
    scx_core.mark_deleted(path, [1])
    scx_core.compact(path, tmp_path / "compact.scx")
    with scx_core.open(tmp_path / "compact.scx") as experiment:
        np.testing.assert_array_equal(experiment.X[:].toarray(), np.delete(wanted, 1, axis=0))


# ---- small files of the published tools; what they hold was written down beside them ----

FOREIGN = Path(__file__).parent / "foreign"


def test_graphs_in_shards_of_rows() -> None:
    """In three shards of which one is empty, and in two with 64-bit coordinates."""
    with scx_core.open(FOREIGN / "obsp_row_shards.scx") as experiment:
        assert experiment.find_damage() == []
        for key in ("connectivities", "distances"):
            graph = experiment.obsp[key]
            assert graph.shape == (30, 30)
            assert graph.nnz == 63
            assert np.diff(graph.indptr)[:8].tolist() == [4, 5, 0, 2, 5, 3, 5, 1]
            assert graph.indices[:6].tolist() == [2, 10, 13, 16, 5, 12]
            assert graph.data.sum() == pytest.approx(32.83353995834477, rel=1e-14)
        assert set(experiment.obsm) == {"X_umap", "g", "g_shard_x"}


def test_deleted_rows_of_the_file() -> None:
    """Version 2: an entry for the whole file, and one that is reserved."""
    path = FOREIGN / "deletion_v2_two_modalities.scx"
    with scx_core.open(path) as experiment:
        assert experiment.deleted_rows.tolist() == [2]
        assert experiment.n_obs == 29
        assert experiment.obs["n_counts"].tolist() == [7 * i for i in range(30) if i != 2]


def test_marking_more_than_another_writer_did(tmp_path: Path) -> None:
    path = tmp_path / "marked.scx"
    path.write_bytes((FOREIGN / "deletion_v2_two_modalities.scx").read_bytes())
    assert scx_core.mark_deleted(path, [2, 29]) == 1
    assert scx_core.open(path).deleted_rows.tolist() == [2, 29]


def test_a_matrix_without_rows_is_one() -> None:
    with scx_core.open(FOREIGN / "no_rows.scx") as experiment:
        assert experiment.X is not None
        assert experiment.X[:].shape == (0, 5)
        assert experiment.to_anndata().shape == (0, 5)


def test_uns_of_the_published_tools() -> None:
    with (
        scx_core.open(FOREIGN / "uns_envelopes.scx") as experiment,
        pytest.warns(scx_core.ScxWarning, match=r"uns\['later'\].*'hologram'") as caught,
    ):
        uns = experiment.uns
    assert Path(caught[0].filename) == Path(__file__)
    plain = {key: uns[key] for key in ("species", "n", "pi", "none", "ok", "colors", "nested")}
    assert plain == {
        "species": "human",
        "n": 2,
        "pi": 3.25,
        "none": None,
        "ok": True,
        "colors": ["#fff", "#000"],
        "nested": {"a": {"b": [1, 2, 3]}},
    }
    np.testing.assert_array_equal(uns["arr"], np.array([[1.0, 2.0], [3.0, 4.5]]), strict=True)
    np.testing.assert_array_equal(uns["obj"], np.array(["a", None, "c"], object), strict=True)
    np.testing.assert_array_equal(uns["strs"], np.array(["abc", "d"]), strict=True)
    assert isinstance(uns["i32"], np.int32) and uns["i32"] == -7
    assert isinstance(uns["nan"], np.float64) and np.isnan(uns["nan"])
    assert uns["tup"] == (1, "x", ())
    assert uns["names"].tolist() == [(1, 0.5), (2, 1.5)]
    assert uns["names"].dtype == np.dtype([("g", "<i4"), ("x", "<f8")])
    assert uns["ragged"].tolist() == [("x", "z"), ("y", None)]
    wanted = pd.Categorical(["a", "b", None, "a"], ["a", "b"], ordered=True)
    pd.testing.assert_extension_array_equal(uns["cat"], wanted)
    pd.testing.assert_index_equal(uns["idx"], pd.Index(["p", "q"], name="nm"))
    pd.testing.assert_series_equal(uns["ser"], pd.Series([1.5, 2.5], name="s"))
    frame = pd.DataFrame({"u": [1, 2], "v": ["a", "b"]}, index=["r0", "r1"])
    pd.testing.assert_frame_equal(uns["df"], frame)
    assert uns["broken"] == {"__scx_type__": "ndarray", "shape": [1]}
    assert uns["later"] == {"__scx_type__": "hologram", "data": 1}
