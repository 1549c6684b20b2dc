"""Minibatches without tokens, or without directions, in streams of all estimators: they are counted, and no more."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import skmanifold
from skmanifold import ExponentialFamilyAdmixture, SphericalAdmixture, StochasticLDA, VonMisesFisherMixture

X = np.random.default_rng(0).poisson(1.0, (12, 4)) + np.eye(12, 4, dtype=int)
EMPTY = np.zeros((3, 4))
SETTINGS = {"total_samples": 100, "random_state": 0}
VECTORS = np.random.default_rng(1).normal(size=(4, 2))
MISSING = np.full((3, 4), np.nan)
STREAMS = {
    **{f"lda {name}": StochasticLDA(2, sampler=name, **SETTINGS) for name in ("esca", "svb", "scir", "sgrld")},
    "multinomial": ExponentialFamilyAdmixture(2, **SETTINGS),
    "poisson": ExponentialFamilyAdmixture(2, emission="poisson", **SETTINGS),
    "bernoulli": ExponentialFamilyAdmixture(2, emission="bernoulli", **SETTINGS),
    "gaussian": ExponentialFamilyAdmixture(2, emission="gaussian", word_vectors=VECTORS, **SETTINGS),
    **{f"spherical {name}": SphericalAdmixture(2, sampler=name, **SETTINGS) for name in ("gsgnht", "svb")},
    "directions": VonMisesFisherMixture(2, **SETTINGS),
}
pytestmark = pytest.mark.filterwarnings("ignore:SGRLD does not draw", "ignore:.*kinetic temperature")
EACH = pytest.mark.parametrize("name", STREAMS)


def rows(name):
    return np.minimum(X, 1) if name == "bernoulli" else X


def empty(name):
    return MISSING if name == "bernoulli" else EMPTY


def state(model):
    return {name: pickle.dumps(value) for name, value in vars(model).items() if name != "n_batch_iter_"}


def topics(model):
    return model.components_ if hasattr(model, "components_") else model.mean_directions_


@EACH
def test_a_later_one_is_only_counted(name):
    model = clone(STREAMS[name]).partial_fit(rows(name))
    before = state(model)
    model.partial_fit(empty(name))
    assert state(model) == before
    assert model.n_batch_iter_ == 2
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(empty(name)[:, 1:])


@EACH
def test_before_the_first_minibatch_it_is_only_counted(name, tmp_path):
    model, wanted = clone(STREAMS[name]).partial_fit(empty(name)), clone(STREAMS[name]).partial_fit(rows(name))
    assert model.n_batch_iter_ == 1
    with pytest.raises(NotFittedError):
        model.transform(X) if hasattr(model, "transform") else model.predict(X)
    with pytest.raises(ValueError, match="X has 3 features"):
        model.partial_fit(rows(name)[:, 1:])
    model.save(tmp_path / "model.skm")
    for each in (skmanifold.load(tmp_path / "model.skm"), model):
        np.testing.assert_array_equal(topics(each.partial_fit(rows(name))), topics(wanted))
        assert each.n_batch_iter_ == 2
    np.testing.assert_array_equal(topics(model.fit(rows(name))), topics(clone(wanted).fit(rows(name))))


@pytest.mark.parametrize("name", ["lda scir", "spherical gsgnht"])
def test_draws_are_kept_if_the_first_minibatch_after_a_fit_is_empty(name):
    model = clone(STREAMS[name]).set_params(max_iter=2, thin=1).fit(X)
    for batch in (EMPTY, X, X):
        model.partial_fit(batch)
    assert model.posterior_["components"].shape[:2] == (1, 1)
    assert model.n_batch_iter_ == 3


def test_fractions_that_are_rounded_to_zero_and_sparse_rows_are_empty_too():
    lda = clone(STREAMS["lda esca"]).partial_fit(X)
    before = topics(lda)
    with pytest.warns(UserWarning, match="rounds at random"):
        lda.partial_fit([[1e-9, 0, 0, 0]])
    np.testing.assert_array_equal(topics(lda.partial_fit(sp.csr_array((2, 4)))), before)
    with pytest.raises(ValueError, match="X has no tokens"):
        lda.fit(EMPTY)
