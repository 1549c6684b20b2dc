"""Models of mixtures of exponential families: the same bytes for every cut, climbs of EM, the numbers of the paper."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from emissions._cases import EMISSIONS, KEY, read
from samplers._evidence import assert_agrees, summarize
from scipy.special import logsumexp
from scipy.stats import beta

from skmanifold.emissions import Gaussian
from skmanifold.mixture._exponential_family.fit_strategies import start_labels
from skmanifold.mixture._exponential_family.model import FamilyModel, RowWeights
from skmanifold.mixture._scores import FamilyRows
from skmanifold.numerics.block_sums import BLOCK_ROWS
from skmanifold.random._keys import subkey
from skmanifold.samplers import EM, ESCA, Gibbs
from skmanifold.utils._threads import Workers

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
INCOMPLETE = {f"{kind}, missing": Gaussian(kind) for kind in ("full", "tied", "diag", "spherical")}
ALL = pytest.mark.parametrize("name", [*EMISSIONS, *INCOMPLETE])
N_CUT = 5000


def make_X(name, n, K=3, m=4, seed=0):
    """Rows of K kinds."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, K, n)
    if name in INCOMPLETE:
        X = rng.normal(0.0, 3.0, (K, m))[z] + rng.standard_normal((n, m)) @ (np.eye(m) + 0.2)
        X[rng.random(X.shape) < 0.2] = np.nan
        X[5] = np.nan
        return X
    if name in ("gaussian", "diag", "spherical"):
        return rng.normal(0.0, 3.0, (K, m))[z] + rng.standard_normal((n, m))
    if name == "bernoulli":
        X = (rng.random((n, m)) < rng.beta(0.5, 0.5, (K, m))[z]).astype(float)
    else:
        X = rng.poisson(rng.gamma(1.0, 3.0, (K, m))[z]).astype(float)
    if name != "multinomial":
        X[rng.random((n, m)) < 0.1] = np.nan
    return X


def make_model(name, n=600, K=3, emission=None, workers=None, **options):
    emission = emission or {**EMISSIONS, **INCOMPLETE}[name]
    X = make_X(name, n, **options)
    rows = read(emission, X)
    family = emission.bind(rows, K)

    def start(key, number):
        return start_labels(family, rows, "k-means++", (), key)

    return FamilyModel(rows, 0, 0.5, family, start, workers or Workers(1))


def as_bytes(thing):
    if isinstance(thing, np.ndarray):
        return thing.tobytes()
    if isinstance(thing, float):
        return thing.hex()
    return [as_bytes(part) for part in (thing.total() if hasattr(thing, "total") else thing)]


# --- the same bytes --------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("cuts", [[1024], [3072], [1024, 4096], [2048, 3072, 4096]])
@pytest.mark.parametrize("has_weights", [False, True])
def test_models_of_parts_draw_the_same_labels_and_merge_to_the_same_bytes(name, cuts, has_weights):
    whole, labels = make_model(name, N_CUT), (np.arange(N_CUT) % 3).astype(np.int32)
    weights = RowWeights.of_values(np.random.default_rng(1).uniform(0.0, 3.0, N_CUT)) if has_weights else None

    def model_of(a, b, labels):
        of_part = weights and weights._replace(values=weights.values[a:b])
        rows = whole.rows.part(a, b)
        return FamilyModel(rows, a, 0.5, whole.family, labels[a:b], Workers(1), row_weights=of_part)

    model = model_of(0, N_CUT, labels)
    counted = model.init_latents(KEY)[1]
    np.testing.assert_allclose(counted.total()[0], np.bincount(labels, weights and weights.values))
    position = model.mode(counted)
    labels, statistics, log_likelihood = model.sample_latents(position, None, KEY)
    np.testing.assert_allclose(statistics.total()[0], np.bincount(labels, weights and weights.values))
    expected, same = model.expect_latents(position)
    assert same == log_likelihood
    parts = [model_of(a, b, labels) for a, b in pairwise([0, *cuts, N_CUT])]
    drawn = [part.sample_latents(position, None, KEY) for part in parts]
    np.testing.assert_array_equal(np.concatenate([of_part[0] for of_part in drawn]), labels)
    assert as_bytes(reduce(FamilyModel.merge, [of_part[1] for of_part in drawn])) == as_bytes(statistics)
    assert sum(of_part[2] for of_part in drawn) == log_likelihood
    soft = [part.expect_latents(position) for part in parts]
    assert as_bytes(reduce(FamilyModel.merge, [of_part[0] for of_part in soft])) == as_bytes(expected)
    assert sum(of_part[1] for of_part in soft) == log_likelihood
    if name not in ("full, missing", "tied, missing"):  # whose statistics are of rows with drawn cells
        again = reduce(FamilyModel.merge, [part.init_latents(KEY)[1] for part in parts])
        assert as_bytes(again) == as_bytes(statistics)
    hashes = [part.hash_rows(KEY) for part in parts]
    assert sum(hashes) % 2**64 == model.hash_rows(KEY)
    assert (model.hash_rows(KEY) == whole.hash_rows(KEY)) == (weights is None)


