"""Files of readers that are replaced or modified between the reading of their shape and that of their documents."""

import os
import re
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.datasets import _documents as entries
from skmanifold.datasets import _files as text_files
from skmanifold.datasets import read_anndata, read_matrix_market, read_parquet, save_corpus

from .test_readers import LARGE, long_table, write_anndata, write_market, write_parquet

FIRST, OTHER = LARGE[:40], LARGE[:39]


def market(path, counts):
    return read_matrix_market, write_market(path, counts)


def parquet(path, counts):
    return read_parquet, write_parquet(path, long_table(counts))


def anndata(path, counts):
    return read_anndata, write_anndata(path, X=sp.csr_array(counts))


def in_place(path, other):
    path.write_bytes(other.read_bytes())


def removed(path, other):
    path.unlink()


CHANGES = [in_place, lambda path, other: os.replace(other, path), removed]


@pytest.fixture(params=[market, parquet, anndata], ids=lambda write: write.__name__)
def files(request, tmp_path):
    """A function that reads, the file that it reads, and another one."""
    read, path = request.param(tmp_path / "file", FIRST)
    os.utime(path, (1, 1))  # times of files can be coarse
    return read, path, request.param(tmp_path / "other", OTHER)[1]


@pytest.mark.parametrize("change", CHANGES, ids=["in place", "replaced", "removed"])
def test_other_files_are_refused_before_anything_is_saved(files, tmp_path, change):
    read, path, other = files
    reader = read(path)
    change(path, other)
    sentence = f"^{re.escape(str(path))} was modified or replaced after its reader was made: make a new reader\\.$"
    with pytest.raises(ValueError, match=sentence):
        save_corpus(reader, tmp_path / "corpus")
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("change", CHANGES, ids=["in place", "replaced", "removed"])
def test_files_that_change_during_an_iteration_are_refused(files, change, monkeypatch):
    for module, name in ((entries, "_CHUNK"), (text_files, "_BLOCK")):
        monkeypatch.setattr(module, name, 64)
    read, path, other = files
    reader = read(path)
    assert sum(len(block.indptr) - 1 for block in reader) == len(reader)
    blocks = iter(reader)
    next(blocks)
    change(path, other)
    with pytest.raises(ValueError, match="was modified or replaced after its reader was made"):
        list(blocks)


@pytest.mark.parametrize("as_folder", [True, False])
def test_each_of_several_files_is_watched(tmp_path, as_folder):
    folder = tmp_path / "files"
    folder.mkdir()
    for i, counts in enumerate((FIRST, OTHER)):
        write_parquet(folder / f"{i}.parquet", {**long_table(counts), "document": np.nonzero(counts)[0] + 100 * i})
        os.utime(folder / f"{i}.parquet", (1, 1))
    reader = read_parquet(folder if as_folder else sorted(folder.iterdir()))
    assert len(save_corpus(reader, tmp_path / "corpus")) == len(reader)
    shutil.copy(folder / "0.parquet", folder / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet was modified or replaced"):
        list(reader)


HEADER = b"%%MatrixMarket matrix coordinate integer general\n"


@pytest.mark.parametrize("number", [b"3\0", b"\0003", b"1_0", b"0x1", b"\xef\xbc\x93", b"\xd9\xa3", b"1,5", b"3;"])
def test_numbers_of_market_files_are_decimal(tmp_path, number):
    path = tmp_path / "m.mtx"
    for place in range(3):
        fields = [b"1", b"1", b"1"]
        fields[place] = number
        path.write_bytes(HEADER + b"12 12 1\n" + b" ".join(fields) + b"\n")
        with pytest.raises(ValueError, match=r"line 3: expected 'row column count' \(numbers\)"):
            list(read_matrix_market(path))
        path.write_bytes(HEADER + b" ".join(fields) + b"\n1 1 1\n")
        with pytest.raises(ValueError, match="line 2: expected the numbers of rows, columns and entries"):
            read_matrix_market(path)


def test_signs_points_and_exponents_are_allowed(tmp_path):
    (tmp_path / "m.mtx").write_bytes(HEADER + b"12 12 3\n+1 1.0 3e0\n1 2. 0000000000000000000000007\n1E1 3 -0\n\n \n")
    (block,) = read_matrix_market(tmp_path / "m.mtx")
    assert block.sum() == 10
    assert (block.toarray()[0, :2] == (3, 7)).all()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (HEADER.replace(b"coordinate", b"coordinatex") + b"1 1 1\n1 1 1\n", "line 1: expected '%%MatrixMarket matrix"),
        (HEADER.replace(b" int", b"\x1cint") + b"1 1 1\n1 1 1\n", "line 1: expected '%%MatrixMarket matrix"),
        (HEADER + b"%" + b"x" * (1 << 20) + b"1 1 1\n1 1 1\n", "line 2: expected the numbers of rows"),
        (HEADER + b"9 9 2\n1 1 1.0\r2 2 2\n", r"line 3: expected 'row column count' \(numbers\)"),
        (HEADER + b"9 9 2\n1 1 1\n\n2 2 2\n", "line 4: "),
    ],
)
@pytest.mark.parametrize("block", [8, 1 << 19])
def test_bad_lines_of_market_files_are_named_in_blocks_of_any_size(tmp_path, content, sentence, block, monkeypatch):
    monkeypatch.setattr(text_files, "_BLOCK", block)
    (tmp_path / "m.mtx").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        list(read_matrix_market(tmp_path / "m.mtx"))


def test_a_long_number_does_not_take_the_memory_of_as_many_numbers(tmp_path):
    n = 30_000
    lines = b"1 1 %s1\n" % (b"0" * 200_000) + b"".join(b"%d 1 1\n" % i for i in range(2, n + 1))
    (tmp_path / "m.mtx").write_bytes(HEADER + b"%d 1 %d\n" % (n, n) + lines)  # a NumPy array of bytes: 18 GB
    assert sum(block.sum() for block in read_matrix_market(tmp_path / "m.mtx")) == n
