"""What users are told beside results: warnings at their own line, and bars where they look."""

from __future__ import annotations

import io
import sys
import types
import warnings
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import scx_core
from scx_core.writing._progress import row_progress


def sample() -> anndata.AnnData:
    obs = pd.DataFrame(index=["cell a", "cell b", "cell c"])
    var = pd.DataFrame(index=["MX1", "CD3D"])
    return anndata.AnnData(sp.csr_matrix(np.arange(6, dtype=np.float32).reshape(3, 2)), obs, var)


def test_warnings_of_files_are_shown_at_the_users_line(tmp_path: Path) -> None:
    adata = sample()
    adata.uns["f"] = np.zeros(2)
    adata.X[2, 1] = np.nan
    adata.write_h5ad(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "a") as file:
        file["of_others"] = 1
    with pytest.warns(scx_core.ScxWarning) as caught:
        scx_core.from_h5ad(tmp_path / "a.h5ad", tmp_path / "a.scx")
    assert [each.filename for each in caught] == [__file__, __file__]
    said = [str(each.message) for each in caught]
    assert said[1].endswith("in X (1, the first in cell 'cell c', gene 'CD3D')")
    assert "'of_others'" in said[0]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_the_first_value_that_is_no_number_is_named(tmp_path: Path, form: type) -> None:
    values = np.ones((40, 3))
    values[17, 2] = np.inf
    values[30, 0] = np.nan
    adata = anndata.AnnData(np.ones((40, 3)), layers={"l": form(values)})
    with pytest.warns(
        scx_core.ScxWarning, match=r"\['l'\] \(2, the first in cell '17', gene '2'\)"
    ):
        scx_core.from_anndata(adata, tmp_path / "a.scx", shard_size=7, block_bytes=64)


def test_a_key_that_is_no_text_is_said_to_be_left_out(tmp_path: Path) -> None:
    adata = sample()
    adata.uns["colours"] = {1: "red", "b": "blue"}
    with pytest.warns(
        UserWarning, match=r"uns\['colours'\]\[1\] .*; the entry is left out"
    ) as told:
        scx_core.write(adata, tmp_path / "a.scx")
    assert told[0].filename == __file__
    assert scx_core.open(tmp_path / "a.scx").uns == {"colours": {"b": "blue"}}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "in_notebook", "progress", "shown"),
    [
        (Terminal, False, None, True),
        (Terminal, False, False, False),
        (io.StringIO, False, None, False),
        (io.StringIO, False, True, True),
        (io.StringIO, True, None, True),
        (io.StringIO, True, False, False),
    ],
)
def test_where_bars_are_shown(
    stream: type[io.StringIO],
    in_notebook: bool,
    progress: bool | None,
    shown: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("tqdm.auto", "tqdm.autonotebook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel.zmqshell", raising=False)
    if in_notebook:  # whose shell tqdm finds, and no ipywidgets
        monkeypatch.setitem(sys.modules, "ipywidgets", None)
        shell = types.ModuleType("IPython")
        shell.get_ipython = lambda: None  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "IPython", shell)
        monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", types.ModuleType("zmqshell"))
    monkeypatch.setattr(sys, "stderr", said := stream())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with row_progress(progress, 10) as done:
            done(10)
    assert ("100%" in said.getvalue()) is shown


def test_messages_of_key_errors_are_plain_text(tmp_path: Path) -> None:
    scx_core.from_anndata(sample(), tmp_path / "a.scx")
    with scx_core.open(tmp_path / "a.scx") as cells:
        with pytest.raises(KeyError) as told:
            cells.layers['of "counts"']
        assert str(told.value) == """layers has no 'of "counts"'; there are []"""
        with pytest.raises(KeyError) as told:
            cells.X[:, "it's"]
        assert str(told.value) == """there is no gene "it's\""""


def test_parts_of_an_experiment_show_what_they_hold(tmp_path: Path) -> None:
    adata = sample()
    adata.obs["score"] = 1.0
    adata.obsm["X_pca"] = np.ones((3, 2))
    path = tmp_path / "a.scx"
    scx_core.from_anndata(adata, path)
    with scx_core.open(path) as cells:
        parts, shared = cells.parts(), cells.shared
        assert repr(parts[0]) == (
            f"The only modality of '{path}' with n_obs x n_vars = 3 x 2\n"
            "    X: 3 x 2 float32, 5 stored values\n    obsm: 'X_pca'"
        )
        assert repr(shared) == f"SharedParts of '{path}'\n    obs: 'score'\n    obsm: 'X_pca'"
    assert repr(parts) == f"[The only modality of '{path}' (closed)]"
    assert repr(shared) == f"SharedParts of '{path}' (closed)"


@pytest.mark.parametrize("name", ["plain", "zellen für später", "long" * 40, "a\\b", "it's"])
def test_paths_stand_once_in_messages_and_as_they_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileNotFoundError) as told:
        scx_core.open(path)
    assert told.value.strerror == "cannot open: no such file or folder"
    assert told.value.filename == str(path)
    with pytest.raises(ValueError, match="is a folder, not a file") as refused:
        scx_core.write(anndata.AnnData(np.eye(2)), tmp_path)
    assert str(refused.value).count(str(tmp_path)) == 1
    path.write_bytes(b"no scx")
    with pytest.raises(scx_core.CorruptFileError) as damaged:
        scx_core.open(path)
    assert str(damaged.value).startswith(f"{path}: not an .scx file")
    scx_core.write(anndata.AnnData(np.eye(2)), path, overwrite=True)
    with scx_core.open(path) as experiment:
        for shown in (repr(experiment), repr(experiment.file), repr(experiment.shared)):
            assert f"'{path}'" in shown
