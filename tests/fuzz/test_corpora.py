"""Corpora on disk and files of documents: nothing crashes, hangs, deceives or takes memory that the files do not."""

import re

import numpy as np
import pytest

from skmanifold.datasets import _corpus as corpus
from skmanifold.datasets import _matrix_market as matrix_market

from . import _corpus_door, _text_door
from ._cases import by_seeds, failures

DOORS = ["_corpus_door", "_text_door", "_anndata_door", "_parquet_door"]


@by_seeds(range(0, 400, 16), range(400))
@pytest.mark.parametrize("door", DOORS)
def test_altered_files(door, seeds):
    assert failures(door, seeds) == []


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS)
def test_many_altered_files(door):
    assert failures(door, range(1_000, 3_000)) == []


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
