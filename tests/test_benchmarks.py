"""The benchmarks' machinery: comparisons name the right winner and what is missing, and the suites can be set up."""

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import geninvgauss, kstest
from sklearn.base import BaseEstimator
from sklearn.metrics import adjusted_rand_score

import skmanifold
from benchmarks import _compare_charts as charts
from benchmarks import _compare_table as table
from benchmarks import _compare_turns as turns
from benchmarks import _esca_variants as variants
from benchmarks import _mixtures_of_mixtures as nested
from benchmarks import _results as results
from benchmarks import compare, direction_models, first_fit, seeded_results
from benchmarks import lda_ablation as ablation
from benchmarks._corpora import split_documents
from benchmarks.asv.suites import first_use, passes, quality
from skmanifold import VonMisesFisherMixture
from skmanifold.datasets import make_lda_corpus

FOLDER = Path(compare.__file__).parent
Contest, Contestant, Measure, hold = turns.Contest, turns.Contestant, turns.Measure, turns.hold


def contest(measures, **given):
    """Contestants that give the numbers given, ours being those whose names begin with "ours"."""
    contestants = [
        Contestant(name, lambda each=each: each.__getitem__, turns.OURS if name.startswith("ours") else "numpy")
        for name, each in given.items()
    ]
    return Contest("A contest", "Made up", measures, contestants)


def found_in(held, n_turns):
    return table.results_of(held, hold(held, n_turns))


def rows_of(text):
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return {cells[0]: cells[1:] for cells in lines[2:]}


@pytest.mark.parametrize("folder", [FOLDER, FOLDER.parent / "tests"], ids=lambda folder: folder.name)
def test_no_benchmark_is_imported_by_its_plain_name(folder):
    """Another module could have the name `cluster` or `compare`."""
    plain = {path.stem for path in FOLDER.iterdir()} | {"suites"}
    found = []
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            found += [f"{path.name}: {name}" for name in names if name.partition(".")[0] in plain]
    assert found == []


def test_the_best_of_each_column_is_bold_whoever_has_it():
    measures = Measure("speed"), Measure("seconds", "lower"), Measure("size", None)
    held = contest(measures, ours=[(2.0, 3.0, 9.0)] * 3, peer=[(1.0, 1.0, 1.0)] * 3, other=[(1.5, 2.0, 5.0)] * 3)
    rows = rows_of(table.contest_table(found_in(held, 3)))
    assert rows["ours"] == ["**2**", "", "3", "", "9"]
    assert rows["peer"] == ["1", "2", "**1**", "0.333", "1"]
    assert rows["other"] == ["1.5", "1.33", "2", "0.667", "5"]


def test_the_median_decides_and_the_range_is_shown():
    held = contest((Measure("speed"),), ours=[(1.0,), (2.0,), (9.0,)], peer=[(3.0,), (3.0,), (3.0,)])
    rows = rows_of(table.contest_table(found_in(held, 3)))
    assert rows["ours"] == ["2 (1 to 9)", ""]
    assert rows["peer"] == ["**3**", "0.667 (0.333 to 3)"]


def test_numbers_of_either_sign_are_compared_by_their_difference():
    held = contest((Measure("nats", "higher", "difference", ".2f"),), ours=[(-5.0,)] * 2, peer=[(-6.0,), (-5.5,)])
    found = found_in(held, 2)
    rows = rows_of(table.contest_table(found))
    assert rows["ours"][0].startswith("**")
    assert rows["peer"] == ["-5.75 (-6.00 to -5.50)", "+0.75 (+0.50 to +1.00)"]
    assert table.summary_rows(found)[0][3] == "**skmanifold**"


def test_equal_winners_are_both_bold():
    held = contest((Measure("accuracy", digits=".3f"),), ours=[(0.9751,)], peer=[(0.9749,)], other=[(0.97,)])
    rows = rows_of(table.contest_table(found_in(held, 1)))
    assert [rows[name][0] for name in rows] == ["**0.975**", "**0.975**", "0.970"]


