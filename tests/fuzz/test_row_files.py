"""Altered files of rows are refused in one sentence with their name, or read as a slow reader reads them."""

import numpy as np
import pytest

from skmanifold.datasets import _row_files as row_files

from . import _row_file_door
from ._cases import failures


@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 1000), marks=pytest.mark.long)], ids=len)
def test_altered_files(seeds):
    assert failures("_row_file_door", seeds) == []


@pytest.mark.long
def test_many_altered_files():
    assert failures("_row_file_door", range(1_000, 6_000)) == []


def test_the_door_sees_what_is_accepted_or_wrong(tmp_path, monkeypatch):
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
