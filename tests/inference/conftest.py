"""What tests of fits on workers and of checkpoints share."""

import shutil

import pytest

from skmanifold.inference._distributed_fits import dask_shards

from ._interrupted import X, cut_short, lda


@pytest.fixture
def impatient(monkeypatch):
    """Do not wait for the workers of a fake cluster."""
    monkeypatch.setattr(dask_shards, "_PAUSE", 0.0)
    monkeypatch.setattr(dask_shards, "_LOOK_AFTER", 0.01)


@pytest.fixture(scope="session")
def interrupted(tmp_path_factory):
    """The folder of a fit of `lda()` that was cut short in pass 8; its last checkpoint is after pass 6."""
    folder = tmp_path_factory.mktemp("interrupted") / "passes"
    cut_short(lda(n_chains=2), X, None, folder)
    return folder


@pytest.fixture
def checkpoint(interrupted, tmp_path):
    """A copy of `interrupted` for one test."""
    return shutil.copytree(interrupted, tmp_path / "passes")
