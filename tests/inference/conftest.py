"""What tests of checkpoints share."""

import shutil

import pytest

from skmanifold import distributed

from ._interrupted import X, lda, passes_of


@pytest.fixture(scope="session")
def cut_short(tmp_path_factory):
    """The folder of a fit of `lda()` that was cut short in pass 8; its last checkpoint is after pass 6."""
    folder = tmp_path_factory.mktemp("cut_short") / "passes"
    with pytest.MonkeyPatch.context() as patch, distributed(None, checkpoint_dir=folder, checkpoint_every=3):
        passes_of(patch, dies_in=8)
        with pytest.raises(KeyboardInterrupt):
            lda(n_chains=2).fit(X)
    return folder


@pytest.fixture
def checkpoint(cut_short, tmp_path):
    """A copy of `cut_short` for one test."""
    return shutil.copytree(cut_short, tmp_path / "passes")
