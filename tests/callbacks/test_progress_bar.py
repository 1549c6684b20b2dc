"""A progress bar that says how far a fit is, how well it stands and how fast it goes."""

import pickle
import re

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skmanifold import (
    ExponentialFamilyMixture,
    HeldOutMonitor,
    ProgressBar,
    StochasticLDA,
    SubspaceClassifier,
    VonMisesFisherMixture,
)
from skmanifold.callbacks._hooks import PassReport
from skmanifold.callbacks._progress import _short, _status, bars_with_status

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(50, 3))
COUNTS = rng.poisson(1.0, (50, 10))
NUMBER = r"-?[\d.]+(e[+-]\d+)?"


@pytest.fixture
def screen(capsys, monkeypatch):
    """The text of the terminal at the end; lines are joined, since rich may know the width of another terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")
    return lambda: " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("n_chains", [1, 2])
def test_topics_are_told_by_tokens(screen, n_chains):
    lda = StochasticLDA(2, max_iter=7, n_chains=n_chains, random_state=0).set_callbacks(ProgressBar()).fit(COUNTS)
    out = screen()
    assert re.search(rf"StochasticLDA: 7 of 7, log likelihood {NUMBER}, {NUMBER}[kMG]? tokens/s", out)
    shown = float(re.search(rf"log likelihood ({NUMBER})", out)[1])
    assert shown == pytest.approx(lda.log_density_trace_[lda.best_chain_, -1], rel=1e-5)
    assert "100%" in out


def test_rows_are_told_where_there_are_no_tokens_and_held_out_scores_where_they_are_made(screen):
    monitor = HeldOutMonitor(every=3)
    mixture = ExponentialFamilyMixture(2, emission="gaussian", max_iter=7, random_state=0)
    mixture.set_callbacks(monitor, ProgressBar()).fit(ROWS)
    out = screen()
    shown = re.search(rf"7 of 7, log likelihood {NUMBER}, held-out score ({NUMBER}), {NUMBER}[kMG]? rows/s", out)
    assert shown is not None, out
    assert float(shown[2]) == pytest.approx(monitor.get_logs().data[-1]["score"], rel=1e-5)


def test_starts_and_classes_have_bars_of_their_own(screen):
    VonMisesFisherMixture(2, n_init=3, max_iter=4, tol=0, random_state=0).set_callbacks(ProgressBar()).fit(ROWS)
    out = screen()
    assert out.count("VonMisesFisherMixture - start") >= 3
    assert "VonMisesFisherMixture: 4 of 4, lower bound" in out
    SubspaceClassifier(random_state=0).set_callbacks(ProgressBar()).fit(ROWS, ROWS[:, 0] > 0)
    out = screen()
    assert "SubspaceClassifier - class | SubspaceMixture - fit #1" in out
    assert "SubspaceMixture: 30 of 30" in out


@pytest.mark.long
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_it_is_set_on_a_search_and_shows_the_estimators_within(screen, n_jobs, sklearn_callback):
    lda = StochasticLDA(max_iter=5, random_state=0)
    search = GridSearchCV(lda, {"n_components": [2, 3]}, cv=2, n_jobs=n_jobs)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(COUNTS)
    out = screen()
    assert "GridSearchCV - fit" in out
    assert "StochasticLDA: 5 of 5" in out
    assert not hasattr(search.best_estimator_, "_skl_callbacks")


def test_a_pickled_bar_goes_on(screen):
    bar = pickle.loads(pickle.dumps(ProgressBar()))
    StochasticLDA(2, max_iter=3, random_state=0).set_callbacks(bar).fit(COUNTS)
    StochasticLDA(2, max_iter=4, random_state=0).set_callbacks(bar).fit(COUNTS)
    assert "4 of 4" in screen()


@pytest.mark.parametrize(
    ("number", "text"), [(0.5, "0.5"), (999, "999"), (1000, "1k"), (1.234e6, "1.23M"), (5e9, "5G"), (21, "21")]
)
def test_numbers_are_short(number, text):
    assert _short(number) == text


def test_speed_is_that_of_all_passes_so_far():
    report = PassReport("log joint", -1234.5678, 2000, "rows", True)
    assert _status(report, 5, 10, 2.0, None) == "5 of 10, log joint -1234.57, 5k rows/s"
    assert _status(report, 5, 10, 0.0, -2.5) == "5 of 10, log joint -1234.57, held-out score -2.5"


def test_descriptions_are_no_markup(screen):
    with bars_with_status() as bars:
        bars.add_task("[/bold]a [red]b", total=1.0)
        bars._ordered_tasks = bars.tasks
    assert "[/bold]a [red]b" in screen()
