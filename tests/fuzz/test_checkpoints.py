"""Altered checkpoints: a crash, an endless fit, another result and an unclear error are failures."""

import shutil

import pytest

from fuzz import _checkpoint_door
from fuzz._cases import by_seeds, failures


@by_seeds(range(0, 150, 10), range(150))
def test_altered_checkpoints(seeds):
    assert failures("_checkpoint_door", seeds) == []


@pytest.mark.long
def test_many_altered_checkpoints():
    assert failures("_checkpoint_door", range(150, 2650)) == []


def test_another_result_is_noticed(tmp_path):
    """Latents that belong to the other chain, under digests that fit, change it: no check but the fuzzer's can tell."""
    make, X = _checkpoint_door._FITS["esca"]
    case = _checkpoint_door._interrupted(make, X, tmp_path / "esca")
    kept = shutil.copytree(case.folder, tmp_path / "kept")
    assert _checkpoint_door.try_to_resume(case, kept) is None
    _checkpoint_door.swap_chains(case.folder / "pass-00000004")
    assert _checkpoint_door.try_to_resume(case, case.folder) == "the result is another one."
