"""Everything of an open file that is no matrix."""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core

pytestmark = pytest.mark.filterwarnings("ignore:Observation names are not unique")


@pytest.fixture
def adata() -> anndata.AnnData:
    obs = pd.DataFrame(
        {
            "depth": [1.5, 2.5, 3.5],
            "type": pd.Categorical(["b", None, "a"], categories=["b", "a", "unused"]),
            "gap": pd.array([1, None, 3], dtype="Int64"),
            "text": ["x", "ü", ""],
        },
        index=pd.Index(["c1", "c2", "c2"], name="cell"),
    )
    var = pd.DataFrame({"symbol": ["s1", "s2"]}, index=["g1", "g2"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = anndata.AnnData(np.array([[1, 0], [0, 2], [3, 4]], dtype="f4"), obs=obs, var=var)
    made.obsm["X_pca"] = np.arange(6.0).reshape(3, 2)
    made.uns["method"] = {"name": "pca"}
    return made


@pytest.fixture
def path(tmp_path: Path, adata: anndata.AnnData) -> Path:
    scx_core.from_anndata(adata, tmp_path / "x.scx", shard_size=2)
    return tmp_path / "x.scx"


def test_columns_without_pandas(path: Path) -> None:
    with scx_core.open(path) as experiment:
        np.testing.assert_array_equal(experiment.obs_column("depth"), [1.5, 2.5, 3.5])
        cell_type = experiment.obs_column("type")
        assert isinstance(cell_type, dict)
        np.testing.assert_array_equal(cell_type["codes"], [0, -1, 1])
        assert cell_type["codes"].dtype == np.int32
        assert cell_type["categories"] == ["b", "a", "unused"]
        np.testing.assert_array_equal(experiment.obs_column("gap"), [1, np.nan, 3])
        assert list(experiment.obs_column("text")) == ["x", "ü", ""]
        with pytest.raises(KeyError, match="'depth', 'type', 'gap', 'text'"):
            experiment.obs_column("Depth")
        with pytest.raises(KeyError, match="obs has no column 0; it has 'depth'"):
            experiment.obs_column(0)
        with pytest.raises(KeyError, match="has a single modality without a name, not 'rna'"):
            experiment["rna"]
        assert list(experiment.obs_names) == ["c1", "c2", "c2"]
        assert list(experiment.var_names) == ["g1", "g2"]


def test_columns_leave_pandas_alone(path: Path) -> None:
    program = (
        "import sys, scx_core\n"
        "light = {'numpy', 'pandas', 'scipy', 'anndata', 'pyarrow', 'h5py'} & set(sys.modules)\n"
        "assert not light, light\n"
        "e = scx_core.open(sys.argv[1])\n"
        "e.obs_column('type'); e.obs_names; e.var_names; e.X\n"
        "heavy = {'pandas', 'anndata', 'scipy', 'h5py'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=60)


def test_frames_and_components(path: Path, adata: anndata.AnnData) -> None:
    with scx_core.open(path) as experiment:
        pd.testing.assert_frame_equal(experiment.obs, adata.obs)
        pd.testing.assert_frame_equal(experiment.var, adata.var)
        assert np.shares_memory(experiment.obs["depth"], experiment.obs["depth"])  # decoded once
        np.testing.assert_array_equal(experiment.obsm["X_pca"], adata.obsm["X_pca"])
        assert experiment.obsm["X_pca"] is experiment.obsm["X_pca"]
        assert experiment.uns == {"method": {"name": "pca"}}
        assert list(experiment.obsm) == ["X_pca"]
        assert len(experiment.varm) == len(experiment.obsp) == len(experiment.varp) == 0
        with pytest.raises(KeyError, match=r"obsm has no 'pca'.*X_pca"):
            experiment.obsm["pca"]
        assert experiment.raw is None
        assert experiment.obs_keys() == list(adata.obs.columns)


def test_objects_of_ones_own(path: Path, adata: anndata.AnnData) -> None:
    with scx_core.open(path) as experiment:
        first = experiment.to_anndata()
        first.obs["depth"] = 0.0
        first.obsm["X_pca"][:] = 0
        first.uns["method"]["name"] = "none"
        first.X[:] = 0
        pd.testing.assert_frame_equal(experiment.obs, adata.obs)
        second = experiment.to_anndata()
    np.testing.assert_array_equal(second.obsm["X_pca"], adata.obsm["X_pca"])
    np.testing.assert_array_equal(second.X, adata.X)
    assert second.uns == adata.uns


def test_repr(path: Path) -> None:
    with scx_core.open(path) as experiment:
        assert repr(experiment) == (
            f"Experiment with n_obs x n_vars = 3 x 2 at '{path}'\n"
            "    obs: 'depth', 'type', 'gap', 'text'\n"
            "    X: 3 x 2 float32, 4 stored values\n"
            "    var: 'symbol'\n"
            "    uns: 'method'\n"
            "    obsm: 'X_pca'"
        )
    assert repr(experiment) == f"Experiment at '{path}' (closed)"


def test_sections(path: Path) -> None:
    with scx_core.open(path) as experiment:
        sections = experiment.sections()
    assert [section["name"] for section in sections] == [
        "obs",
        "var",
        "uns",
        "provenance",
        "obsm/X_pca",
        "X_shard_0",
        "X_shard_1",
    ]
    shard = sections[-1]
    assert shard["type"] == "csr_shard"
    assert (shard["codec"], shard["dtype"], shard["rows"], shard["nnz"]) == (
        "rowpack",
        "float32",
        (2, 3),
        2,
    )
    assert sections[0]["codec"] is None
    for section in sections:
        assert section["offset"] % 8 == 0
        assert section["offset"] + section["length"] <= path.stat().st_size


def test_closed(path: Path) -> None:
    experiment = scx_core.open(path)
    x, layers = experiment.X, experiment.layers
    assert x is not None
    experiment.close()
    experiment.close()
    assert experiment.closed
    for use in (
        lambda: x[0],
        lambda: experiment.obs,
        lambda: experiment.obs_column("depth"),
        lambda: experiment.uns,
        lambda: experiment.obsm["X_pca"],
        experiment.to_anndata,
        experiment.validate,
        experiment.sections,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    assert len(layers) == 0


def test_validate(path: Path) -> None:
    with scx_core.open(path) as experiment:
        for deep in (False, True):
            names = [section["name"] for section in experiment.sections()]
            assert experiment.validate(deep=deep) == [(name, True) for name in [*names, "(file)"]]
            assert experiment.find_damage(deep=deep) == []


def test_damage_is_named(path: Path) -> None:
    with scx_core.open(path) as experiment:
        sections = experiment.sections()
    content = path.read_bytes()
    for section in sections:
        damaged = bytearray(content)
        damaged[section["offset"] + section["length"] // 2] ^= 0x10
        path.write_bytes(damaged)
        with scx_core.open(path) as experiment:
            verdicts = dict(experiment.validate())
            assert not verdicts.pop(section["name"])
            assert not verdicts.pop("(file)")
            assert all(verdicts.values())
            with pytest.raises(scx_core.CorruptFileError) as caught:
                experiment.to_anndata()
            assert str(path) in str(caught.value)
            assert section["name"] in str(caught.value)
            deep = dict(experiment.validate(deep=True))
            assert [name for name, ok in deep.items() if not ok] == [section["name"], "(file)"]


def test_a_layer_called_x_is_not_x(tmp_path: Path) -> None:
    ones = np.ones((2, 3), dtype="f4")
    obs, var = pd.DataFrame(index=["c1", "c2"]), pd.DataFrame(index=["g1", "g2", "g3"])
    path = tmp_path / "x.scx"
    scx_core.from_anndata(anndata.AnnData(ones, obs, var, layers={"X": 2 * ones}), path)
    content = path.read_bytes()
    with scx_core.open(path) as experiment:
        np.testing.assert_array_equal(experiment.X.toarray(), ones)
        np.testing.assert_array_equal(experiment.layers["X"].toarray(), 2 * ones)
        sections = experiment.sections()
    shards = [place for place, section in enumerate(sections) if section["codec"] is not None]
    assert [sections[place]["name"] for place in shards] == ["X_shard_0", "X_shard_0"]
    for place in shards:
        damaged = bytearray(content)
        damaged[sections[place]["offset"] + sections[place]["length"] - 1] ^= 1
        path.write_bytes(damaged)
        with scx_core.open(path) as experiment:
            for deep in (False, True):
                verdicts = [ok for _, ok in experiment.validate(deep=deep)]
                assert [number for number, ok in enumerate(verdicts) if not ok] == [
                    place,
                    len(sections),
                ]


def test_tables_that_lie_are_corrupt_files(tmp_path: Path, adata: anndata.AnnData) -> None:
    """Hashes that fit, but content that does not: as a faulty writer makes it."""
    from scx_core._section_names import SectionType
    from scx_core.metadata import encode_embedding, encode_frame
    from scx_core.native.container import FileWriter

    good = {
        ("obs", SectionType.OBS): encode_frame(adata.obs),
        ("var", SectionType.VAR): encode_frame(adata.var),
        ("obsm/X", SectionType.OBSM): encode_embedding(np.ones((3, 2)), 3),
        ("uns", SectionType.UNS): b"{}",
        ("provenance", SectionType.PROVENANCE): b"{}",
    }
    bad = {
        ("obs", SectionType.OBS): [b"junk", encode_frame(adata.obs.iloc[:2])],
        ("var", SectionType.VAR): [b""],
        ("obsm/X", SectionType.OBSM): [b"junk", encode_embedding(np.ones((2, 2)), 2)],
        ("uns", SectionType.UNS): [b"[]", b"\xff"],
        ("provenance", SectionType.PROVENANCE): [
            b"{]",
            b'{"matrices": 3}',
            b'{"matrices": {"X": {"dtype": "f4", "form": "csr_matrix"}}}',
            b'{"matrices": {"layers": [1]}}',
        ],
    }
    path = tmp_path / "lie.scx"

    def write(sections: dict[tuple[str, SectionType], bytes]) -> None:
        with FileWriter(path, n_obs=3, n_vars=2, overwrite=True) as file:
            for (name, kind), data in sections.items():
                file.add_section(name, data, section_type=kind)

    write(good)
    with scx_core.open(path) as experiment:
        assert experiment.to_anndata().shape == (3, 2)
    for key, contents in bad.items():
        for content in contents:
            write({**good, key: content})
            with scx_core.open(path) as experiment:
                with pytest.raises(scx_core.CorruptFileError) as caught:
                    experiment.to_anndata()
                assert str(path) in str(caught.value)
                assert not all(ok for _, ok in experiment.validate(deep=True))
    for missing in ("obs", "var"):
        write({key: data for key, data in good.items() if key[0] != missing})
        with (
            scx_core.open(path) as experiment,
            pytest.raises(scx_core.CorruptFileError, match="missing"),
        ):
            experiment.to_anndata()


def test_unknown_sections_are_left_aside_with_a_warning(
    tmp_path: Path, adata: anndata.AnnData
) -> None:
    from scx_core.metadata import encode_frame
    from scx_core.native.container import FileWriter

    path = tmp_path / "new.scx"
    with FileWriter(path, n_obs=3, n_vars=2) as file:
        file.add_section("obs", encode_frame(adata.obs), section_type=0)
        file.add_section("var", encode_frame(adata.var), section_type=2)
        file.add_section("novelty", b"?", section_type=254)
    with pytest.warns(scx_core.ScxWarning, match=r"\[254\]"):
        experiment = scx_core.open(path)
    assert experiment.to_anndata().shape == (3, 2)


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """A file with every part of which something can be handed out."""
    cells = pd.DataFrame(
        {"n": [1, 2, 3], "kind": pd.Categorical(["a", "b", "a"]), "text": ["x", "y", "z"]},
        index=["c0", "c1", "c2"],
    )
    genes = pd.DataFrame({"n": [1, 2]}, index=["g0", "g1"])
    adata = anndata.AnnData(
        sp.csr_matrix(np.ones((3, 2), np.float32)),
        cells,
        genes,
        layers={"counts": np.ones((3, 2), np.float32)},
        obsm={"X": np.zeros((3, 2)), "frame": cells[["n"]].copy()},
        varm={"PCs": np.zeros((2, 2))},
        obsp={"graph": sp.csr_matrix(np.eye(3))},
        varp={"graph": np.eye(2)},
        uns={"a": {"list": [1, {"b": 2}]}, "array": np.arange(3), "frame": cells.copy()},
    )
    adata.raw = adata
    path = tmp_path / "everything.scx"
    scx_core.from_anndata(adata, path)
    return path


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("e.obs = 1", AttributeError),
        ("e.var = 1", AttributeError),
        ("e.uns = 1", AttributeError),
        ("e.raw = 1", AttributeError),
        ("e.X = 1", AttributeError),
        ("e.obsm = 1", AttributeError),
        ("e.obs_names = 1", AttributeError),
        ("e.parts()[0].X = 1", AttributeError),
        ("e.parts()[0].layers = 1", AttributeError),
        ("e.raw.varm = 1", AttributeError),
        ("e.shared.obsm = 1", AttributeError),
        ("e.X[0] = 1", TypeError),
        ("e.layers['new'] = 1", TypeError),
        ("e.obsm['new'] = 1", TypeError),
        ("e.obsp['new'] = 1", TypeError),
        ("e.raw.varm['new'] = 1", TypeError),
        ("e.obsm['X'][0] = 1", ValueError),
        ("e.varm['PCs'][0] = 1", ValueError),
        ("e.raw.varm['PCs'][0] = 1", ValueError),
        ("e.varp['graph'][0] = 1", ValueError),
        ("e.obsp['graph'].data[0] = 5", ValueError),
        ("e.obsp['graph'][0, 0] = 5", ValueError),
        ("e.obs_names[0] = 'x'", ValueError),
        ("e.var_names[0] = 'x'", ValueError),
        ("e.raw.var_names[0] = 'x'", ValueError),
        ("e.uns['new'] = 1", TypeError),
        ("del e.uns['a']", TypeError),
        ("e.uns['a']['new'] = 1", TypeError),
        ("e.uns['a']['list'].append(1)", TypeError),
        ("e.uns['a']['list'][1]['b'] = 1", TypeError),
        ("e.uns.update(x=1)", TypeError),
        ("e.uns['array'][0] = 1", ValueError),
    ],
)
def test_what_is_handed_out_refuses_changes(
    everything: Path, statement: str, error: type[Exception]
) -> None:
    with scx_core.open(everything) as experiment:
        before = str(experiment.to_anndata().uns)
        with pytest.raises(error):
            exec(statement, {"e": experiment})
        assert str(experiment.uns) == before


AXIS_FRAMES = ["e.obs", "e.var", "e.raw.var", "e.parts()[0].var"]


@pytest.mark.parametrize(
    "change",
    [
        "f['new'] = 1",
        "f['n'] = 9",
        "f['n'] += 1",
        "f[f.index == 'x'] = 1",
        "f.n = 9",
        "f.new = 1",
        "f.index = list(f.index)",
        "f.columns = list(f.columns)",
        "f.attrs = {'a': 1}",
        "del f['n']",
        "f.pop('n')",
        "f.insert(0, 'new', 1)",
        "f.isetitem(0, 1)",
        "f.update(f)",
        "f.loc[f.index[0], 'n'] = 9",
        "f.loc(axis=0)[f.index[0]] = 9",
        "f.iloc[0, 0] = 9",
        "f.at[f.index[0], 'n'] = 9",
        "f.iat[0, 0] = 9",
        "f.drop(columns='n', inplace=True)",
        "f.rename(columns={'n': 'm'}, inplace=True)",
        "f.set_index('n', inplace=True)",
        "f.reset_index(inplace=True)",
        "f.sort_values('n', inplace=True)",
        "f.fillna(0, inplace=True)",
        "f.where(f == f, inplace=True)",
        "f.eval('m = n', inplace=True)",
        "f.dropna(axis=0, how='any', inplace=True)",
    ],
)
def test_obs_and_var_refuse_changes(everything: Path, change: str) -> None:
    with scx_core.open(everything) as experiment:
        for frame in AXIS_FRAMES:
            names = {"e": experiment}
            wanted = eval(frame, names).copy()
            for statement in (change.replace("f[", f"{frame}[").replace("f.", f"{frame}."), change):
                names["f"] = eval(frame, names)
                # what "+=" does to the column is refused already, in some versions of pandas
                kinds = (TypeError, ValueError) if "+=" in change else TypeError
                with pytest.raises(kinds, match=r"read-only|of an open file cannot be changed"):
                    exec(statement, names)
                pd.testing.assert_frame_equal(eval(frame, names), wanted)
                pd.testing.assert_frame_equal(wanted, names["f"])


@pytest.mark.parametrize(
    "derived",
    [
        "f.copy()",
        "f.assign(m=1)",
        "f[f['n'] > -9].copy()",
        "f.iloc[:2].copy()",
        "f.reset_index()",
        "f.sort_values('n')",
        "f.drop(columns='n')",
        "f.eval('m = n')",
        "pd.concat([f, f])",
        "pd.DataFrame(f)",
        "copy.copy(f)",
        "copy.deepcopy(f)",
        "pickle.loads(pickle.dumps(f))",
    ],
)
def test_what_is_made_of_obs_and_var_is_plain(everything: Path, derived: str) -> None:
    with scx_core.open(everything) as experiment:
        names = {"f": experiment.obs, "pd": pd, "copy": copy, "pickle": pickle}
        made = eval(derived, names)
        assert type(made) is pd.DataFrame
        made["new"] = 1
        made.index.name = "renamed"
        assert "new" not in experiment.obs and experiment.obs.index.name is None


@pytest.mark.parametrize(
    "values", ["f.index.values", "f.columns.values", "f['kind'].cat.categories.values"]
)
def test_names_and_labels_are_read_only(everything: Path, values: str) -> None:
    with scx_core.open(everything) as experiment, pytest.raises(ValueError, match="read-only"):
        eval(values, {"f": experiment.obs})[0] = "x"


@pytest.mark.parametrize("frame", ["e.obsm['frame']", "e.uns['frame']", "e.uns.get('frame')"])
def test_other_frames_are_copies_which_pandas_says(everything: Path, frame: str) -> None:
    with scx_core.open(everything) as experiment:
        names = {"e": experiment}
        wanted = eval(frame, names).copy()
        with pytest.warns(Warning, match="chained assignment"):
            exec(f"{frame}['new'] = 1", names)
        with pytest.warns(Warning, match="chained assignment"):
            exec(f"{frame}['n'] = 9", names)
        own = eval(frame, names)
        own["new"] = 1  # has a name, and so no warning
        own.index.name = "renamed"
        with contextlib.suppress(ValueError):  # read-only, or copied first, as pandas has it
            own.iloc[0, 0] = 9
        with contextlib.suppress(ValueError):
            own["n"].array[0] = 9
        own.drop(columns="n", inplace=True)
        for _, value in experiment.uns.items():
            if isinstance(value, pd.DataFrame):
                value["new"] = 1
        pd.testing.assert_frame_equal(eval(frame, names), wanted)
        assert type(own) is pd.DataFrame


def test_copies_can_be_changed(everything: Path) -> None:
    with scx_core.open(everything) as experiment:
        obs, uns = experiment.obs.copy(), copy.deepcopy(experiment.uns)
        obs.loc["c0", "n"] = 9
        uns["a"]["list"].append(1)
        assert type(uns) is dict and type(uns["a"]["list"]) is list
        assert pickle.loads(pickle.dumps(experiment.uns["a"])) == {"list": [1, {"b": 2}]}
        adata = anndata.AnnData(obs=experiment.obs)
        adata.obs["new"] = 1
        adata = experiment.to_anndata()
        adata.obs["n"] = 9
        adata.uns["a"]["list"].append(1)
        adata.obsm["X"][0] = 9
        adata.obsp["graph"][0, 0] = 9
        assert experiment.obs["n"].tolist() == [1, 2, 3]
        assert experiment.uns["a"]["list"] == [1, {"b": 2}]
        assert experiment.obsm["X"].sum() == 0