def test_parts_begin_where_blocks_do():
    model = make_model("poisson", 100)
    with pytest.raises(ValueError, match=f"first_row must be a multiple of {BLOCK_ROWS}; got 100"):
        FamilyModel(model.rows, 100, 0.5, model.family, model.start, Workers(1))


@ALL
def test_steps_write_into_no_array_that_they_read(name):
    model = make_model(name)
    for sampler in (ESCA(), EM(), Gibbs()):
        state = sampler.init(model, KEY)
        before = as_bytes([state.statistics, state.position.weights, list(state.position.parameters)])
        sampler.step(model, state)
        assert as_bytes([state.statistics, state.position.weights, list(state.position.parameters)]) == before


# --- what is drawn and expected --------------------------------------------------------------------------


@ALL
def test_shares_labels_and_log_likelihood_are_those_of_bayes_rule(name):
    model = make_model(name, 1500)
    position = model.mode(model.count((np.arange(1500) % 3).astype(np.int32)))
    terms = position.log_terms(FamilyRows(model.family, model.rows), Workers(1))
    log_density = logsumexp(terms, axis=1)
    shares = np.exp(terms - log_density[:, None])
    statistics, log_likelihood = model.expect_latents(position)
    assert log_likelihood == pytest.approx(log_density.sum(), abs=1e-2)
    np.testing.assert_allclose(statistics.total()[0], shares.sum(axis=0), rtol=1e-9)
    draws = np.array([model.sample_latents(position, None, subkey(KEY, i))[0] for i in range(200)])
    for k in range(3):
        assert_agrees(summarize((draws == k).mean(axis=1)), shares[:, k].mean())
        weighted = (draws == k) @ (shares[:, 0] - shares[:, 0].mean())
        assert_agrees(summarize(weighted), shares[:, k] @ (shares[:, 0] - shares[:, 0].mean()))


def test_weights_are_the_mode_and_draws_of_their_dirichlet_law():
    model = make_model("multinomial", 10)
    statistics = model.count(np.array([0, 0, 0, 0, 0, 0, 0, 1, 1, 1], np.int32))
    shapes = np.array([7.5, 3.5, 0.5])
    np.testing.assert_allclose(model.mode(statistics).weights, shapes / 11.5)
    drawn = np.array([model.draw(statistics, subkey(KEY, i)).weights for i in range(3000)])
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    law = beta(shapes, 11.5 - shapes)
    assert_agrees(summarize(drawn), law.mean())
    assert_agrees(summarize(drawn**2), law.moment(2))


def test_rows_that_are_too_far_away_for_any_density_are_refused():
    model = make_model("gaussian", 50)
    position = model.mode(model.init_latents(KEY)[1])
    model.rows.values[7] = 1e200
    for fit in (lambda: model.sample_latents(position, None, KEY), lambda: model.expect_latents(position)):
        with pytest.raises(ValueError, match="X has a row so far from all components that"):
            fit()


# --- EM --------------------------------------------------------------------------------------------------


def climb(model, n_steps=25):
    sampler = EM()
    state = sampler.init(model, KEY)
    objective, of_rows, gains = [], [], []
    for _ in range(n_steps):
        position = state.position
        state = sampler.step(model, state)
        of_rows.append(state.log_density)
        objective.append(state.log_density + model.log_prior(position))
        gains.append(state.gain * model.n_rows)
    return np.array(objective), np.array(of_rows), np.array(gains)


@ALL
def test_em_never_falls_and_gains_at_least_what_the_m_step_adds(name):
    model = make_model(name, 300, m=2)
    if name == "negative_binomial":  # the other start is on a plateau, where the dispersions explain all rows
        seeds = start_labels(model.family, model.rows, "k-means++", (), KEY)
        model.start = np.where(np.arange(300) % 2, seeds, np.arange(300) % 3).astype(np.int32)
    else:
        model.start = (np.arange(300) % 3).astype(np.int32)
    objective, _, gains = climb(model)
    rises = np.diff(objective)
    rounding = 300 * 2.0**-16
    assert objective[-1] - objective[0] > 1.0
    assert rises.min() > -rounding
    assert (rises - gains[:-1]).min() > -rounding
    assert gains.min() > -1e-9


def test_log_likelihood_alone_may_fall_where_the_prior_is_strong():
    """So the test above is about the right objective."""
    emission = Gaussian(covariance_prior=300.0, mean_precision_prior=30.0)
    model = make_model("gaussian", 300, m=2, emission=emission)
    objective, of_rows, _ = climb(model)
    assert np.diff(objective).min() > -300 * 2.0**-16
    assert np.diff(of_rows).min() < -1.0


def test_em_stops_where_nothing_is_gained_any_more():
    model = make_model("poisson")
    model.start = (np.arange(600) % 3).astype(np.int32)
    sampler = EM(tol=1e-5)
    state = sampler.init(model, KEY)
    assert not sampler.has_converged(state)
    while not sampler.has_converged(state):
        state = sampler.step(model, state)
    assert 1 < state.n_steps < 200
    after = sampler.step(model, state)
    assert 0 <= (after.log_density - state.log_density) / 600 < 1e-4
