"""Altered model files: each is refused in one sentence, or makes an estimator that answers as its class promises."""

import pytest

from fuzz._cases import by_seeds, failures
from fuzz._model_door import CASES, MIXTURES, QUICK

SHORT = ("StochasticLDA-esca-stream", "StochasticLDA-scir-stream", "directions", "rows-gaussian-stream")


@by_seeds(range(0, 200, 16), range(200))
def test_altered_files_are_refused_or_work(seeds, monkeypatch):
    monkeypatch.setenv("FUZZ_MODELS", ",".join(SHORT))
    assert failures("_model_door", seeds) == []


@pytest.mark.long
@pytest.mark.parametrize("names", [QUICK, tuple(CASES)], ids=["quick", "all"])
def test_altered_files_of_every_kind_are_refused_or_work(names, monkeypatch):
    monkeypatch.setenv("FUZZ_MODELS", ",".join(name for name in names if CASES[name][2]))
    assert failures("_model_door", range(1000, 2500)) == []


@pytest.mark.long
def test_altered_files_of_mixtures_with_every_emission_are_refused_or_work(monkeypatch):
    monkeypatch.setenv("FUZZ_MODELS", ",".join(MIXTURES))
    assert failures("_model_door", range(1000, 4000)) == []


@pytest.mark.long
def test_what_is_not_checked_is_reported(monkeypatch):
    monkeypatch.setenv("FUZZ_MODELS", "rates")
    monkeypatch.setenv("FUZZ_UNCHECKED", "1")
    found = failures("_model_door", range(40))
    assert found
