"""Files of rows that are damaged, become shorter, or announce more than they have."""

import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from _memory import memory_below
from pyarrow import parquet

from skmanifold.datasets import RowFiles
from skmanifold.datasets import _row_files as row_files

ROWS = np.random.default_rng(0).poisson(0.6, (40, 6))
NAME = r"^\S*rows\.\w+ "  # how an error begins


def saved(path, rows=ROWS):
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        sp.save_npz(path, sp.csr_array(rows))
    else:
        table = pa.Table.from_pandas(pd.DataFrame(rows, columns=list("abcdef")), preserve_index=False)
        if path.suffix == ".parquet":
            parquet.write_table(table, path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
                file.write_table(table, max_chunksize=7)
    return path


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def test_a_file_that_becomes_shorter_under_its_rows_does_not_end_the_process(tmp_path):
    script = (
        "import os, sys\n"
        "from skmanifold.datasets import RowFiles\n"
        "for path in sys.argv[1:]:\n"
        "    (rows,) = RowFiles(path)\n"
        "    os.truncate(path, 4096)\n"
        "    print(rows.sum())\n"
    )
    rows = np.ones((20_000, 6))
    paths = [saved(tmp_path / f"rows.{kind}", rows) for kind in ("npy", "arrow")]
    child = subprocess.run([sys.executable, "-c", script, *map(str, paths)], capture_output=True, check=False)
    assert (child.returncode, child.stdout.split()) == (0, [b"120000.0"] * 2)


@pytest.mark.parametrize("chosen", [slice(None), slice(3000, 3009), np.array([1, 3000])])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_becomes_shorter_while_it_is_read_is_one_sentence(tmp_path, order, chosen):
    path = tmp_path / "rows.npy"
    np.save(path, np.asarray(np.tile(ROWS, (100, 1)), order=order))  # more than is read ahead
    with open(path, "rb") as file:
        rows = row_files._StoredRows(str(path), file)
        os.truncate(path, 128)
        with pytest.raises(ValueError, match=NAME + r"has been truncated since it was opened\.$"):
            rows[chosen]


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "arrow"])
def test_truncated_files_are_refused_when_they_are_listed_and_when_they_are_read(tmp_path, kind):
    path = saved(tmp_path / f"rows.{kind}")
    content = path.read_bytes()
    files = RowFiles(path)
    for size in range(0, len(content), max(1, len(content) // 20)):
        path.write_bytes(content[:size])
        for read in (lambda: RowFiles(path), files.files[0].read):
            with pytest.raises(ValueError, match=NAME + r"cannot be read as an? [^\n]*\)\.$"):
                read()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "arrow"])
def test_chosen_rows_are_those_of_the_whole_file(tmp_path, monkeypatch, kind, order):
    monkeypatch.setattr(row_files, "_READ", 200)  # bytes: a few rows
    (file,) = RowFiles(saved(tmp_path / f"rows.{kind}", np.asarray(ROWS, order=order))).files
    held = np.array([0, 1, 17, 18, 33])
    rest = np.delete(ROWS, held, axis=0)
    for chosen in (slice(None), slice(5, 31), slice(40, 40), held, held[:0]):
        np.testing.assert_array_equal(dense(file.read(chosen)), ROWS[chosen])
        np.testing.assert_array_equal(dense(file.without(held).read(chosen)), rest[chosen])


