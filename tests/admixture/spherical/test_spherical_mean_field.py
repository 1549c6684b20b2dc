from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, polygamma, psi

from skmanifold.admixture._spherical.concentrations import Concentrations
from skmanifold.admixture._spherical.setup import Setup
from skmanifold.admixture._spherical.variational import DocumentSums, MeanFieldSAM, RowFactors, SphereFactors
from skmanifold.admixture._spherical.variational_kernels import (
    _evaluate_row,
    _fill_curvature,
    _tetragamma,
    add_spread_curvature,
)
from skmanifold.distributions import VonMisesFisher, bessel_ratio, bessel_ratio_derivative, log_vmf_normalizer
from skmanifold.random._keys import root_key
from skmanifold.samplers._latent.mean_field import MeanField, MeanFieldState, StochasticMeanField
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

from ._spherical_draws import ONE, unit

KEY = root_key(2010)
OF_TOPICS = np.array([300.0, 900.0, 120.0, 1500.0])


def make_rows(n_rows, n_features, seed=0, density=0.4):
    """Sparse directions of either sign, a few of them without entries."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < density, rng.normal(0.4, 1.0, (n_rows, n_features)), 0.0)
    X[1::7] = 0.0
    return X


def mean_field(X, prior, mean, concentrations, workers, **options):
    fixed = (False, False, False), np.ones(len(prior)), np.zeros(len(prior)), False
    return MeanFieldSAM(Setup(as_directions(X), prior, mean, concentrations, *fixed), workers, **options)


def make_model(X, n_components, *, prior=1.3, concentrations=(60.0, 30.0, 40.0), workers=ONE, **options):
    X = sp.csr_array(X)
    prior = np.full(n_components, prior) + 0.1 * np.arange(n_components)
    mean = unit(np.ones(X.shape[1]) + 0.3 * np.arange(X.shape[1]) / X.shape[1])
    return mean_field(X, prior, mean, Concentrations(*concentrations), workers, **options)


def make_factors(model, n_components, seed=1):
    """Factors that are nobody's optimum."""
    rng = np.random.default_rng(seed)
    n_features = model.rows.n_features
    topics = rng.normal(0.3, 1.0, (n_features, n_components))
    topics *= rng.uniform(20.0, 80.0, n_components) / np.linalg.norm(topics, axis=0)
    mean = 50.0 * unit(rng.normal(0.5, 1.0, n_features))
    factors = SphereFactors(topics, np.linalg.norm(topics, axis=0), mean, 50.0)
    shapes = rng.uniform(0.3, 9.0, (model.n_samples, n_components))
    return factors, model.refresh_rows(factors, RowFactors(shapes, None, None))


def slow_objective(model, X, factors, shapes):
    """The objective by its formula, in dense arrays."""
    V, K = factors.topics.shape
    kappa, sigma, kappa_0 = model.concentrations
    kappa = np.full(K, kappa) if np.ndim(kappa) == 0 else kappa
    X = unit(X[np.any(X != 0, axis=1)])
    xi = np.linalg.norm(factors.topics, axis=0)
    e = factors.topics / xi * bessel_ratio(V, xi)
    length = np.linalg.norm(factors.mean)
    mu = factors.mean / length * bessel_ratio(V, length)

    def entropy(concentration):
        return -log_vmf_normalizer(V, concentration) - concentration * bessel_ratio(V, concentration)

    B = e.T @ e
    np.fill_diagonal(B, 1.0)
    value = 0.0
    for v, a in zip(X, shapes, strict=True):
        total, prior = a.sum(), model.alpha
        second = (np.outer(a, a) + np.diag(a)) / (total * (total + 1))
        mean = kappa @ a / total
        value += mean * (e @ a / total) @ v / np.sqrt((second * B).sum()) + log_vmf_normalizer(V, mean)
        half = 0.5 * (V - 1)
        radius = np.hypot(half, mean)
        value -= 0.5 * half / (radius * (half + radius)) * (kappa @ second @ kappa - mean * mean)
        value -= gammaln(total) - gammaln(a).sum() - gammaln(prior.sum()) + gammaln(prior).sum()
        value -= (a - prior) @ (psi(a) - psi(total))
    value += K * log_vmf_normalizer(V, sigma) + sigma * (e.T @ mu).sum() + entropy(xi).sum()
    return value + log_vmf_normalizer(V, kappa_0) + kappa_0 * mu @ model.mean_direction + entropy(length)


