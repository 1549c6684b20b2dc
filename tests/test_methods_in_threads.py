"""No method of a fitted estimator but `fit` and `partial_fit` writes to it, so that threads can share it."""

import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from threading import Barrier, get_ident

import pandas as pd
import pytest
from _frozen import Written, freeze
from persistence._fitted import CASES, assert_same, fitted, targets_of
from sklearn.base import BaseEstimator

import skmanifold
from skmanifold import SubspaceMixture
from skmanifold.mixture import Conditional
from skmanifold.models import IncompatibleError

FITTED = [name for name, (_, _, steps) in CASES.items() if steps]
SHORT = {
    "StochasticLDA-esca",
    "SphericalAdmixture-gsgnht",
    "OrthogonalSphericalAdmixture-gibbs",
    "HDPAdmixture-gibbs",
    "DPCategoricalMixture-slice",
    "SubspaceMixture-gibbs",
    "SubspaceMixture-slice",
    "ExponentialFamilyAdmixture-esca",
    "CrossCat-view_slice",
    "directions",
    "classes",
    "imputer",
    "table-classifier",
    "table-regressor",
    "dp-rows-gaussian",
    "table-ExponentialFamilyMixture",
}
EXTENDED = pytest.mark.extended
N_THREADS, N_PARTS = 16, 4  # each thread makes a part of the calls
INPUTS = [slice(40), slice(5, 17), slice(22, 39)]  # rows
WRITE = "fit", "partial_fit", "set_"  # beginnings of names


def _rows(estimator, X):
    return [{"X": X}]


def _nothing(estimator, X):
    return [{}]


def _nothing_or_rows(estimator, X):
    return [{}, {"X": X}]


CALLS = {  # arguments of the calls of each method
    "aic": _rows,
    "bic": _rows,
    "cluster_summary": _nothing,
    "co_clustering": _nothing_or_rows,
    "column_dependence": lambda estimator, X: [{}, {"return_errors": True}],
    "conditional": lambda estimator, X: [{"X": X, "columns": [0]}, {"X": X, "columns": [1, 2]}],
    "credible_intervals": _nothing,
    "get_feature_names_out": _nothing,
    "get_metadata_routing": _nothing,
    "get_params": _nothing,
    "icl": _rows,
    "impute": lambda estimator, X: [{"X": X}, {"X": X, "n_draws": 2, "random_state": 0}],
    "inverse_transform": lambda estimator, X: [
        {"X": estimator.transform(X)} | ({"labels": [0] * len(X)} if isinstance(estimator, SubspaceMixture) else {})
    ],
    "merge_components": lambda estimator, X: [{}, {"clusters": 1}],
    "merge_topics": lambda estimator, X: [{"groups": [[0, 1]]}],
    "mutual_information": lambda estimator, X: [{"random_state": 0}],
    "outlier_proba": _nothing_or_rows,
    "perplexity": _rows,
    "predict": _rows,
    "predict_interval": _rows,
    "predict_log_proba": _rows,
    "predict_proba": _rows,
    "predict_quantiles": lambda estimator, X: [{"X": X, "q": 0.3}, {"X": X, "q": [0.1, 0.9]}],
    "project": _rows,
    "remove_topics": lambda estimator, X: [{"topics": [0]}],
    "row_similarity": lambda estimator, X: [{}, {"X": X}, {"X": X, "Y": X[:3], "columns": [0]}],
    "sample": lambda estimator, X: [{"n_samples": X.shape[0], "random_state": 0}],
    "sample_prior": lambda estimator, X: [{"n_samples": X.shape[0], "random_state": 0}],
    "save": _nothing,
    "score": lambda estimator, X: [
        {"X": X} | dict(zip("y", (y[: len(X)] for y in targets_of(estimator)), strict=False))
    ],
    "score_samples": _rows,
    "summary": _rows,
    "surprisal": _rows,
    "to_arviz": _nothing,
    "to_fixed": _nothing,
    "to_html": lambda estimator, X: [{"X": X}],
    "to_pyldavis": lambda estimator, X: [{"X": X, "lambda_step": 0.5}],
    "topic_diagnostics": _nothing,
    "topic_words": _nothing,
    "topics_as_frame": _nothing_or_rows,
    "transform": _rows,
    "uncertainty": _rows,
}


