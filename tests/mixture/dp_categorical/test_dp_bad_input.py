"""Odd tables, priors and samplers: each works, or raises one clear sentence before any work is done."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skmanifold import DPCategoricalMixture
from skmanifold.mixture._dirichlet_process.stochastic_slice import StochasticSlice
from skmanifold.samplers import ESCA, HMC, SCIR, BaseSampler, Slice

from .._refusals import refuse as refuse_rows
from ..exponential_family._mixtures import EMISSIONS, SAMPLERS, data_of, learned, make, small_fit, small_table

each_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
each_emission = pytest.mark.parametrize("emission", EMISSIONS)

COUNTS = np.array([[3.0, 1, 0, 2], [0, 2, 2, 0], [1, 0, 0, 4]])
CODES = np.array([[0.0, 1, 2, 0], [1, 1, np.nan, 1], [0, 0, 1, 0]])
DATA = {"multinomial": COUNTS, "categorical": CODES}
SHORT = {"max_iter": 4, "burn_in": 1, "thin": 1}


@pytest.fixture
def _no_sampler_begins(monkeypatch):
    for sampler in (*DPCategoricalMixture._samplers.values(), StochasticSlice):
        monkeypatch.setattr(sampler, "step", lambda *args: pytest.fail("the sampler began"))


before_any_work = pytest.mark.usefixtures("_no_sampler_begins")


def refuse(message, mixture, error=ValueError):
    """By each method that fits."""
    for method in ("fit", "fit_predict", "partial_fit"):
        if hasattr(mixture, method):
            refuse_rows(message, clone(mixture), DATA.get(mixture.emission, COUNTS), error, method)


# Small and odd data work


@pytest.mark.covering
@pytest.mark.filterwarnings("ignore:Each column of X holds a few small whole numbers:UserWarning")  # a single one
@each_sampler
@pytest.mark.parametrize(
    ("emission", "X"),
    [
        ("multinomial", np.zeros((3, 4))),
        ("multinomial", [[5]]),
        ("multinomial", np.ones((1, 4))),
        ("multinomial", np.tile([[3], [0]], (4, 1))),
        ("multinomial", sp.csr_array((3, 4))),
        ("multinomial", np.array([[70_000.0, 300, 0], [0, 300, 2_000_000_000]])),
        ("categorical", np.zeros((4, 3))),
        ("categorical", [[2]]),
        ("categorical", [[0, 1, np.nan]]),
        ("categorical", np.full((3, 2), np.nan)),
        ("categorical", np.c_[CODES, np.full(3, np.nan)]),
        ("categorical", np.array([[True, False], [False, False]])),
    ],
    ids=lambda value: value if isinstance(value, str) else "x".join(map(str, np.shape(value))),
)
def test_small_and_odd_tables_work(emission, X, sampler):
    mixture = make(emission, sampler, **SHORT).fit(X)
    assert mixture.labels_.max() + 1 == mixture.n_components_
    np.testing.assert_allclose(mixture.predict_proba(X).sum(axis=1), 1)
    assert np.all(np.isfinite(mixture.score_samples(X)))
    assert np.all(mixture.score_samples(X) < 1e-12)
    assert np.all(np.isfinite(mixture.co_clustering(X)))
    if emission == "multinomial" and np.ptp(np.shape(X)) < 2:
        return  # billions of tokens are not drawn one by one, but a sample is
    assert mixture.sample(4)[0].shape == (4, mixture.n_features_in_)


@pytest.mark.covering
@pytest.mark.filterwarnings("ignore:SGRLD does not draw from the posterior:UserWarning")
@each_emission
@pytest.mark.parametrize("sampler", ["slice", "scir", "sgrld"])  # SGRHMC stops where a category is at zero
@pytest.mark.parametrize("category_prior", [1e-12, 1e-3, 1e6])
@pytest.mark.parametrize("concentration", [1e-12, 100.0])
def test_extreme_priors_work(emission, sampler, category_prior, concentration):
    priors = {"category_prior": category_prior, "concentration": concentration}
    mixture = make(emission, sampler, **priors).fit(data_of(emission))
    assert np.isfinite(mixture.score(data_of(emission)))
    assert np.all(np.isfinite(mixture.weights_))
    assert mixture.sample(5)[0].shape[0] == 5


# Parameters


class NoSampler:
    def init(self, model, key): ...
    def step(self, model, state): ...


@before_any_work
@pytest.mark.parametrize(
    ("sampler", "error", "message"),
    [
        (Slice, TypeError, r"must be an instance or a name, not the class Slice: write Slice\(\)\."),
        (
            NoSampler(),
            TypeError,
            r"sampler must be a name \('slice', .*\) or an instance of a subclass of .*BaseSampler",
        ),
        (
            ESCA(),
            ValueError,
            r"ESCA needs a LatentModel, which DPModel does not offer; samplers that would work: Slice",
        ),
        (HMC(), ValueError, r"HMC needs a fixed density, but the counts of a mixture change at every step\."),
        (BaseSampler(), TypeError, r"BaseSampler must define init\(model, key\)\."),
    ],
    ids=lambda value: None if isinstance(value, str) else getattr(value, "__name__", type(value).__name__),
)
@each_emission
def test_what_is_no_sampler_of_a_mixture_is_refused(sampler, error, message, emission):
    refuse(message, make(emission, sampler, **SHORT), error=error)


@before_any_work
@pytest.mark.parametrize(
    ("sampler", "weights_sampler", "message"),
    [
        ("slice", "scir", r"Slice draws the weights itself: weights_sampler must be None, not 'scir'\."),
        (Slice(), SCIR(), r"Slice draws the weights itself: weights_sampler must be None, not SCIR\(\)\."),
        ("scir", "slice", r"The 'weights_sampler' parameter of DPCategoricalMixture must be"),
        ("scir", SCIR(-0.1), r"The 'step_size' parameter of SCIR must be"),
    ],
)
def test_a_bad_sampler_of_the_weights_is_refused(sampler, weights_sampler, message):
    refuse(message, make("categorical", sampler, weights_sampler=weights_sampler, **SHORT))


@pytest.mark.parametrize("weights_sampler", [Slice(), HMC(), ESCA()], ids=str)
def test_a_sampler_that_moves_no_sticks_is_refused(weights_sampler):
    """Before its first pass, and in a sentence that names it."""
    name = type(weights_sampler).__name__
    refuse(name, make("categorical", "scir", weights_sampler=weights_sampler, **SHORT))


@each_emission
def test_partial_fit_is_there_only_for_samplers_that_take_minibatches(emission):
    mixture = make(emission)
    assert not hasattr(mixture, "partial_fit")
    assert hasattr(mixture.set_params(sampler="scir"), "partial_fit")
    with pytest.raises(AttributeError) as refusal:
        make(emission, Slice()).partial_fit(data_of(emission))
    assert "partial_fit needs a sampler that takes minibatches ('scir', 'sgrld'" in str(refusal.value.__cause__)


def test_a_fit_may_be_followed_by_one_of_the_other_emission():
    mixture = make("multinomial").fit(COUNTS)
    mixture.set_params(emission="categorical").fit(small_table())
    assert learned(mixture) == learned(small_fit("categorical"))
    mixture.set_params(emission="multinomial").fit(COUNTS)
    assert isinstance(mixture.components_, np.ndarray)
    assert not hasattr(mixture, "n_categories_")


# Rows that belong together


def test_co_clustering_says_what_to_do_without_draws():
    mixture = make("categorical", thin=100).fit(small_table())
    assert mixture.n_components_posterior_.sum() in (0, 1)
    with pytest.raises(ValueError, match=r"No draws of the labels were kept: pass X\."):
        mixture.co_clustering()
    np.testing.assert_array_equal(np.diag(mixture.co_clustering(small_table())), 1)


def test_a_matrix_of_pairs_beyond_the_memory_limit_is_refused(monkeypatch):
    monkeypatch.setattr("skmanifold.mixture._dirichlet_process.clusters._MAX_DENSE_BYTES", 8 * 59**2)
    with pytest.raises(ValueError, match="co_clustering of 60 rows would take"):
        small_fit("categorical").co_clustering(small_table())
    assert small_fit("categorical").co_clustering(small_table()[:59]).shape == (59, 59)


@pytest.mark.parametrize("sampler", ["sgrld", "sgrhmc"])
def test_langevin_samplers_say_where_they_are_wrong(sampler):
    with pytest.warns(UserWarning, match="does not draw from the posterior if category_prior is below 1/2"):
        make("categorical", sampler, category_prior=0.4).fit(data_of("categorical"))
