"""The doors of files see what is accepted or read wrongly."""

import re

import h5py
import numpy as np
import pytest

from skmanifold.datasets import _binary_formats as binary_formats
from skmanifold.datasets import _corpus as corpus
from skmanifold.datasets import _matrix_market as matrix_market
from skmanifold.datasets import _row_files as row_files

from . import _anndata_door, _corpus_door, _parquet_door, _row_file_door, _text_door


def test_the_corpus_door_sees_what_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr(_corpus_door, "with_fits", False)  # which could crash
    prepared = _corpus_door.prepare(tmp_path)
    monkeypatch.setattr(corpus, "rows_fault", lambda *parts: None)
    monkeypatch.setattr(corpus, "range_fault", lambda *parts: None)
    monkeypatch.setattr(corpus.StoredArray, "_verify", lambda *parts: None)
    told = {_corpus_door.check(prepared, seed) for seed in range(150)}
    assert "changed documents were accepted" in told
    assert "counts that no document has were accepted" in told
    assert "columns that no document has were accepted" in told


def test_the_text_door_sees_what_is_accepted(tmp_path, monkeypatch):
    def careless(path):
        return path.read_bytes().decode("latin-1").split()

    monkeypatch.setattr(_text_door, "KINDS", ("vocabulary",))
    monkeypatch.setattr(_text_door, "load_vocabulary", careless)
    told = {_text_door.check(tmp_path, seed) for seed in range(40)}
    assert {"a malformed file was accepted", "something else was read than is in the file"} <= told
    monkeypatch.setattr(_text_door, "load_vocabulary", lambda path: [str(np.ones(20_000_000).sum())])
    told = [_text_door.check(tmp_path, seed) for seed in range(5)]
    assert any(sentence and " MB for " in sentence for sentence in told)


def test_the_text_door_sees_what_matrix_market_must_not_have(tmp_path, monkeypatch):
    monkeypatch.setattr(_text_door, "KINDS", ("market",))
    for part, careless, seeds in (
        ("_NOT_IN_NUMBERS", re.compile(rb"[*]"), range(10)),
        ("stamps_of", lambda path: {}, range(40)),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(matrix_market, part, careless)
            assert "a malformed file was accepted" in {_text_door.check(tmp_path, seed) for seed in seeds}


def test_the_anndata_door_sees_what_is_accepted(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "secret", "w") as file:  # instead of a pipe, for which whoever opens it waits
        file["X"] = np.array(["a name", "another"], dtype=h5py.string_dtype())
    names = binary_formats._names
    monkeypatch.setattr(_anndata_door, "_CHANGES", [_anndata_door._link])
    monkeypatch.setattr(binary_formats, "_item", lambda path, group, name: group[name])
    monkeypatch.setattr(binary_formats, "_names", lambda *parts: [name.replace("4", "5") for name in names(*parts)])
    told = {_anndata_door.check(tmp_path, seed) for seed in range(25)}
    assert {"a malformed file was accepted", "something else was read than is in the file"} <= told


def test_the_parquet_door_sees_what_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr(binary_formats, "checked_counts", lambda values, path, line: np.nan_to_num(values).clip(0, 9))
    told = [_parquet_door.check(tmp_path, seed) for seed in range(60)]
    assert "a malformed file was accepted" in told


def test_the_row_file_door_sees_what_is_accepted_or_wrong(tmp_path, monkeypatch):
    def told(n):
        return [_row_file_door.check(tmp_path, seed) for seed in range(n)]

    with monkeypatch.context() as patch:
        patch.setattr(row_files, "check_members", lambda archive, n_bytes: None)
        assert "a malformed file was accepted" in told(60)
    with monkeypatch.context() as patch:
        patch.setattr(row_files._StoredRows, "_read", lambda self, first, shape: np.ones(shape))
        assert "something else was read than is in the file" in told(20)
    with monkeypatch.context() as patch:
        patch.setattr(row_files, "read_array_header", lambda file, name, n_bytes: 1 / 0)
        assert any(text and "a good file was refused" in text for text in told(20))
    monkeypatch.setattr(row_files, "opened_regular", lambda path: open("no such file"))  # noqa: SIM115
    with pytest.raises(FileNotFoundError):
        told(1)
