"""The reader of 10x HDF5 files against scanpy's."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

from hdf5_samples import counts, gathered, read_10x_h5, write_10x, write_10x_legacy
from scx_core.sources.tenx import tenx_content


def rebuilt(path: Path, **options: Any) -> anndata.AnnData:
    with tenx_content(path, **options) as content:
        modality = content.modalities[""]
        matrix = sp.csr_matrix(gathered(modality.X, 100))
        return without_warnings(anndata.AnnData, matrix, obs=content.obs, var=modality.var)


def without_warnings(function: Any, *arguments: Any, **options: Any) -> Any:
    # names are repeated on purpose, which anndata remarks on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16", "float32"])
def test_files_since_cell_ranger_3_come_as_scanpy_reads_them(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "a.h5"
    types = ["Gene Expression"] * 5 + ["Antibody Capture"] * 3
    write_10x(
        path,
        counts(30, 8),
        dtype=dtype,
        feature_type=types,
        pattern=[f"5P{j}" for j in range(8)],
        is_control=np.arange(8) % 2 == 0,
        read=np.arange(8),
    )
    expected = without_warnings(read_10x_h5, path, gex_only=False)
    ours = rebuilt(path)
    assert_equal(ours, expected, exact=True)
    assert ours.X.dtype == (np.float32 if dtype == "int32" else np.dtype(dtype))
    assert ours.var["feature_types"].tolist() == types
    assert ours.var["is_control"].dtype == bool


def test_probe_matrices_come_as_scanpy_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_10x(path, counts(6, 4), dtype="int64", gene_id=["A", "A", "B", "C"])
    with h5py.File(path, "a") as file:
        file["matrix"].create_dataset("filtered_barcodes", data=np.arange(6) % 2 == 0)
        file["matrix/features"].create_group("target_sets").create_dataset("all", data=[0, 1])
    with pytest.warns(UserWarning, match="/matrix/features holds 'target_sets', which is no"):
        ours = rebuilt_with_warnings(path)
    expected = without_warnings(read_10x_h5, path, gex_only=False)
    assert_equal(ours, expected, exact=True)
    assert ours.var["probe_ids"].tolist()[1] == "ENSG0001"
    assert ours.obs["filtered_barcodes"].tolist() == [True, False] * 3


def rebuilt_with_warnings(path: Path) -> anndata.AnnData:
    with tenx_content(path) as content:
        modality = content.modalities[""]
        matrix = sp.csr_matrix(gathered(modality.X))
        return without_warnings(anndata.AnnData, matrix, obs=content.obs, var=modality.var)


def test_counts_that_float32_would_round_stay_integers(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for largest, dtype in ((2**24, np.float32), (2**24 + 1, np.int32)):
        matrix = counts(3, 4).astype(np.int32)
        matrix.data[-1] = largest
        write_10x(path, matrix)
        ours = rebuilt(path)
        assert ours.X.dtype == dtype
        assert np.array_equal(ours.X.toarray().astype(np.int64), matrix.toarray())


def test_features_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    matrix = counts(9, 6, 0.6)
    genomes = ["hg38", "mm10"] * 3
    types = ["Gene Expression"] * 4 + ["Antibody Capture"] * 2
    write_10x(path, matrix, genome=genomes, feature_type=types)
    mouse = rebuilt(path, genome="mm10")
    expected = without_warnings(read_10x_h5, path, gex_only=False, genome="mm10")
    assert_equal(mouse, expected, exact=True)
    assert np.array_equal(mouse.X.toarray(), matrix.toarray()[:, 1::2])
    proteins = rebuilt(path, feature_types="Antibody Capture")
    assert np.array_equal(proteins.X.toarray(), matrix.toarray()[:, 4:])
    both = rebuilt(path, genome="hg38", feature_types=["Gene Expression", "Antibody Capture"])
    assert np.array_equal(both.X.toarray(), matrix.toarray()[:, ::2])
    with pytest.raises(ValueError, match=r"genome: .*a\.h5 has no \['rn7'\]; there are \['hg38'"):
        rebuilt(path, genome="rn7")
    with pytest.raises(ValueError, match=r"feature_types: .* has no \['CRISPR'\]; there are"):
        rebuilt(path, feature_types=["CRISPR"])


def test_a_file_without_genome(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_10x(path, counts(3, 4), without=("genome", "feature_type"))
    assert list(rebuilt(path).var.columns) == ["gene_ids"]
    with pytest.raises(ValueError, match="does not say it of its features"):
        rebuilt(path, genome="hg38")


def test_legacy_files_hold_a_matrix_for_each_genome(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    human, mouse = counts(5, 4), counts(6, 3, seed=1)
    write_10x_legacy(path, {"hg19": human, "mm10": mouse})
    with pytest.raises(ValueError, match=r"several genomes.*genome=; there are \['hg19', 'mm10'\]"):
        rebuilt(path)
    for genome, matrix in (("hg19", human), ("mm10", mouse)):
        ours = rebuilt(path, genome=genome)
        assert_equal(ours, read_10x_h5(path, genome=genome), exact=True)
        assert np.array_equal(ours.X.toarray(), matrix.toarray())
        assert ours.obs_names[0] == f"{genome}CELL0-1"
    with pytest.raises(ValueError, match=r"no genome 'rn7'; there are \['hg19', 'mm10'\]"):
        rebuilt(path, genome="rn7")
    with pytest.raises(ValueError, match="before feature types"):
        rebuilt(path, genome="hg19", feature_types="Gene Expression")
    write_10x_legacy(path, {"hg19": human})
    assert_equal(rebuilt(path), read_10x_h5(path), exact=True)


def test_a_molecule_file_is_no_count_matrix(tmp_path: Path) -> None:
    path = tmp_path / "molecule_info.h5"
    with h5py.File(path, "w") as file:
        for name in ("barcode_idx", "feature_idx", "umi", "count"):
            file.create_dataset(name, data=[1, 2])
        file.create_dataset("barcodes", data=[b"A"])
    with pytest.raises(ValueError, match="10x Genomics molecule file, which is not a count matrix"):
        rebuilt(path)


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_10x(path, counts(3, 4))
    with h5py.File(path, "a") as file:
        del file["matrix/barcodes"]
        file["matrix"].create_dataset("barcodes", data=[b"A", b"B"])
    with pytest.raises(
        ValueError, match=r"shape says \[4, 3\], but there are 4 features and 2 bar"
    ):
        rebuilt(path)
    write_10x(path, counts(3, 4), genome=["hg38"] * 3 + ["mm10"], name=["a", "b"])
    with pytest.raises(ValueError, match=r"/matrix/features/name has 2 entries for 4 features"):
        rebuilt(path)


def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_10x(path, counts(3, 4))
    with h5py.File(path, "a") as file:
        del file["matrix/barcodes"]
        file["matrix"].create_dataset("barcodes", data=[b"A", b"caf\xe9", b"B"])
    with pytest.raises(ValueError, match=r"/matrix/barcodes\[1\] is no UTF-8 text: b'caf.*xe9'"):
        rebuilt(path)