@pytest.mark.parametrize(
    ("peer", "won"),
    [
        ((6.0, 7.0, 8.0), "**skmanifold**"),
        ((1.0, 2.0, 2.5), "**other**"),
        ((2.0, 2.0, 4.0), "undecided"),
        ((3.0, 3.0, 3.0), "undecided"),
    ],
)
def test_the_summary_compares_the_best_of_ours_with_the_best_peer(peer, won):
    seconds = {
        "ours": (9.0, 9.0, 9.0),
        "ours, second": (3.0, 3.0, 3.0),
        "peer": peer,
        "peer, worse": (50.0, 50.0, 50.0),
    }
    held = contest((Measure("seconds", "lower"),), **{name: [(t,) for t in each] for name, each in seconds.items()})
    row = table.summary_rows(found_in(held, 3))[0]
    assert row[2:4] == ["ours, second / peer", won]


def test_contestants_take_turns_in_the_same_order():
    seen = []

    def begin(name):
        return lambda: lambda turn: seen.append((name, turn)) or (1.0,)

    hold(Contest("", "", (Measure("speed"),), [Contestant("a", begin("a")), Contestant("b", begin("b"))]), 3)
    assert seen == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_missing_peer_is_named():
    held = contest((Measure("speed"), Measure("seconds", "lower")), ours=[(1.0, 1.0)])
    held.contestants.append(Contestant("peer", lambda: pytest.fail("was begun"), "no_package_of_this_name"))
    found = found_in(held, 1)
    assert rows_of(table.contest_table(found))["peer"] == ["not installed", "", "", ""]
    assert table.summary_rows(found)[0][2:] == ["ours / no_package_of_this_name not available", "", ""]


def a_run(contests, **changes):
    run = {"command": "python -m benchmarks.compare", "quick": False, "only": [], "n_turns": 3, "minutes": 8.0}
    run |= {"machine": "A machine", "load": [0.1, 0.2], "versions": "numpy 2.4", "missing": "", "contests": contests}
    return run | changes


def test_the_page_names_what_is_not_installed():
    found, missing = results.versions(("numpy", "no-distribution-of-this-name"))
    assert found.startswith("numpy ")
    assert missing == "no-distribution-of-this-name"
    text = compare.page(a_run([], missing=missing, quick=True))
    assert "- Not installed: no-distribution-of-this-name\n" in text
    assert "too small for conclusions" in text


def a_comparison():
    measures = Measure("million rows per second"), Measure("held-out nats per row", "higher", "difference", ".2f")
    held = contest(measures, ours=[(40.0, -1.0), (50.0, -1.1)], peer=[(1.0, -1.5), (2.0, -1.6)])
    return json.loads(json.dumps(found_in(held, 2)))  # as it is kept


def test_the_page_shows_a_made_up_comparison():
    text = compare.page(a_run([a_comparison()]), {"A contest": "../results/chart.svg"})
    assert text.startswith("# Benchmarks: comparison with other libraries\n")
    assert "| comparison | measure | compared methods | winner | advantage |" in text
    assert "| A contest | million rows per second | ours / peer | **skmanifold** | 32.5 (25 to 40) |" in text
    assert "## A contest\n\nData: Made up. \n\n![Bar chart: million rows per second and" in text
    assert "| peer | 1.5 (1 to 2) | 32.5 (25 to 40) | -1.55 (-1.60 to -1.50) | +0.50 |" in text
    assert not re.search(r"\b(beside|told|nats a row|a second|s of the processor|as it comes)\b", text)


def test_later_results_replace_those_of_the_same_comparison():
    first, second, later = (a_comparison() | {"title": title} for title in ("First", "Second", "First"))
    later["data"] = "Other data"
    stored = compare.updated(a_run([first, second]), a_run([later], versions="numpy 2.5"))
    assert [(found["title"], found["data"]) for found in stored["contests"]] == [
        ("First", "Other data"),
        ("Second", "Made up"),
    ]
    line = "- Measured later, in one run (A machine; load average 0.1 before and 0.2 after it; numpy 2.5): First\n"
    assert line in compare.page(stored)
    assert compare.updated(stored, a_run([later, second]))["updates"][0]["titles"] == ["First", "Second"]