def test_rows_are_held_out_in_the_memory_of_these_rows(tmp_path):
    np.save(tmp_path / "rows.npy", np.ones((500_000, 8)))  # 32 MB
    files = RowFiles(tmp_path)
    with memory_below(12e6):
        kept, held = files.hold_out(np.arange(0, 500_000, 5000))
    assert (kept.shape, held.shape) == ((499_900, 8), (100, 8))


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "m8[D]", "U3", "S2", "V8", "f8,i4"])
def test_what_is_no_number_is_refused_when_files_are_listed(tmp_path, dtype):
    np.save(tmp_path / "rows.npy", np.zeros((3, 2), dtype))
    with pytest.raises(ValueError, match=NAME + r"must have numbers; it has the type \S.*\.$"):
        RowFiles(tmp_path)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"shape": np.array([40.0, 6.0])}, r"has the shape \[40.0, 6.0\]; it must be whole numbers"),
        ({"shape": np.array([-40, 6])}, r"is damaged: its shape is \(-40, 6\)"),
        ({"shape": np.array(40)}, "has the shape 40; it must be"),
        ({"shape": np.array([40])}, "has an array of 1 dimensions; it must have two"),
        ({"shape": np.array([2**31, 6])}, "cannot be read as a sparse matrix"),
        ({"format": np.array("lil")}, r"cannot be read as a sparse matrix [^\n]*\(KeyError: 'lil'\)"),
        ({"format": np.array(["csr", "csc"])}, "cannot be read as a sparse matrix"),
        ({"data": np.zeros(5)}, "cannot be read as a sparse matrix"),
        ({"data": np.ones(131, complex)}, "must have numbers, and whole numbers"),
        ({"indices": np.full(131, 0.5)}, "must have numbers, and whole numbers"),
        ({"indices": np.full(131, 6)}, "is not a valid CSR matrix: column index 6 in row 0, but there are 6 columns"),
    ],
)
def test_arrays_that_are_no_matrix_are_refused(tmp_path, changed, sentence):
    path = saved(tmp_path / "rows.npz")
    with np.load(path) as arrays:
        assert len(arrays["data"]) == 131
        np.savez(path, **{**arrays, **changed})
    with pytest.raises(ValueError, match=NAME + sentence + r"[^\n]*\.$"):
        list(iter(RowFiles(path)))


def test_offsets_that_would_become_negative_are_refused(tmp_path):
    sp.save_npz(tmp_path / "rows.npz", sp.dia_array(([[1, 1]], [1]), shape=(2, 2)))
    with np.load(tmp_path / "rows.npz") as arrays:
        np.savez(tmp_path / "rows.npz", **{**arrays, "offsets": np.array([2**64 - 1], np.uint64)})
    with pytest.raises(ValueError, match=NAME + "must have numbers, and whole numbers"):
        list(iter(RowFiles(tmp_path)))


def test_files_that_announce_more_than_they_have_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.npz"
    few = sp.coo_array(([1], ([0], [0])), shape=(2**31 - 1, 3))
    sp.save_npz(path, few)
    sentence = "has 2147483647 rows for 1 entries: if that is correct, save"
    with memory_below(2e6), pytest.raises(ValueError, match=NAME + sentence):
        next(iter(RowFiles(path)))
    monkeypatch.setattr(row_files, "DEFAULT_BYTES", 1000)
    sp.save_npz(path, sp.csr_array(np.ones((2000, 100))))
    with pytest.raises(ValueError, match=NAME + r".*its arrays take more than \d+ bytes; if you trust the file"):
        next(iter(RowFiles(path)))
    constant = pd.DataFrame({"a": np.zeros(10**6, np.int64)})
    constant.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=NAME + r"has 1000000 rows of 1 columns in only \d+ bytes: if that is correct"):
        RowFiles(tmp_path / "rows.parquet")
    sp.save_npz(path, sp.csr_array(np.ones((2000, 100))), compressed=False)
    assert next(iter(RowFiles(path))).sum() == 200_000


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_tables_that_cannot_be_rows_are_refused_in_one_sentence(tmp_path, kind):
    def refused(table, sentence):
        written = io.BytesIO()
        if kind == "parquet":
            parquet.write_table(table, written)
        else:
            with pa.ipc.new_file(written, table.schema) as file:
                file.write_table(table)
        path = tmp_path / f"rows.{kind}"
        path.write_bytes(written.getvalue())
        with pytest.raises(ValueError, match=sentence):
            RowFiles(path)

    twice = pa.table([[1, 2], [3, 4]], names=["a", "a"])
    refused(twice, NAME + r"cannot be read as .* table \(ArrowInvalid: .* duplicate field names\)\.$")
    for described in ("[1]", '{"index_columns": "a"}'):
        table = pa.table({"a": [1]}).replace_schema_metadata({"pandas": described})
        refused(table, NAME + r"has no valid description of its index\.$")
    refused(pa.table({"a": [1]}).replace_schema_metadata({"pandas": "{"}), NAME + "cannot be read as an? .* table")


def test_missing_booleans_are_nan(tmp_path):
    parquet.write_table(pa.table({"a": [True, None, False], "b": [1, 2, 3]}), tmp_path / "rows.parquet")
    (rows,) = RowFiles(tmp_path)
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, [[1, 1], [np.nan, 2], [0, 3]])


def test_names_of_folders_are_no_columns(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    (rows,) = RowFiles(saved(folder / "rows.parquet"))
    np.testing.assert_array_equal(rows, ROWS)
