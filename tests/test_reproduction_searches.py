"""Searches for the best settings of samplers in the reproductions, without sampling: all samplers are searched equally,
the score of validation data chooses the settings, and runs that depend on earlier rows go on after an interruption."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.papers import __main__ as papers
from benchmarks.papers import _searches, _stored_rows, _streams, baker2018_fig3a_best, baker2018_fig3b_best

MODULES = [baker2018_fig3a_best, baker2018_fig3b_best]
by_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])


def searched(module, sampler):
    """The settings of the search, the sampler's own first."""
    own = [case for case in module.cases(False) if (case["stage"], case["sampler"]) == ("search", sampler)]
    return [{name: case[name] for name in module.NAMES} for case in own]


@by_module
def test_each_sampler_has_as_many_settings_in_the_same_ranges(module):
    first, *others = module.SAMPLERS
    expected = searched(module, first)
    assert len(expected) == 1 + 2**module.LOG2_N
    for sampler in others:
        found = searched(module, sampler)
        assert found[0] == module.OWN[sampler]
        assert len(found) == len(expected)
        for name in module.NAMES:
            scale = module.OWN[sampler][name] / module.OWN[first][name] if "step_size" in name else 1.0
            ours, theirs = (np.array([each[name] for each in settings[1:]]) for settings in (found, expected))
            np.testing.assert_allclose(ours, scale * theirs, rtol=0.01)  # three digits


def scored(module, case, score):
    """Rows of a run with a given score of held-out data, where more is better."""
    if module is baker2018_fig3a_best:
        return [{**case, f"after_{case['n_seen']}": -score, "seconds": 1.0}]
    return [{**case, "after": n, "score": score, "components": 3} for n in (case["iterations"],)]


def preferred(module, cases, wanted, rows):
    """Rows in which the case number `wanted` of each sampler and schedule is best, a constant score for the others."""
    seen = {}
    for case in cases:
        group = case["sampler"], case.get("exponent", 1.0) > 0
        settings = tuple(case[name] for name in module.NAMES)
        place = seen.setdefault(group, {}).setdefault(settings, len(seen[group]))
        rows += scored(module, case, 1.0 if place == wanted else 0.0)


@by_module
def test_validation_rows_choose_the_settings_and_test_rows_do_not(module):
    rows = []
    preferred(module, [case for case in module.cases(False) if case["stage"] == "search"], 3, rows)
    near_cases, longer_cases, final_cases = module.LATER_CASES
    near = near_cases(rows, False)
    for sampler in module.SAMPLERS:
        best = module.ranking(rows, "search", sampler)[0][0]
        assert any(all(case[name] == best[name] for name in best) for case in near if case["sampler"] == sampler)
    assert len({case["seed"] for case in near}) == 1
    preferred(module, near, 2, rows)
    longer = longer_cases(rows, False)
    preferred(module, longer, 1, rows)
    final = final_cases(rows, False)
    chosen = {tuple(case[name] for name in module.NAMES) for case in final}
    assert chosen <= {tuple(case[name] for name in module.NAMES) for case in longer}
    assert len({case["seed"] for case in final}) == module.N_SEEDS
    assert not {case["seed"] for case in final} & {each["seed"] for each in rows if each["stage"] != "final"}
    for case in final:  # a wrong choice by test scores would now prefer the others
        rows += scored(module, case, -1e3)
    for case in longer:
        for seed in range(module.N_SEEDS):
            settings = tuple(case[name] for name in module.NAMES)
            if settings not in chosen:
                rows += scored(module, {**case, "stage": "final", "seed": seed}, 1e3)
    assert final_cases(rows, False) == final


@by_module
def test_later_runs_have_the_columns_and_the_sizes_of_the_first(module):
    rows = []
    preferred(module, [case for case in module.cases(True) if case["stage"] == "search"], 1, rows)
    for later_cases in module.LATER_CASES:
        later = later_cases(rows, True)
        assert {tuple(case) for case in later} == {tuple(module.cases(True)[0])}
        preferred(module, later, 1, rows)