@pytest.mark.parametrize("document", [60.0, OF_TOPICS], ids=["one", "each"])
@pytest.mark.parametrize(("n_features", "n_components"), [(3, 2), (9, 1), (11, 4)])
def test_the_objective_is_the_formula(n_features, n_components, document):
    X = make_rows(9, n_features)
    document = document if np.ndim(document) == 0 else document[:n_components]
    model = make_model(X, n_components, concentrations=(document, 30.0, 40.0))
    factors, rows = make_factors(model, n_components)
    expected = slow_objective(model, X, factors, rows.shapes)
    assert model.objective(factors, rows, 1.0) == pytest.approx(expected, rel=1e-12)
    rows, pull = model.fit_rows(rows, 3, 1e-9)
    expected = slow_objective(model, X, factors, rows.shapes)
    assert pull.objective + model.topic_objective(factors) == pytest.approx(expected, rel=1e-12)


def force(model, factors, rows):
    """F_k of the docstring: the gradient but for the entropies in the topics' expectations, from the rows' sums."""
    pull = model.fit_rows(rows, 0, 0.0)[1]
    documents = pull.weighted - (factors.topics * factors.gains()) @ pull.coupling
    return model.document_density.reference * documents + model.concentrations.topic * factors.expected_mean()[:, None]


@pytest.mark.parametrize("document", [60.0, OF_TOPICS[:3]], ids=["one", "each"])
def test_gradients_in_topics_agree_with_differences(document):
    X, K, V = make_rows(12, 8), 3, 8
    model = make_model(X, K, concentrations=(document, 30.0, 40.0))
    factors, rows = make_factors(model, K)
    F = force(model, factors, rows)
    xi, directions = factors.concentrations, factors.directions()

    def objective(topics):
        return slow_objective(model, X, factors._replace(topics=topics), rows.shapes)

    for k in range(K):
        direction = directions[k]
        tangent = np.eye(V) - np.outer(direction, direction)
        slopes = bessel_ratio(V, xi[k]) * tangent @ F[:, k]
        expected = np.empty(V)
        for v in range(V):
            values = []
            for h in (1e-4, -1e-4):
                topics = factors.topics.copy()
                topics[:, k] = xi[k] * unit(direction + h * tangent[v])
                values.append(objective(topics))
            expected[v] = (values[0] - values[1]) / 2e-4
        np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
        slope = bessel_ratio_derivative(V, xi[k]) * (F[:, k] @ direction - xi[k])
        values = []
        for h in (1e-3, -1e-3):
            topics = factors.topics.copy()
            topics[:, k] = (xi[k] + h) * direction
            values.append(objective(topics))
        assert slope == pytest.approx((values[0] - values[1]) / 2e-3, rel=1e-6)


@pytest.mark.parametrize("document", [900.0, OF_TOPICS], ids=["one", "each"])
@pytest.mark.parametrize("prior", [0.05, 1.3, 12.0])
def test_documents_end_where_differences_vanish(prior, document):
    """At the top the gradient in the logarithms of a is zero, and from nearby one Newton step gets there."""
    X, K = make_rows(20, 11, density=0.7), 4
    model = make_model(X, K, prior=prior, concentrations=(document, 300.0, 40.0))
    factors, start = make_factors(model, K)
    rows, _ = model.fit_rows(start, 200, 1e-13)

    def objective(shapes):
        return slow_objective(model, X, factors, shapes)

    logs = np.log(rows.shapes)
    for d in range(model.n_samples):
        for k in range(K):
            step = np.zeros_like(logs)
            step[d, k] = 1e-4
            gradient = (objective(np.exp(logs + step)) - objective(np.exp(logs - step))) / 2e-4
            assert abs(gradient) < 1e-4
    # Newton's convergence is quadratic: an error in the curvature would leave more than its square.
    near, _ = model.fit_rows(rows._replace(shapes=np.exp(logs + 1e-3)), 1, 0.0)
    assert np.abs(np.log(near.shapes) - logs).max() < 3e-5


