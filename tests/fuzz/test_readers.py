"""AnnData and Parquet files: what is read is what is in the file, and nothing of other files."""

import h5py
import numpy as np

from skmanifold.datasets import _anndata as anndata
from skmanifold.datasets import _parquet as parquet_reader

from . import _anndata_door, _parquet_door


def test_the_anndata_door_sees_what_is_accepted(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "secret", "w") as file:  # instead of a pipe, for which whoever opens it waits
        file["X"] = np.array(["a name", "another"], dtype=h5py.string_dtype())
    names = anndata._names
    monkeypatch.setattr(_anndata_door, "_CHANGES", [_anndata_door._link])
    monkeypatch.setattr(anndata, "_item", lambda path, group, name: group[name])
    monkeypatch.setattr(anndata, "_names", lambda *parts: [name.replace("4", "5") for name in names(*parts)])
    told = {_anndata_door.check(tmp_path, seed) for seed in range(25)}
    assert {"a malformed file was accepted", "something else was read than is in the file"} <= told


def test_the_parquet_door_sees_what_is_accepted(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_reader, "checked_counts", lambda values, path, line: np.nan_to_num(values).clip(0, 9))
    told = [_parquet_door.check(tmp_path, seed) for seed in range(60)]
    assert "a malformed file was accepted" in told
