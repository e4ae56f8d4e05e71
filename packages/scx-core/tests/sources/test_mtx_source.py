"""The reader of Matrix Market folders against scanpy's, and against numbers written by hand."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
import scanpy
import scipy.io
import scipy.sparse as sp
from anndata.tests.helpers import assert_equal

import scx_core
from hdf5_samples import counts, gathered
from scx_core.sources.h5_matrices import ReadingMeans
from scx_core.sources.mtx import mtx_content

BANNER = "%%MatrixMarket matrix coordinate integer general\n"
REALS = BANNER.replace("integer", "real")


def rebuilt(path: Path, *, memory_bytes: int = 1 << 20, **options: Any) -> anndata.AnnData:
    folder = path if path.is_dir() else path.parent
    with mtx_content(path, ReadingMeans(memory_bytes, folder), **options) as content:
        modality = content.modalities[""]
        matrix = sp.csr_matrix(gathered(modality.X, 100))
        return anndata.AnnData(matrix, obs=content.obs, var=modality.var)


def write_text(path: Path, text: str) -> None:
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_folder(
    folder: Path,
    matrix: Any,
    *,
    prefix: str = "",
    suffix: str = "",
    features: str = "features.tsv",
    n_columns: int = 3,
    symbols: list[str] | None = None,
) -> None:
    """`matrix` (cells x genes) as Cell Ranger writes it."""
    n_cells, n_genes = matrix.shape
    symbols = symbols or [f"S{j}" for j in range(n_genes)]
    rows = [
        [f"ENSG{j}", symbols[j], "Gene Expression", "chr1", str(j), str(j + 9)]
        for j in range(n_genes)
    ]
    lines = ["\t".join(row[:n_columns]) for row in rows]
    if n_columns == 1:
        lines = symbols
    write_text(folder / f"{prefix}{features}{suffix}", "".join(line + "\n" for line in lines))
    barcodes = "".join(f"CELL{i}-1\n" for i in range(n_cells))
    write_text(folder / f"{prefix}barcodes.tsv{suffix}", barcodes)
    by_cell = sp.coo_matrix(matrix)
    entries = "".join(
        f"{gene + 1} {cell + 1} {value:g}\n"
        for cell, gene, value in zip(by_cell.row, by_cell.col, by_cell.data, strict=True)
    )
    text = f"{BANNER}%\n{n_genes} {n_cells} {by_cell.nnz}\n{entries}"
    write_text(folder / f"{prefix}matrix.mtx{suffix}", text)


@pytest.mark.parametrize("var_names", ["gene_symbols", "gene_ids"])
@pytest.mark.parametrize(
    ("features", "suffix", "n_columns"),
    [("genes.tsv", "", 2), ("features.tsv", ".gz", 3)],
)
def test_folders_come_as_scanpy_reads_them(
    tmp_path: Path, features: str, suffix: str, n_columns: int, var_names: Any
) -> None:
    symbols = ["A", "B", "A", "A-1", "C", "C", "D"]
    matrix = counts(12, 7)
    write_folder(
        tmp_path, matrix, features=features, suffix=suffix, n_columns=n_columns, symbols=symbols
    )
    with warnings.catch_warnings():
        # anndata remarks on a suffix that looks like its own
        warnings.simplefilter("ignore")
        expected = scanpy.read_10x_mtx(tmp_path, var_names=var_names, gex_only=False)
    for memory_bytes in (1, 200, 10**6):
        ours = rebuilt(tmp_path, memory_bytes=memory_bytes, var_names=var_names)
        assert_equal(ours, expected, exact=True)
        assert np.array_equal(ours.X.toarray(), matrix.toarray())
    assert not list(tmp_path.glob(".scx*"))


def test_repeated_symbols_can_stay(tmp_path: Path) -> None:
    write_folder(tmp_path, counts(2, 3), symbols=["A", "A", "B"])
    with pytest.warns(UserWarning, match="Variable names are not unique"):
        assert rebuilt(tmp_path, make_unique=False).var_names.tolist() == ["A", "A", "B"]


@pytest.mark.parametrize("features", ["genes.tsv", "features.tsv"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("n_columns", [1, 2, 3, 6])
def test_tables_of_any_width_under_any_name(
    tmp_path: Path, features: str, suffix: str, n_columns: int
) -> None:
    matrix = counts(4, 5)
    write_folder(tmp_path, matrix, features=features, suffix=suffix, n_columns=n_columns)
    ours = rebuilt(tmp_path)
    assert np.array_equal(ours.X.toarray(), matrix.toarray())
    assert ours.var_names.tolist() == ["S0", "S1", "S2", "S3", "S4"]
    expected = ["gene_ids", "feature_types", "chromosome", "start", "end"][: n_columns - 1]
    assert list(ours.var.columns) == expected
    assert ours.obs_names.tolist() == ["CELL0-1", "CELL1-1", "CELL2-1", "CELL3-1"]


def test_symbols_that_look_missing_or_quoted_are_text(tmp_path: Path) -> None:
    symbols = ["NA", "nan", "NULL", '"', "", "1", "None"]
    write_folder(tmp_path, counts(2, 7), symbols=symbols)
    assert rebuilt(tmp_path).var_names.tolist() == symbols


def test_a_prefix_and_a_path_to_the_matrix_itself(tmp_path: Path) -> None:
    first, second = counts(3, 4), counts(5, 4, seed=1)
    write_folder(tmp_path, first, prefix="GSM1_", suffix=".gz")
    write_folder(tmp_path, second, prefix="GSM2_")
    assert np.array_equal(rebuilt(tmp_path, prefix="GSM1_").X.toarray(), first.toarray())
    by_path = rebuilt(tmp_path / "GSM2_matrix.mtx")
    assert np.array_equal(by_path.X.toarray(), second.toarray())
    with pytest.raises(FileNotFoundError, match=r"prefix=: \['GSM1_', 'GSM2_'\]"):
        rebuilt(tmp_path)


def test_feature_types_can_be_chosen(tmp_path: Path) -> None:
    matrix = counts(4, 3, 0.8)
    write_folder(tmp_path, matrix)
    table = "E0\tA\tGene Expression\nE1\tB\tAntibody Capture\nE2\tC\tGene Expression\n"
    write_text(tmp_path / "features.tsv", table)
    ours = rebuilt(tmp_path, feature_types="Gene Expression")
    assert ours.var_names.tolist() == ["A", "C"]
    assert np.array_equal(ours.X.toarray(), matrix.toarray()[:, [0, 2]])


def small_folder(folder: Path, matrix_text: str, n_genes: int = 3, n_cells: int = 2) -> Path:
    write_text(folder / "genes.tsv", "".join(f"E{j}\tS{j}\n" for j in range(n_genes)))
    write_text(folder / "barcodes.tsv", "".join(f"C{i}\n" for i in range(n_cells)))
    write_text(folder / "matrix.mtx", matrix_text)
    return folder


@pytest.mark.parametrize("memory_bytes", [1, 10**6])
@pytest.mark.parametrize(
    ("field", "entries", "expected", "dtype"),
    [
        ("integer", "1 1 5\n3 2 7\n", [[5, 0, 0], [0, 0, 7]], "f4"),
        ("integer", "3 2 7\n1 1 5", [[5, 0, 0], [0, 0, 7]], "f4"),
        ("integer", "1 1 5\r\n\r\n3 2 7\r\n", [[5, 0, 0], [0, 0, 7]], "f4"),
        ("integer", "\n1 1 1e+05\n\n3 2 7\n\n", [[100000, 0, 0], [0, 0, 7]], "f4"),
        ("integer", "1 1 16777216\n3 2 7\n", [[16777216, 0, 0], [0, 0, 7]], "f4"),
        ("integer", "1 1 16777217\n3 2 7\n", [[16777217, 0, 0], [0, 0, 7]], "i8"),
        ("integer", "1 1 -16777217\n3 2 7\n", [[-16777217, 0, 0], [0, 0, 7]], "i8"),
        ("integer", "1 1 5\n1 1 7\n", [[12, 0, 0], [0, 0, 0]], "f4"),
        ("real", "1 1 0.1\n3 2 7\n", [[np.float32(0.1), 0, 0], [0, 0, 7]], "f4"),
        ("real", "1 1 16777217\n3 2 7.5\n", [[16777217, 0, 0], [0, 0, 7.5]], "f8"),
        ("pattern", "1 1\n3 2\n", [[1, 0, 0], [0, 0, 1]], "f4"),
    ],
)
def test_entries_in_every_form(
    tmp_path: Path, memory_bytes: int, field: str, entries: str, expected: Any, dtype: str
) -> None:
    text = f"%%MatrixMarket matrix coordinate {field} general\n%\n% said twice\n3 2 2\n{entries}"
    ours = rebuilt(small_folder(tmp_path, text), memory_bytes=memory_bytes)
    assert ours.X.dtype == np.dtype(dtype)
    assert ours.X.toarray().tolist() == expected


def test_no_entry_at_all(tmp_path: Path) -> None:
    ours = rebuilt(small_folder(tmp_path, BANNER + "3 2 0\n"))
    assert ours.X.toarray().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_entries_in_random_order_by_way_of_temporary_files(tmp_path: Path) -> None:
    matrix = counts(60, 40, 0.4, seed=2)
    rng = np.random.default_rng(0)
    shuffled = sp.coo_matrix(matrix.T)
    order = rng.permutation(shuffled.nnz)
    entries = np.column_stack([shuffled.row + 1, shuffled.col + 1, shuffled.data])[order]
    lines = "".join(f"{row:.0f} {column:.0f} {value:.0f}\n" for row, column, value in entries)
    small_folder(tmp_path, f"{BANNER}40 60 {len(entries)}\n{lines}", n_genes=40, n_cells=60)
    assert scipy.io.mminfo(tmp_path / "matrix.mtx")[2] == matrix.nnz
    for memory_bytes in (1, 400, 4000, 10**6):
        ours = rebuilt(tmp_path, memory_bytes=memory_bytes)
        assert np.array_equal(ours.X.toarray(), matrix.toarray())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BANNER + "4 2 1\n1 1 1\n", r"has 4 rows, but genes\.tsv has 3 entries"),
        (BANNER + "3 5 1\n1 1 1\n", r"has 5 columns, but barcodes\.tsv has 2 entries"),
        (BANNER + "2 3 1\n1 1 1\n", r"has 2 rows.* cells x genes, and must be genes x cells"),
        (BANNER + "3 2 2\n1 1 1\n", r"announces 2 entries but holds 1: it is cut off"),
        (BANNER + "3 2 1\n1 1 1\n2 2 2\n", r"announces 1 entries but holds more"),
        (BANNER + "%\n3 2 2\n1 1 1\n2 x 2\n", r"about line 5: '2 x 2' is no entry; a gene and"),
        (BANNER + "3 2 2\n1 1 1\n2 2\n", r"about line 4: '2 2' is no entry; .* whole number are"),
        (BANNER + "3 2 2\n1 1 1\n2 2 1 9\n", r"about line 4: '2 2 1 9' is no entry"),
        (BANNER + "3 2 2\n\n1 1 1\n2 2 5,3\n", r"about line 4: '2 2 5,3' is no entry"),
        (BANNER + "3 2 2\n1 1 1\n2 2 5-3\n", r"about line 4: '2 2 5-3' is no entry"),
        (BANNER + "3 2 1\n1 1 1e\n", r"about line 3: '1 1 1e' is no entry; .*,? and a number are"),
        (REALS + "3 2 1\n1 1 0,5\n", r"about line 3: '1 1 0,5' is no entry"),
        (REALS + "3 2 1\n1 1 1.5.2\n", r"about line 3: '1 1 1\.5\.2' is no entry"),
        (REALS + "3 2 1\n1 1 1d3\n", r"about line 3: '1 1 1d3' is no entry"),
        (REALS + "3 2 1\n1 1.5 2\n", r"about line 3: '1 1\.5 2' is no entry"),
        (BANNER.replace("integer", "pattern") + "3 2 1\n1 1 2\n", r"'1 1 2' is no entry"),
        (BANNER + "3 2 2\n1 1 1\n4 1 2\n", r"about line 4: Row index out of bounds"),
        (BANNER + "3 2 2\n1 1 1\n1 1 2.5\n", r"about line 4: 2\.5 is no integer"),
        (BANNER + "3 2\n1 1 1\n", r"line 2 must give rows, columns and entries"),
        ("1 1 1\n", r"is no Matrix Market file"),
        (BANNER.replace("general", "symmetric") + "3 2 0\n", r"a symmetric matrix of integer"),
        (BANNER.replace("integer", "complex") + "3 2 0\n", r"a general matrix of complex"),
        (BANNER.replace("coordinate", "array") + "3 2\n", r"with 'array' data"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=rf"matrix\.mtx.*{words}"):
        rebuilt(small_folder(tmp_path, text))


def test_a_gzip_cut_off_or_damaged(tmp_path: Path) -> None:
    write_folder(tmp_path, counts(40, 30), suffix=".gz")
    for name in ("matrix.mtx.gz", "features.tsv.gz", "barcodes.tsv.gz"):
        path = tmp_path / name
        whole = path.read_bytes()
        for wrong in (whole[:-9], whole[: len(whole) // 2], whole[:12]):
            path.write_bytes(wrong)
            with pytest.raises(ValueError, match=rf"{name} is cut off"):
                rebuilt(tmp_path)
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + b"\xff\xff\xff" + whole[middle + 3 :])
        with pytest.raises(ValueError, match=name):
            rebuilt(tmp_path)
        path.write_bytes(whole)
    rebuilt(tmp_path)


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    folder = small_folder(tmp_path, BANNER + "3 2 0\n")
    write_text(folder / "genes.tsv", "E0\tA\nE1\nE2\tC\n")
    with pytest.raises(ValueError, match=r"genes\.tsv: line 2 has 1 columns, the first line has 2"):
        rebuilt(folder)
    (folder / "barcodes.tsv").rename(folder / "cells.tsv")
    with pytest.raises(FileNotFoundError, match=r"has no barcodes\.tsv or barcodes\.tsv\.gz"):
        rebuilt(folder)
    write_text(folder / "features.tsv.gz", "E0\tA\n")
    with pytest.raises(ValueError, match=r"holds features\.tsv\.gz and genes\.tsv: move away"):
        rebuilt(folder)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        rebuilt(folder / "none")
    with pytest.raises(ValueError, match=r"cells\.tsv is no Matrix Market file: it looks like"):
        rebuilt(folder / "cells.tsv")
    (folder / "matrix.mtx").rename(folder / "counts.mtx")
    with pytest.raises(ValueError, match=r"holds features\.tsv\.gz and genes\.tsv: move away"):
        rebuilt(folder / "counts.mtx")
    with pytest.raises(FileNotFoundError, match=r"no matrix\.mtx .*; name what .*/counts\.mtx$"):
        rebuilt(folder)
    with pytest.raises(ValueError, match=r'var_names=.symbols. must be "gene_symbols" or'):
        rebuilt(folder, var_names="symbols")


@pytest.mark.parametrize(
    ("matrix", "tables"),
    [
        ("spliced.mtx", ""),
        ("UniqueAndMult-EM.mtx.gz", ""),
        ("GSM1_spliced.mtx", "GSM1_"),
        ("GSM1_A.unspliced.mtx", "GSM1_A."),
        ("GSM1_spliced.mtx", ""),
    ],
)
def test_a_matrix_of_any_name_with_its_tables_beside_it(
    tmp_path: Path, matrix: str, tables: str
) -> None:
    values = counts(4, 5)
    write_folder(tmp_path, counts(2, 2), prefix="other_")
    write_folder(tmp_path, values, prefix=tables)
    text = (tmp_path / f"{tables}matrix.mtx").read_text()
    (tmp_path / f"{tables}matrix.mtx").unlink()
    write_text(tmp_path / matrix, text)
    for options in ({}, {"prefix": tables}):
        ours = rebuilt(tmp_path / matrix, **options)
        assert np.array_equal(ours.X.toarray(), values.toarray())
        assert ours.obs_names.tolist() == ["CELL0-1", "CELL1-1", "CELL2-1", "CELL3-1"]
    with pytest.raises(ValueError, match=f"{matrix} has 5 rows, but other_features.tsv has 2 ent"):
        rebuilt(tmp_path / matrix, prefix="other_")


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_unsigned_numbers_as_scipy_writes_them(tmp_path: Path, dtype: str) -> None:
    write_folder(tmp_path, counts(2, 3))
    matrix = sp.coo_matrix(np.array([[0, 7, 1], [2**24 + 1, 0, 0]], dtype=dtype))
    scipy.io.mmwrite(tmp_path / "matrix.mtx", matrix.T)
    assert "unsigned-integer" in (tmp_path / "matrix.mtx").read_text().splitlines()[0]
    ours = rebuilt(tmp_path)
    assert ours.X.dtype == np.int64
    assert ours.X.toarray().tolist() == [[0, 7, 1], [2**24 + 1, 0, 0]]


def test_a_number_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    text = BANNER.replace("integer", "unsigned-integer") + f"3 2 1\n1 1 {2**63}\n"
    with pytest.raises(ValueError, match="about line 3: Integer out of range"):
        rebuilt(small_folder(tmp_path, text))


def test_fractions_as_starsolo_writes_them(tmp_path: Path) -> None:
    text = BANNER.replace("integer", "float") + "%\n3 2 2\n2 1 0.5\n3 2 4\n"
    assert rebuilt(small_folder(tmp_path, text)).X.toarray().tolist() == [[0, 0.5, 0], [0, 0, 4]]


def test_a_folder_of_folders_says_where_its_matrix_is(tmp_path: Path) -> None:
    below = tmp_path / "sample" / "outs" / "filtered_feature_bc_matrix"
    below.mkdir(parents=True)
    write_folder(below, counts(2, 3), suffix=".gz")
    with pytest.raises(FileNotFoundError, match=f"no matrix.mtx .*; name what .*: {below}$"):
        rebuilt(tmp_path)
    with pytest.raises(ValueError, match=f"a folder without a count matrix; .*: {below}$"):
        scx_core.from_h5ad(tmp_path, tmp_path.parent / "a.scx")