def test_the_page_in_the_documentation_is_that_of_its_data():
    run = json.loads(compare.RESULTS.read_text(encoding="utf-8"))
    drawn = [found for found in run["contests"] if charts.has_chart(found)]
    links = {found["title"]: f"../benchmarks/results/{charts.chart_name(found)}" for found in drawn}
    assert compare.PAGE.read_text(encoding="utf-8") == compare.page(run, links)
    files = {charts.chart_name(found) for found in drawn}
    assert files == {path.name for path in results.FOLDER.glob("compare_*.svg")}


def test_words_that_only_held_out_documents_have_are_left_out():
    first = np.random.default_rng(0).permutation(20)[0]  # the first held-out document of this seed
    X = np.ones((20, 3), int)
    X[:, 1] = np.arange(20) == first
    train, test = split_documents(sp.csr_array(X))
    assert (train.shape, test.shape) == ((18, 2), (2, 2))
    assert train.sum() + test.sum() == 40


@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # of matplotlib 3.8
def test_charts_are_logarithmic_where_factors_are_large(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "chart.svg"
    charts.draw(a_comparison(), path)
    text = path.read_text(encoding="utf-8")
    assert "million rows per second" in text
    assert "(higher is better)" in text
    assert "10^{" in text


def test_a_failure_of_a_peer_is_reported_and_ours_is_an_error():
    def fail(turn):
        raise RuntimeError("too | small\nindeed")

    held = contest((Measure("speed"),), ours=[(1.0,)] * 2, peer=[(2.0,)] * 2)
    held.contestants[1] = Contestant("peer", lambda: fail, "numpy")
    assert rows_of(table.contest_table(found_in(held, 2)))["peer"] == ["failed: RuntimeError: too / small", ""]
    held.contestants[1] = Contestant("ours, broken", lambda: fail)
    with pytest.raises(RuntimeError):
        hold(held, 2)


def test_first_fits_are_those_of_every_estimator():
    found = (getattr(skmanifold, name) for name in skmanifold.__all__)
    estimators = {each.__name__ for each in found if isinstance(each, type) and issubclass(each, BaseEstimator)}
    assert set(first_fit.CASES) == estimators


def test_a_function_is_not_charged_for_those_that_it_calls():
    def event(name, is_start):
        function = SimpleNamespace(__module__="skmanifold.kernels", __qualname__=name)
        return SimpleNamespace(is_start=is_start, data={"dispatcher": SimpleNamespace(py_func=function)})

    seen = [(0.0, "outer", True), (1.0, "inner", True), (4.0, "inner", False), (6.0, "outer", False)]
    seen += [(7.0, "inner", True), (8.0, "inner", False)]
    compiled = first_fit.compiled_functions([(now, event(name, is_start)) for now, name, is_start in seen])
    assert compiled == {"kernels.inner": (2, 4.0), "kernels.outer": (1, 3.0)}


def test_the_import_compiles_nothing(tmp_path):
    found = first_fit.in_fresh_process("import", tmp_path)
    assert found["compiled"] == []
    assert first_fit.n_files(tmp_path) == 0


def test_suites_can_be_set_up():
    of_passes = passes.Passes()
    of_passes.n_rows = 200
    of_passes.setup("VonMisesFisherMixture")
    assert of_passes.track_ns_a_row_or_token("VonMisesFisherMixture") > 0
    of_fit = passes.Fit()
    of_fit.setup("VonMisesFisherMixture")
    of_fit.time_predict_or_transform("VonMisesFisherMixture")
    of_samples = quality.EffectiveSamples()
    of_samples.setup(of_samples.params[0])
    quality.HeldOut().setup()
    for code in (*first_use.Import().timeraw_skmanifold(), *first_use.FirstFit().timeraw_warm("StochasticLDA")):
        compile(code, "suite", "exec")


@pytest.mark.extended
def test_the_variants_of_esca_draw_from_the_same_distribution():
    X = make_lda_corpus(30, 12, 4, mean_length=25, random_state=0).data
    model, chains = ablation.make_chains(X, 4, 5)
    counts, alpha, state = model.counts, model.doc_topic_prior, chains["all weights"].state
    rows = np.repeat(np.repeat(np.arange(30), np.diff(counts.indptr)), counts.counts)
    doc_topic = np.zeros((30, 4))
    np.add.at(doc_topic, (rows, state.topics), 1.0)
    words = np.repeat(counts.indices, counts.counts)
    topics = (state.word_topic + ablation.BETA) / (state.totals + 12 * ablation.BETA)
    probabilities = (doc_topic + alpha)[rows] * topics[words]
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected, variance = np.zeros((12, 4)), np.full((12, 4), 1e-9)
    np.add.at(expected, words, probabilities)
    np.add.at(variance, words, probabilities * (1.0 - probabilities))

    def draw_counts(name, key):
        chain = chains[name]
        if name == "inverse CDF":
            latents = type(chain.latents)(*(array.copy() for array in chain.latents))
            return chain.sample(chain.position, latents, key)[1].tocsr().toarray()
        return variants.step(chain.kernel, model, state._replace(topics=state.topics.copy()), 0.1, key).word_topic

    for name in ("all weights", "alias tables", "inverse CDF"):
        mean = np.mean([draw_counts(name, np.uint64(key)) for key in range(400)], axis=0)
        assert np.abs((mean - expected) / np.sqrt(variance / 400)).max() < 4.5, name


def test_seeded_results_that_differ_are_named(tmp_path, capsys):
    case = ["--only", "flat, HMC"]
    assert seeded_results.main(case) == 0
    shown, before = capsys.readouterr().out, tmp_path / "before.txt"
    assert re.fullmatch(r"flat, HMC\(.*\): [0-9a-f]{64}\n", shown)
    before.write_text(shown)
    assert seeded_results.main([*case, "--compare", str(before)]) == 0
    before.write_text(shown.replace(shown[-5], "0" if shown[-5] != "0" else "1"))
    assert seeded_results.main([*case, "--compare", str(before)]) == 1
    assert capsys.readouterr().out == f"1 cases, 0 differ\ndiffers: {shown}1 cases, 1 differ\n"


def test_runs_that_were_kept_are_not_repeated(tmp_path, monkeypatch):
    mixture, measured = direction_models.MIXTURE, []
    methods = {mixture: VonMisesFisherMixture, "other": VonMisesFisherMixture}
    texts = SimpleNamespace(rows={"tf-idf": (np.eye(4), None)})
    monkeypatch.setattr(direction_models, "read_texts", lambda *_: texts)
    monkeypatch.setattr(direction_models, "measure", lambda name, *_: measured.append(name) or {"nats": len(measured)})
    options = SimpleNamespace(keep=tmp_path / "runs.jsonl", seeds=[0], n_components=2, quick=False)
    first = direction_models.measure_all("a", "tf-idf", methods, None, options)
    assert direction_models.measure_all("a", "tf-idf", methods, None, options) == first
    options.seeds = [0, 1]
    again = direction_models.measure_all("a", "tf-idf", methods, None, options)
    assert (measured, again["other"]) == ([mixture, "other"] * 2, [{"nats": 2}, {"nats": 4}])


@pytest.mark.parametrize("b", [0.01, 3.0, 100.0])
def test_drawn_inverse_gaussians_have_their_distribution(b):
    draws = nested.inverse_gaussians(7.5, 20.0, np.full((40, 50), b), np.random.default_rng(0))
    exact = geninvgauss(7.5, np.sqrt(20.0 * b), scale=np.sqrt(b / 20.0))
    assert kstest(draws.ravel(), exact.cdf).pvalue > 0.01


def test_drawn_precision_matrices_have_their_mean():
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    factors = nested.wishart_factors(np.full(20_000, 3.0), np.tile(C, (20_000, 1, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(nested.squares(factors).mean(axis=0), 3.0 * np.linalg.inv(C), atol=0.06)


def test_mixtures_of_mixtures_find_planted_clusters(monkeypatch):
    monkeypatch.setattr(nested, "N_BURN_IN", 100)
    monkeypatch.setattr(nested, "N_DRAWS", 40)
    rng, known = np.random.default_rng(0), np.repeat(np.arange(3), 60)
    X = 6.0 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[known] + rng.normal(size=(180, 2))
    ((labels, _),) = nested.overlapping_priors(4, X, None, 0).values()
    assert adjusted_rand_score(known, labels) > 0.95
