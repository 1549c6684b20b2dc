"""Negative binomial counts: the distribution of the dispersions, their estimates, and the Poisson limit."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln
from sklearn.base import clone

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Columns, NegativeBinomial, Poisson
from skmanifold.emissions._negative_binomial import Dispersions, NegativeBinomialFamily, dispersions_of
from skmanifold.emissions._negative_binomial_kernels import add_log_rising
from skmanifold.random._keys import fold_in_each

from ._cases import KEY, make_X, read

INVERSES = np.array([0.4, 1.0, 2.5, 8.0, 40.0])  # of most tests, few enough to integrate
SHAPE, RATE = np.array([1.5, 0.8]), np.array([0.6, 0.5])


def family_of(rows, n_components=2, inverses=INVERSES, shape=SHAPE, rate=RATE):
    """A family with few possible dispersions."""
    of_each = [dispersions_of(rows, np.full(2, 1.0 / r)) for r in inverses]
    dispersions = Dispersions(*(np.concatenate(parts, axis=1) for parts in zip(*of_each, strict=True)))
    return NegativeBinomialFamily(shape, rate, dispersions, n_components)


def small_data():
    X = np.array([[0, 3], [5, 0], [1, np.nan], [12, 1], [0, 0], [2, 7]], float)
    labels = np.array([0, 1, 0, 1, 0, 1], np.int32)
    rows = read(NegativeBinomial(), X)
    family = family_of(rows)
    return X, labels, family, family.sum_labels(rows, 0, 6, 0, labels).total()


def marginal(cells, j, r):
    """Probability of the cells of one component, with p integrated out by quadrature."""
    prior = stats.beta(SHAPE[j], 1 + RATE[j] * r)
    return quad(lambda p: prior.pdf(p) * stats.nbinom.pmf(cells, r, 1 - p).prod(), 0, 1, epsabs=1e-14)[0]


def exact_posterior(X, labels, j):
    """Probabilities of the values of r of a column."""
    columns = [X[(labels == label) & ~np.isnan(X[:, j]), j] for label in (0, 1)]
    densities = np.array([marginal(columns[0], j, r) * marginal(columns[1], j, r) for r in INVERSES])
    return densities / densities.sum()


def test_counts_in_and_beyond_the_table_have_their_gamma_functions():
    X, sizes = np.array([0.0, 1.0, 31.0, 32.0, 33.0, 2.5, 5000.0]), np.array([0.4, 40.0])
    cells, out = np.repeat(X, 2), np.zeros((len(X), 3))
    columns = np.tile(np.arange(2, dtype=np.int32), len(X))
    add_log_rising(0, len(X), np.arange(0, 2 * len(X) + 1, 2, dtype=np.int32), columns, cells, sizes, out)
    exact = (gammaln(X[:, None] + sizes) - gammaln(sizes)).sum(axis=1)
    np.testing.assert_allclose(out, np.repeat(exact[:, None], 3, axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.extended
def test_dispersions_are_drawn_from_their_posterior():
    X, labels, family, total = small_data()
    draws = [family.draw(total, key) for key in fold_in_each(KEY, np.arange(4000))]
    found = np.array([drawn.sizes for drawn in draws])[:, :, None] == INVERSES
    exact = np.stack([exact_posterior(X, labels, j) for j in (0, 1)])
    assert_agrees(summarize(found.reshape(4000, -1)), exact.ravel())
    assert_disagrees(summarize(found.reshape(4000, -1)), np.full(10, 0.2))
    shares = np.array([drawn.means / (drawn.means + drawn.sizes[:, None]) for drawn in draws])  # p given r is beta
    x, rates = (array.T[..., None] for array in family._posterior(total))
    of_each = x / (x + 1.0 + rates * INVERSES)
    joint = (found[:, :, None] * shares[..., None]).reshape(4000, -1)
    assert_agrees(summarize(joint), (exact[:, None] * of_each).ravel())
    marginal = family.dispersions.most_probable_marginal(family._known(total))
    np.testing.assert_array_equal(marginal, INVERSES[exact.argmax(axis=1)])


def test_the_mode_has_the_highest_density_of_all_dispersions_and_means():
    *_, family, total = small_data()

    def log_joint(parameters):
        return family.log_prior(parameters) + family.log_likelihood(total, parameters)

    best, rng = family.mode(total), np.random.default_rng(0)
    logits = np.log(best.means) - np.log(best.sizes)[:, None]
    for r_0 in INVERSES:
        for r_1 in INVERSES:
            sizes = np.array([r_0, r_1])
            other = family._parameters(np.log(best.means) - np.log(sizes)[:, None], sizes)
            assert log_joint(other) <= log_joint(best) + 1e-9
    for _ in range(50):
        other = family._parameters(logits + 0.1 * rng.standard_normal(logits.shape), best.sizes)
        assert log_joint(other) < log_joint(best)


def overdispersed(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    z, inverses = rng.integers(2, size=n), np.array([0.6, 3.0, 30.0])
    means = np.array([[1.0, 12.0, 3.0], [8.0, 2.0, 10.0]])[z]
    X = rng.poisson(rng.gamma(inverses, means / inverses)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, z, 1.0 / inverses


@pytest.mark.parametrize("sampler", ["em", "esca", "gibbs"])
def test_mixtures_find_dispersions_and_clusters(sampler):
    X, z, dispersions = overdispersed()
    mixture = ExponentialFamilyMixture(2, emission="negative_binomial", sampler=sampler, random_state=0).fit(X)
    np.testing.assert_allclose(np.log(mixture.dispersions_), np.log(dispersions), atol=0.35)
    labels = mixture.predict(X)
    assert max(np.mean(labels == z), np.mean(labels != z)) > 0.9
    poisson = ExponentialFamilyMixture(2, emission="poisson", sampler=sampler, random_state=0).fit(X)
    assert mixture.score(X) > poisson.score(X) + 0.5


@pytest.mark.extended
def test_dirichlet_process_mixtures_learn_dispersions_and_need_fewer_components():
    X, _, dispersions = overdispersed()
    mixture = DPMixture("negative_binomial", max_iter=60, random_state=0).fit(X)
    np.testing.assert_allclose(np.log(mixture.emission_.dispersion), np.log(dispersions), atol=0.8)
    poisson = DPMixture("poisson", max_iter=60, random_state=0).fit(X)
    assert len(mixture.component_clusters_) < 6 < len(poisson.component_clusters_)
    given = DPMixture(NegativeBinomial(dispersion=[2.0, 0.3, 0.05]), max_iter=10, random_state=0).fit(X)
    assert given.emission_.dispersion == [2.0, 0.3, 0.05]


def test_small_dispersions_give_poisson_components():
    X = make_X("poisson", 200)
    scores = [
        ExponentialFamilyMixture(2, emission=emission, init=np.arange(200) % 2, random_state=0).fit(X).score_samples(X)
        for emission in (NegativeBinomial(dispersion=1e-6), Poisson())
    ]
    np.testing.assert_allclose(*scores, atol=1e-3)


@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_weights_are_repeated_rows(fraction):
    X, weights = overdispersed(60)[0] + fraction, np.random.default_rng(0).integers(1, 4, 60)
    emission, rows = NegativeBinomial(), read(NegativeBinomial(), X)
    weighted = emission.bind_weighted(rows, 2, weights.astype(float))
    repeated = emission.bind(read(emission, np.repeat(X, weights, axis=0)), 2)
    for mine, other in zip(weighted.dispersions, repeated.dispersions, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12)
    np.testing.assert_allclose(weighted.shape, repeated.shape, rtol=1e-12)


@pytest.mark.parametrize(
    "mixture",
    [
        ExponentialFamilyMixture(2, emission="negative_binomial", random_state=0),
        pytest.param(DPMixture("negative_binomial", max_iter=6, random_state=0), marks=pytest.mark.extended),
    ],
    ids=["ExponentialFamilyMixture", "DPMixture"],
)
def test_columns_without_counts_and_with_the_same_count_are_fitted(mixture):
    X = np.column_stack([np.zeros(30), np.full(30, 4.0), np.arange(30) % 5])
    assert np.isfinite(clone(mixture).fit(X).score_samples(X)).all()


@pytest.mark.long
def test_tables_name_the_block_of_a_learned_dispersion():
    X = overdispersed(100)[0]
    emission = Columns([("counts", NegativeBinomial(), [0, 1]), ("others", Poisson(), [2])])
    mixture = DPMixture(emission, max_iter=6, random_state=0).fit(X)
    assert mixture.emission_.get_params()["counts__dispersion"].shape == (2,)
    assert mixture.named_blocks_.counts.dispersions_.shape == (2,)


@pytest.mark.parametrize(
    ("dispersion", "message"),
    [
        (0.0, "'dispersion' parameter of NegativeBinomial must be"),
        (1e-9, "'dispersion' parameter of NegativeBinomial must be"),
        ([1.0, 1e-9, 1.0], "dispersion must be between 1e-06 and 1e\\+06"),
        ([1.0, 2.0], r"dispersion must be a number or have shape \(3,\); got \(2,\)"),
        ([1.0, np.nan, 1.0], "dispersion must be positive and finite"),
    ],
)
def test_dispersions_that_are_refused(dispersion, message):
    with pytest.raises(ValueError, match=message):
        DPMixture(NegativeBinomial(dispersion), random_state=0).fit(overdispersed(20)[0])