@pytest.mark.parametrize("document", [900.0, 0.1 * OF_TOPICS, OF_TOPICS], ids=["one", "near", "each"])
def test_the_curvature_is_that_of_the_gradient(document):
    V, K = 400, 4
    model = make_model(make_rows(6, V), K, concentrations=(document, 300.0, 40.0))
    _, rows = make_factors(model, K)
    density, prior = model.document_density, (model.alpha, model.alpha.sum())

    def evaluate(logs, b):
        out = np.empty((3, K))
        moments = _evaluate_row(np.exp(logs), b, rows.overlaps, *prior, density, *out)
        return np.exp(logs) * out[0], out, moments[2:]

    for b, logs in zip(rows.projections, np.log(rows.shapes), strict=True):
        _, (gradient, slope, trigamma), moments = evaluate(logs, b)
        found, shapes = np.empty((K, K)), np.exp(logs)
        _fill_curvature(shapes, b, rows.overlaps, *prior, density, *moments, gradient, slope, trigamma, found)
        add_spread_curvature(density, shapes, b, *moments, slope, np.empty((3, K)), found)
        steps = 1e-5 * np.eye(K)
        expected = [(evaluate(logs - step, b)[0] - evaluate(logs + step, b)[0]) / 2e-5 for step in steps]
        lower = np.tril_indices(K)
        np.testing.assert_allclose(
            found[lower], np.array(expected)[lower], rtol=1e-6, atol=1e-6 * np.abs(expected).max()
        )


def test_the_curvature_of_the_digamma_function():
    for x in (1e-6, 0.3, 1.0, 4.7, 9.99, 10.0, 37.0, 1e5):
        assert _tetragamma(x) == pytest.approx(polygamma(2, x), rel=3e-14)


def test_the_mean_is_the_best_for_given_topics():
    X, K = make_rows(12, 8), 3
    model = make_model(X, K)
    factors, rows = model.init_factors(KEY)
    best = model.objective(factors, rows, 1.0)
    changes = np.vstack((np.random.default_rng(0).normal(size=(20, 8)), factors.mean, -factors.mean))
    for change in 0.05 * np.linalg.norm(factors.mean) * unit(changes):
        mean = factors.mean + change
        other = factors._replace(mean=mean, mean_concentration=np.linalg.norm(mean))
        assert model.objective(other, rows, 1.0) < best


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_topics_solve_their_equation(rate):
    X, K = make_rows(30, 11), 4
    model = make_model(X, K)
    factors, rows = make_factors(model, K)
    pull = model.fit_rows(rows, 0, 0.0)[1]
    moved = model.move_topics(factors, pull, rate, 2.0)
    documents = pull.weighted - (moved.topics * moved.gains()) @ pull.coupling
    F = 2.0 * model.document_density.reference * documents
    F += model.concentrations.topic * factors.expected_mean()[:, None]
    wanted = (1 - rate) * factors.topics + rate * F
    np.testing.assert_allclose(moved.topics, wanted, atol=1e-3 * np.abs(wanted).max())
    np.testing.assert_allclose(moved.concentrations, np.linalg.norm(moved.topics, axis=0), rtol=1e-12)


def test_a_short_step_is_the_natural_gradient():
    X, K = make_rows(30, 11), 4
    model = make_model(X, K)
    factors, rows = make_factors(model, K)
    pull = model.fit_rows(rows, 0, 0.0)[1]
    moved = model.move_topics(factors, pull, 1e-5, 1.0)
    wanted = force(model, factors, rows) - factors.topics
    np.testing.assert_allclose((moved.topics - factors.topics) / 1e-5, wanted, atol=1e-3 * np.abs(wanted).max())