def test_settings_without_a_finite_loss_are_last():
    rows = [{"a": 1, "loss": np.nan}, {"a": 2, "loss": 5.0}, {"a": 3, "loss": np.inf}, {"a": 4, "loss": 2.0}]
    rows += [{"a": 4, "loss": 4.0}]
    found = _searches.ranked(rows, ["a"], lambda each: each["loss"])
    assert [(settings["a"], loss) for settings, loss in found] == [(4, 3.0), (2, 5.0), (1, np.inf), (3, np.inf)]
    shown = list(_searches.best_and_own(found, {"a": 2}, 1, "Table 2"))
    assert shown == [("1 of 4", {"a": 4}, 3.0), ("2 of 4, Table 2", {"a": 2}, 5.0)]


def stages_of(module):
    """One run of each stage."""
    case = next(case for case in module.cases(True) if case["sampler"] == "SGRLD")
    return {stage: {**case, "stage": stage} for stage in ("search", "near", "longer", "final")}


def test_only_the_last_stage_reads_test_documents(monkeypatch):
    first_test = []

    def stream(*args, **settings):
        first_test.append(settings["first_test"])
        return {"seconds": 0.0}

    monkeypatch.setattr(baker2018_fig3a_best, "stream_perplexities", stream)
    for case in stages_of(baker2018_fig3a_best).values():
        baker2018_fig3a_best.run(**case)
    n_test = baker2018_fig3a_best.SIZES["final"][2]
    assert first_test == [n_test, n_test, n_test, 0]


def test_only_the_last_stage_reads_test_users(monkeypatch):
    monkeypatch.setattr(baker2018_fig3b_best, "load", lambda name, rows=None: (name, rows))
    for stage in ("search", "near", "longer"):
        (of_training, training), (of_validation, validation) = baker2018_fig3b_best.users_of(stage)
        assert of_training == of_validation == "msweb_train.npz"
        np.testing.assert_array_equal(np.sort(np.append(training, validation)), np.arange(32_711))
        assert len(validation) == 3000
    for stage in ("final", "concentration"):
        assert baker2018_fig3b_best.users_of(stage) == (("msweb_train.npz", None), ("msweb_test.npz", None))


def test_training_validation_and_test_documents_are_different(monkeypatch):
    n = 20_000
    numbers = sp.csr_array(np.arange(1, n + 1, dtype=np.int32)[:, np.newaxis])  # one word, a different count in each
    monkeypatch.setattr(_streams, "load_counts", lambda name: numbers)
    _streams._split.cache_clear()
    try:
        train, test = _streams.documents(1, 1000)
        again, validation = _streams.documents(1, 500, 1000)
    finally:
        _streams._split.cache_clear()
    parts = [set(part.data.tolist()) for part in (train, test, validation)]
    assert [len(part) for part in parts] == [18_000, 1000, 500]
    assert len(set.union(*parts)) == 19_500
    np.testing.assert_array_equal(train.data, again.data)


def test_runs_that_depend_on_rows_go_on_where_they_stopped(tmp_path):
    """First x = 0, 1, 2, then the neighbours of the x with the greatest value."""
    measured, fail_at = [], [2.5]

    def run(stage, x):
        if x in fail_at:
            raise KeyboardInterrupt
        measured.append((stage, x))
        return {"value": -((x - 2.2) ** 2)}

    def later_cases(rows, quick):
        best = max((each for each in rows if each["stage"] == "first"), key=lambda each: each["value"])
        return [{"stage": "later", "x": best["x"] + step} for step in (-0.5, 0.5)]

    first = [{"stage": "first", "x": x} for x in (0, 1, 2)]
    module = SimpleNamespace(cases=lambda quick: first, run=run, LATER_CASES=(later_cases,))
    path = tmp_path / "found.csv"
    with pytest.raises(KeyboardInterrupt):
        papers.measure(module, path, quick=False)
    fail_at.clear()
    for _ in range(2):
        papers.measure(module, path, quick=False)
    assert measured == [("first", 0), ("first", 1), ("first", 2), ("later", 1.5), ("later", 2.5)]
    assert len(_stored_rows.read(path)[1]) == 5
