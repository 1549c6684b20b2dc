"""Altered files, tables, matrices and names at every door: refused in one sentence, or answered as the door says."""

import pytest

from ._cases import failures
from ._model_door import CASES, MIXTURES, QUICK

FEW_MODELS = ("StochasticLDA-esca-stream", "StochasticLDA-scir-stream", "directions", "rows-gaussian-stream")
WHOLE = {name: [kind for kind in names if CASES[kind][2]] for name, names in (("quick", QUICK), ("all", CASES))}
CORPORA = ("_corpus_door", "_text_door", "_anndata_door", "_parquet_door")
SEEDS = [  # of the short suite, the extended one and the long one
    ("_row_file_door", None, range(200), {}),
    *((door, pytest.mark.extended, range(0, 400, 16), {}) for door in CORPORA),
    ("_checkpoint_door", pytest.mark.extended, range(0, 150, 10), {}),
    ("_sparse_door", pytest.mark.extended, range(0, 150, 25), {}),
    ("_selector_door", pytest.mark.extended, range(100), {}),
    ("_table_door", pytest.mark.extended, range(60), {"FUZZ_TABLES": "em"}),
    ("_table_door", pytest.mark.extended, range(10_000, 10_060), {}),
    ("_model_door", pytest.mark.extended, range(0, 200, 16), {"FUZZ_MODELS": FEW_MODELS}),
    ("_row_file_door", pytest.mark.long, range(200, 6_000), {}),
    *((door, pytest.mark.long, [*range(400), *range(1_000, 3_000)], {}) for door in CORPORA),
    ("_checkpoint_door", pytest.mark.long, range(2_650), {}),
    ("_sparse_door", pytest.mark.long, [*range(150), *range(1_000, 4_000)], {}),
    ("_selector_door", pytest.mark.long, range(10_000, 15_000), {}),
    ("_table_door", pytest.mark.long, range(2_500), {"FUZZ_TABLES": "em"}),
    ("_table_door", pytest.mark.long, range(10_000, 12_500), {}),
    ("_model_door", pytest.mark.long, range(200), {"FUZZ_MODELS": FEW_MODELS}),
    ("_model_door", pytest.mark.long, range(1_000, 2_500), {"FUZZ_MODELS": WHOLE["quick"]}),
    ("_model_door", pytest.mark.long, range(1_000, 2_500), {"FUZZ_MODELS": WHOLE["all"]}),
    ("_model_door", pytest.mark.long, range(1_000, 4_000), {"FUZZ_MODELS": MIXTURES}),
]


@pytest.mark.parametrize(
    ("door", "seeds", "settings"),
    [pytest.param(door, seeds, settings, marks=mark or ()) for door, mark, seeds, settings in SEEDS],
    ids=[f"{door.strip('_')}-{len(seeds)}-{place}" for place, (door, _, seeds, _) in enumerate(SEEDS)],
)
def test_altered_cases_are_refused_or_right(door, seeds, settings, monkeypatch):
    for name, value in settings.items():
        monkeypatch.setenv(name, value if isinstance(value, str) else ",".join(value))
    assert failures(door, seeds) == []


@pytest.mark.long
def test_a_mask_that_is_read_as_indices_is_reported(monkeypatch):
    monkeypatch.setenv("FUZZ_BROKEN", "1")
    assert any("mask, list" in told for told in failures("_selector_door", range(100)))


@pytest.mark.long
def test_what_is_not_checked_in_model_files_is_reported(monkeypatch):
    monkeypatch.setenv("FUZZ_MODELS", "rates")
    monkeypatch.setenv("FUZZ_UNCHECKED", "1")
    assert failures("_model_door", range(40))


@pytest.mark.long
def test_a_crash_an_endless_case_and_an_error_are_one_failure_each():
    """Those of a door that does everything that a door must not do; the cases after each are tried."""
    found = failures("_bad_door", range(6), limit=2.0, compiler_limit=0.0)
    told = "\n".join(found)
    assert len(found) == 4
    assert "seed 1: the process ended with -11" in told
    assert "seed 2: no answer within 2 s" in told
    assert "seed 3: Traceback" in told
    assert "seed 4: wrong" in told