def run(sampler, model, n_passes):
    state = sampler.init(model, KEY)
    trace = [state.log_density]
    for _ in range(n_passes):
        state = sampler.step(model, state)
        trace.append(state.log_density)
    return state, np.array(trace)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize(
    "concentrations",
    [(60.0, 30.0, 40.0), (4000.0, 900.0, 40.0), (3.0, 0.5, 0.0), (np.geomspace(9.0, 900.0, 6), 30.0, 40.0)],
)
@pytest.mark.parametrize(("n_features", "n_components"), [(3, 2), (9, 1), (25, 6)])
def test_the_objective_never_falls_and_converges_to_a_stationary_point(n_features, n_components, concentrations):
    X, document = make_rows(50, n_features, density=0.6), concentrations[0]
    document = document if np.ndim(document) == 0 else document[:n_components]
    model = make_model(X, n_components, concentrations=(document, *concentrations[1:]))
    state, trace = run(MeanField(5, 1e-10), model, 400)
    assert np.all(np.diff(trace) >= -1e-10 * np.abs(trace[1:]))
    assert state.log_density == pytest.approx(slow_objective(model, X, state.position, state.latents.shapes), rel=1e-9)
    F = force(model, state.position, state.latents)
    assert np.abs(F - state.position.topics).max() < 2e-2 * state.position.concentrations.max()
    np.testing.assert_allclose(np.linalg.norm(state.statistics, axis=1), 1.0, rtol=1e-12)
    assert state.statistics.shape == (n_components, n_features)


class Overshooting:
    """One number, whose objective is -(x - 1)^2; a whole step goes from x to x + 10 (1 - x)."""

    scale = 1.0

    class Factors(NamedTuple):
        x: float

        def directions(self):
            return np.ones((1, 1))

    def fit_rows(self, rows, n_steps, tol):
        return rows, DocumentSums(None, None, 0.0)

    def move_topics(self, factors, pull, rate, scale):
        return self.Factors(factors.x + rate * 10.0 * (1.0 - factors.x))

    def refresh_rows(self, factors, rows):
        return rows

    def topic_objective(self, factors):
        return -((factors.x - 1.0) ** 2)

    def objective(self, factors, rows, scale):
        return self.topic_objective(factors)


def test_a_step_that_would_lower_the_objective_is_cut():
    model, sampler = Overshooting(), MeanField()
    state = sampler.step(model, MeanFieldState(model.Factors(0.0), KEY, 0, -np.inf, None, None))
    assert (state.position.x, state.log_density, state.rate) == (1.25, -0.0625, 0.5)  # at 1/8; then 1/2 is tried
    model.move_topics = lambda factors, pull, rate, scale: model.Factors(factors.x + rate)
    stuck = sampler.step(model, state)
    assert (stuck.position.x, stuck.log_density) == (1.25, -0.0625)
    assert 0.0 < stuck.rate < 0.02


def test_one_topic_is_the_posterior_of_a_von_mises_fisher_law():
    """With one topic the cosine is linear in it, and eta = kappa * (sum of v) + sigma E mu."""
    X = make_rows(30, 9)
    model = make_model(X, 1)
    state, _ = run(MeanField(), model, 60)
    total = unit(X[np.any(X != 0, axis=1)]).sum(axis=0)
    wanted = model.concentrations.document * total + model.concentrations.topic * state.position.expected_mean()
    np.testing.assert_allclose(state.position.topics[:, 0], wanted, rtol=1e-9)
    np.testing.assert_allclose(state.latents.shapes / state.latents.shapes.sum(axis=1, keepdims=True), 1.0)


@pytest.mark.extended
@pytest.mark.parametrize(("length", "within"), [(60.0, 0.003), (3000.0, 0.001)])
def test_the_cosine_that_stands_in_is_near_the_expected_one(length, within):
    """The expectation over the factors by simulation; the cosine of the means alone is farther from it."""
    V, K, n = 60, 4, 20_000
    rng = np.random.default_rng(0)
    X = make_rows(12, V)
    model = make_model(X, K)
    topics = rng.normal(0.5, 1.0, (V, K))
    topics *= length / np.linalg.norm(topics, axis=0)
    factors = SphereFactors(topics, np.full(K, length), np.ones(V), np.sqrt(V))
    rows = model.refresh_rows(factors, RowFactors(rng.uniform(1.0, 8.0, (model.n_samples, K)), None, None))
    beta = np.stack([VonMisesFisher(direction, length).sample(n, rng) for direction in factors.directions()])
    means = factors.directions() * bessel_ratio(V, length)
    errors = []
    for d, v in enumerate(unit(X[np.any(X != 0, axis=1)])):
        mixed = np.einsum("nk,knv->nv", rng.dirichlet(rows.shapes[d], n), beta)
        expected = np.mean(unit(mixed) @ v)
        one = RowFactors(rows.shapes[d : d + 1], rows.projections[d : d + 1], rows.overlaps)
        stand_in = model.batch(np.array([d])).alignment(factors, one).document
        errors.append((stand_in - expected, unit(rows.shapes[d] @ means) @ v - expected))
    close, plain = np.abs(errors).max(axis=0)
    assert close < within
    assert plain > 3.0 * close


