import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skmanifold.inspection import CriteriaDisplay
from skmanifold.metrics import bic_scorer

X = np.random.default_rng(0).normal(size=(60, 2)) + 5.0 * (np.arange(60) % 2)[:, np.newaxis]
NUMBERS = [1, 2, 4]


def search_over(estimator, **grid):
    return GridSearchCV(estimator, grid, cv=3).fit(X)


def test_lines_are_the_scores_of_the_search():
    rows = np.arange(60)
    scoring = {"bic": bic_scorer, "fit": lambda mixture, X, y=None: mixture.score(X)}
    grid = {"n_components": NUMBERS, "covariance_type": ["full", "spherical"]}
    mixture = GaussianMixture(random_state=0)
    search = GridSearchCV(mixture, grid, scoring=scoring, refit="bic", cv=[(rows, rows)]).fit(X)
    display = CriteriaDisplay.from_search(search)
    assert display.names == ["full", "spherical"]
    np.testing.assert_array_equal(display.n_components, NUMBERS)
    assert list(display.scores) == ["bic", "fit"]
    for candidate, bic, fit in zip(
        search.cv_results_["params"],
        search.cv_results_["mean_test_bic"],
        search.cv_results_["mean_test_fit"],
        strict=True,
    ):
        place = display.names.index(candidate["covariance_type"]), NUMBERS.index(candidate["n_components"])
        assert (display.scores["bic"][place], display.scores["fit"][place]) == (bic, fit)
    for panel, values in zip(display.axes_, display.scores.values(), strict=True):
        *lines, best = panel.lines
        np.testing.assert_array_equal([line.get_ydata() for line in lines], values)
        assert best.get_ydata()[0] == values.max()
    assert display.axes_[0].get_title() == "best: 2, spherical"
    assert [text.get_text() for text in display.axes_[-1].get_legend().get_texts()] == ["full", "spherical"]


def test_parameters_of_steps_and_several_of_them_are_named():
    pipeline = make_pipeline(StandardScaler(), GaussianMixture(random_state=0))
    grid = {"gaussianmixture__n_components": [1, 2], "gaussianmixture__tol": [0.1], "standardscaler__with_std": [False]}
    display = CriteriaDisplay.from_search(search_over(pipeline, **grid))
    assert display.names == ["tol=0.1, with_std=False"]
    assert list(display.scores) == ["score"]
    alone = CriteriaDisplay.from_search(search_over(GaussianMixture(random_state=0), n_components=[2, 1]))
    assert alone.names == [""]
    assert alone.axes_[0].get_legend() is None
    np.testing.assert_array_equal(alone.n_components, [1, 2])


def test_fits_that_failed_are_gaps_and_are_not_the_best():
    scores = {"bic": np.array([[np.nan, 2.0, 1.0], [0.0, np.nan, np.nan]]), "icl": np.full((2, 3), np.nan)}
    display = CriteriaDisplay(n_components=NUMBERS, scores=scores, names=["a", "b"]).plot()
    first, second = display.axes_
    assert (first.lines[-1].get_xdata()[0], first.lines[-1].get_ydata()[0]) == (2, 2.0)
    assert len(second.lines) == 2


def test_lines_of_many_forms_differ():
    n = 14
    scores = {"bic": np.arange(3.0 * n).reshape(n, 3)}
    display = CriteriaDisplay(n_components=NUMBERS, scores=scores, names=[f"form {i}" for i in range(n)]).plot()
    lines = display.axes_[0].lines[:n]
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}) == n


def test_refusals():
    with pytest.raises(NotFittedError):
        CriteriaDisplay.from_search(GridSearchCV(GaussianMixture(), {"n_components": [1]}))
    with pytest.raises(ValueError, match="needs a fitted search, such as GridSearchCV; got"):
        CriteriaDisplay.from_search(GaussianMixture(1).fit(X))
    with pytest.raises(ValueError, match="one parameter n_components; this one has 0"):
        CriteriaDisplay.from_search(search_over(GaussianMixture(1), tol=[0.1]))
    two = {"pca__n_components": [1], "gaussianmixture__n_components": [1]}
    with pytest.raises(ValueError, match="one parameter n_components; this one has 2"):
        CriteriaDisplay.from_search(search_over(make_pipeline(PCA(), GaussianMixture()), **two))
