"""Altered checkpoints: a crash, an endless fit, another result and an unclear error are failures."""

import shutil

from fuzz import _checkpoint_door


def test_another_result_is_noticed(tmp_path):
    """Latents that belong to the other chain, under digests that fit, change it: no check but the fuzzer's can tell."""
    make, X = _checkpoint_door._FITS["esca"]
    case = _checkpoint_door._interrupted(make, X, tmp_path / "esca")
    kept = shutil.copytree(case.folder, tmp_path / "kept")
    assert _checkpoint_door.try_to_resume(case, kept) is None
    _checkpoint_door.swap_chains(case.folder / "pass-00000004")
    assert _checkpoint_door.try_to_resume(case, case.folder) == "the result is another one."