def test_the_variance_of_a_concentration_stands_for_its_distribution():
    """The expectation of log c(kappa(theta)) by simulation; that at the mean concentration is too large."""
    V, K, rng, errors = 60, 4, np.random.default_rng(0), []
    model = make_model(make_rows(12, V), K, concentrations=(OF_TOPICS, 300.0, 40.0))
    factors, rows = make_factors(model, K)
    rows = rows._replace(shapes=rng.uniform(1.0, 20.0, (model.n_samples, K)))
    for d, shapes in enumerate(rows.shapes):
        one = RowFactors(rows.shapes[d : d + 1], rows.projections[d : d + 1], rows.overlaps)
        mean, cosine = OF_TOPICS @ shapes / shapes.sum(), model.observe(one).cosines[0]
        alone = make_model(np.ones((1, V)), K, concentrations=(mean, 300.0, 40.0))  # which has the same divergence
        added = model.batch(np.array([d]))._score(one)[0] - alone._score(one)[0]  # to the log normaliser at the mean
        drawn = rng.dirichlet(shapes, 20_000) @ OF_TOPICS
        logs = log_vmf_normalizer(V, drawn) + bessel_ratio(V, mean) * (drawn - mean)  # with a control variate
        expected = logs.mean() - log_vmf_normalizer(V, mean)
        errors.append((added - expected, -expected))
        assert cosine == pytest.approx(model.batch(np.array([d])).alignment(factors, one).document, rel=1e-12)
    second_order, at_mean = np.abs(errors).max(axis=0)
    assert second_order < 0.02
    assert at_mean > 10.0 * second_order


def simulate(n_rows, n_features, n_components, seed, kappa=3000.0):
    rng = np.random.default_rng(seed)
    mean = unit(np.ones(n_features))
    topics = VonMisesFisher(mean, 20.0).sample(n_components, rng)
    theta = rng.dirichlet(np.full(n_components, 0.4), n_rows)
    X = np.stack([VonMisesFisher(v, kappa).sample(random_state=rng) for v in unit(theta @ topics)])
    return X, topics, theta, mean


def matched(found, topics):
    cosines = found @ topics.T
    return cosines[linear_sum_assignment(-cosines)]


def planted_model(**options):
    X, topics, theta, mean = simulate(600, 60, 4, 0)
    concentrations = Concentrations(3000.0, 20.0, 100.0)
    return mean_field(X, np.full(4, 0.4), mean, concentrations, ONE, **options), topics, theta


def test_planted_topics_are_found():
    model, topics, _ = planted_model()
    state, trace = run(MeanField(), model, 60)
    assert matched(state.statistics, topics).min() > 0.995
    # How well documents fit is what a vMF law of this concentration says.
    assert model.alignment(state.position, state.latents).document == pytest.approx(bessel_ratio(60, 3000.0), abs=1e-3)
    assert trace[-1] > trace[0]


def test_planted_topics_are_found_by_minibatches():
    model, topics, _ = planted_model(batch_size=50)
    state, trace = run(StochasticMeanField(), model, 40)
    assert matched(state.statistics, topics).min() > 0.99
    best = run(MeanField(), planted_model()[0], 60)[1]
    assert trace[-1] > best[-1] - 0.05 * (best[-1] - best[0])


def test_alignment_is_of_unit_vectors_in_expectation():
    X, K = make_rows(12, 8), 3
    model = make_model(X, K)
    factors, rows = make_factors(model, K)
    alignment = model.alignment(factors, rows)
    e = factors.directions() * bessel_ratio(8, factors.concentrations)[:, None]
    mean = bessel_ratio(8, 50.0) * unit(factors.mean)
    assert alignment.topic == pytest.approx(np.mean(e @ mean), rel=1e-12)
    assert alignment.mean == pytest.approx(mean @ model.mean_direction, rel=1e-12)
    # The objective's slopes in the concentrations say the same.
    for name, count, wanted, dim in [
        ("document", model.n_samples, alignment.document, 8),
        ("topic", K, alignment.topic, 8),
    ]:
        values = []
        for h in (1e-4, -1e-4):
            moved = {name: getattr(model.concentrations, name) + h}
            other = make_model(X, K).tuned(model.concentrations._replace(**moved))
            values.append(other.objective(factors, rows, 1.0))
        slope = (values[0] - values[1]) / 2e-4
        at = getattr(model.concentrations, name)
        assert slope == pytest.approx(count * (wanted - bessel_ratio(dim, at)), rel=1e-5, abs=1e-5)