def calls_of(estimator, X):
    """Names of all public methods and properties, with arguments; those of properties are None."""
    for name in dir(type(estimator)):
        if not name.startswith(("_", *WRITE)) and hasattr(estimator, name):
            for arguments in CALLS[name](estimator, X) if callable(getattr(estimator, name)) else [None]:
                yield name, arguments


def answer(estimator, name, arguments, folder):
    """What a call returns or raises, as objects that `assert_same` compares."""
    found = getattr(estimator, name)
    if name in ("save", "to_html"):
        found(folder / str(get_ident()), **arguments)
        return (folder / str(get_ident())).read_bytes()
    try:
        return plain(found if arguments is None else found(**arguments))
    except (AttributeError, ImportError, ValueError, IncompatibleError) as error:
        return f"{type(error).__name__}: {error}"


def plain(found):
    if isinstance(found, pd.DataFrame):
        return found.to_dict("split")
    if isinstance(found, Conditional):
        return [found.columns, found.categories, found.mean(), found.variance(), found.predict_proba(), found.predict()]
    if isinstance(found, tuple | list):
        return [plain(each) for each in found]
    if type(found).__name__ == "DataTree":
        return {path: node.to_dataset().to_dict()["data_vars"] for path, node in found.subtree_with_keys}
    return found


def test_every_estimator_is_here():
    classes = [each for name in skmanifold.__all__ if inspect.isclass(each := getattr(skmanifold, name))]
    assert {each for each in classes if issubclass(each, BaseEstimator)} == {type(CASES[name][0]) for name in SHORT}


class Writes(BaseEstimator):
    def __init__(self, held=None):
        self.held = held

    @cached_property
    def cached(self):
        return 1

    def set(self):
        self.held = 1

    def update(self):
        vars(self).update(held=1)

    def set_in_held(self):
        self.held[0].held = 1

    def delete_in_held(self):
        del self.held[0].held


@pytest.mark.parametrize(
    "write", [Writes.set, Writes.update, Writes.set_in_held, Writes.delete_in_held, lambda estimator: estimator.cached]
)
def test_a_method_that_writes_is_found(write, monkeypatch):
    estimator = Writes([Writes()])
    with monkeypatch.context() as patches:
        freeze(estimator, patches)
        with pytest.raises(Written):
            write(estimator)
    assert vars(estimator.held[0]) == {"held": None}


@pytest.mark.filterwarnings("ignore:SGR(LD|HMC) does not draw from the posterior:UserWarning")
@pytest.mark.filterwarnings("ignore:Intervals from")
@pytest.mark.filterwarnings("ignore:EM stopped after")
@pytest.mark.filterwarnings("ignore:The inplace keyword in eval")  # of pyLDAvis, which hides it in one thread only
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in SHORT else EXTENDED) for name in FITTED])
def test_methods_in_threads_return_the_same_and_write_nothing(name, monkeypatch, tmp_path):
    estimator, X = copy.deepcopy(fitted(name)), CASES[name][1]
    with monkeypatch.context() as patches:
        freeze(estimator, patches)
        before = pickle.dumps(estimator)
        expected = []
        for rows in INPUTS:
            calls = calls_of(estimator, getattr(X, "iloc", X)[rows])
            expected.append([(*call, answer(estimator, *call, tmp_path)) for call in calls])
        begin = Barrier(N_THREADS)

        def call_some(thread):
            begin.wait()
            for *call, found in expected[thread % len(INPUTS)][thread % N_PARTS :: N_PARTS]:
                assert_same(answer(estimator, *call, tmp_path), found, call[0])

        with ThreadPoolExecutor(N_THREADS) as pool:
            list(pool.map(call_some, range(N_THREADS)))
        assert pickle.dumps(estimator) == before