def test_all_rows_at_once_with_rate_one_is_the_batch_step():
    model = make_model(make_rows(60, 15), 4)
    batch, _ = run(MeanField(3), model, 4)
    # offset 1 and decay 0 keep rho = 1
    stochastic, _ = run(StochasticMeanField(3, learning_decay=0.0, learning_offset=1.0), model, 4)
    np.testing.assert_array_equal(batch.position.topics, stochastic.position.topics)
    assert batch.log_density == stochastic.log_density
    other, _ = run(StochasticMeanField(3), model, 4)
    assert np.abs(other.position.topics - batch.position.topics).max() > 1e-3


@pytest.mark.parametrize("sampler", [MeanField(), StochasticMeanField()])
def test_the_same_bytes_for_any_number_of_threads(sampler, monkeypatch):
    for name, size in [("_ROWS_OF_TASK", 8), ("_CELLS_OF_TASK", 256), ("_WORK_OF_TASK", 256)]:
        monkeypatch.setattr(f"skmanifold.admixture._spherical.variational.{name}", size)
    X = make_rows(200, 40)
    with Workers(3) as three:
        states = [run(sampler, make_model(X, 5, workers=workers, batch_size=64), 4)[0] for workers in (ONE, three)]
    assert states[0].position.topics.tobytes() == states[1].position.topics.tobytes()
    assert states[0].log_density == states[1].log_density


@pytest.mark.parametrize("sampler", [MeanField(), StochasticMeanField()])
def test_rows_without_entries_say_nothing(sampler):
    X = make_rows(60, 12)
    model, full = make_model(X, 3, batch_size=20), make_model(X[np.any(X != 0, axis=1)], 3, batch_size=20)
    assert model.n_samples < len(X)
    np.testing.assert_array_equal(model.directed, np.flatnonzero(np.any(X != 0, axis=1)))
    assert run(sampler, model, 3)[0].position.topics.tobytes() == run(sampler, full, 3)[0].position.topics.tobytes()


def test_a_minibatch_may_have_fewer_rows_than_topics():
    sampler = StochasticMeanField()
    state = sampler.init(make_model(make_rows(30, 12), 5), KEY)
    batch = make_model(make_rows(3, 12, density=0.9), 5, total_samples=30)
    state = sampler.step_stream(batch, sampler.resume_stream(batch, state.position, KEY, 1), 0.3, batch.scale)
    assert np.all(np.isfinite(state.statistics))
    assert np.isfinite(state.log_density)


def test_minibatches_are_a_partition_and_their_model_the_rows():
    X = make_rows(50, 12)
    model = make_model(X, 3, batch_size=8, total_samples=500)
    batches = model.choose_batches(KEY)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(model.n_samples))
    assert not np.array_equal(batches[0], np.arange(8))
    batch = model.batch(batches[1])
    alone = make_model(X[model.directed[batches[1]]], 3)
    for got, wanted in zip(batch.rows[:3], alone.rows[:3], strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype == wanted.dtype
    assert batch.scale == 500 / len(batches[1])


@pytest.mark.parametrize("document", [60.0, OF_TOPICS[:3]], ids=["one", "each"])
def test_minibatches_of_a_partition_pull_as_all_rows_do(document):
    model = make_model(make_rows(50, 12), 3, concentrations=(document, 30.0, 40.0), batch_size=8)
    _, rows = make_factors(model, 3)
    _, whole = model.fit_rows(rows, 2, 1e-9)
    parts = [model.batch(chosen).fit_rows(rows.take(chosen), 2, 1e-9)[1] for chosen in model.choose_batches(KEY)]
    for name in ("weighted", "coupling", "objective"):
        total = sum(getattr(part, name) for part in parts)
        np.testing.assert_allclose(total, getattr(whole, name), rtol=1e-11, atol=1e-12)
