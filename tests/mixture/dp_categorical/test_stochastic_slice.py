import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from scipy.special import logsumexp

from skmanifold.emissions._statistics import n_used
from skmanifold.mixture._dirichlet_process import stochastic_slice
from skmanifold.mixture._dirichlet_process.gamma_target import log_rows
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.stochastic_slice import StochasticSlice, StochasticSliceState, counts_used
from skmanifold.models import IncompatibleError
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import SCIR, SGHMC, SGRHMC, SGRLD
from skmanifold.samplers._density.gradient_base import GradientMemory

from ..dirichlet_process import _tiny_partitions as tiny
from ..dirichlet_process._slice_evidence import ExactPosterior, model_of, statistics

LEARNED = (1.0, 1.0)
KEY = np.uint64(7)


def stored(step_size):
    return StochasticSlice(SCIR(step_size, control_variate="stored"))


def state_at(sampler, model, concentration, labels, key):
    """The sampler's state at these labels, sticks and components an exact draw given them."""
    labels = labels.astype(np.int32)
    counts = model.count(labels)
    blocks = sampler._begin(model, counts_used(counts), float(concentration), key)
    return StochasticSliceState(blocks, key, 0, -np.inf, counts, labels)


def estimate(sampler, posterior, batch_size, *, n_chains=50, n_steps=30, kind=DPModel, seed=0):
    """Of `statistics` along chains that begin at exact draws of the posterior."""
    model = model_of(posterior.table, posterior.concentration, batch_size, kind)
    concentrations, starts = posterior.draws(n_chains, np.random.default_rng(seed))
    labels = np.empty((n_chains, n_steps, model.n_rows), np.int64)
    found = np.empty((n_chains, n_steps))
    for chain in range(n_chains):
        state = state_at(sampler, model, concentrations[chain], starts[chain], subkey(root_key(seed), chain))
        for n in range(n_steps):
            state = sampler.step(model, state)
            labels[chain, n], found[chain, n] = state.latents, state.position.concentration
    return summarize(statistics(labels, found, posterior.learned).mean(axis=1))


# Laws


@pytest.mark.extended
@pytest.mark.short_cases("learned")
@pytest.mark.parametrize("concentration", [1.0, LEARNED], ids=["given", "learned"])
def test_stored_counts_leave_the_posterior_as_it_is_at_a_huge_step_size(concentration):
    posterior = ExactPosterior(tiny.TABLE, concentration)
    assert_agrees(estimate(stored(1.0), posterior, 2), posterior.expectations)


@pytest.mark.extended
def test_stored_counts_leave_the_posterior_of_a_table_of_several_columns_as_it_is():
    posterior = ExactPosterior(tiny.CATEGORICAL, 0.7)
    assert_agrees(estimate(stored(0.5), posterior, 3, n_chains=40, n_steps=30), posterior.expectations)


@pytest.mark.long
def test_scaled_counts_of_minibatches_bias_it_at_a_huge_step_size():
    posterior = ExactPosterior(tiny.TABLE, 1.0)
    assert_disagrees(estimate(StochasticSlice(SCIR(1.0)), posterior, 2, n_chains=100), posterior.expectations)


def test_stored_sums_are_redrawn_given_the_labels_and_the_concentration_as_they_are(monkeypatch):
    redraw_column_sums, shapes = stochastic_slice.redraw_column_sums, []

    def spy(target, state, key):
        shapes.append(target.shapes)
        return redraw_column_sums(target, state, key)

    monkeypatch.setattr(stochastic_slice, "redraw_column_sums", spy)
    model, sampler = model_of(tiny.TABLE, LEARNED, batch_size=2), stored(0.5)
    state = sampler.init(model, KEY)
    for _ in range(5):
        state = sampler.step(model, state)
        n, sticks = n_used(state.statistics), log_rows(sampler.sampler, state.position.sticks)
        sizes = state.statistics.sizes[:n]
        beyond = np.array([sizes[j + 1 :].sum() for j in range(n)])
        of_sticks = np.column_stack((1.0 + sizes, state.position.concentration + beyond))
        np.testing.assert_array_equal(shapes[-2], of_sticks)
        np.testing.assert_array_equal(shapes[-1], tiny.PRIOR + state.statistics.categories[:, :n].T)
        assert sticks.shape == (n, 2)
    assert len(shapes) == 5 * 3 * 2


def test_counts_of_a_minibatch_stand_for_all_rows():
    model, rows, labels = model_of(tiny.TABLE, 1.0), np.array([4, 2]), np.array([1, 2, 0, 1, 2], np.int32)
    sums = stochastic_slice._sums_of_rows(model, rows, labels, 4, model.n_rows / len(rows))
    np.testing.assert_array_equal(sums.sizes, [2.5, 0, 2.5, 0])
    np.testing.assert_array_equal(sums.categories.T, [[0, 7.5], [0, 0], [10, 0], [0, 0]])
    (_, sticks), (_, components) = StochasticSlice(SCIR())._with_targets(model, sums, sums, 0.5)
    np.testing.assert_array_equal(sticks.shapes, [[3.5, 3.0], [1.0, 3.0], [3.5, 0.5], [1.0, 0.5]])
    np.testing.assert_array_equal(components.shapes, sums.categories.T + tiny.PRIOR)


class Recording(DPModel):
    """Keeps what labels were drawn from last."""

    def sample_labels(self, rows, labels, counts, log_table, weights, components, weight_of, key):
        self.log_table, self.components, self.weight_of = log_table.copy(), components.copy(), weight_of.copy()
        return super().sample_labels(rows, labels, counts, log_table, weights, components, weight_of, key)


@pytest.mark.parametrize("sampler", [stored(0.5), StochasticSlice(SCIR(0.5)), StochasticSlice(SGRLD(0.01))])
def test_components_keep_the_weight_and_the_probabilities_with_which_they_took_rows(sampler):
    model = model_of(tiny.TABLE, 2.0, kind=Recording)
    state = sampler.init(model, KEY)
    n_born = 0
    for _ in range(60):
        before = n_used(state.statistics)
        state = sampler.step(model, state)
        n_born += max(n_used(state.statistics) - before, 0)
        n = n_used(state.statistics)
        used = model.components < n
        log_weights, log_components, _ = sampler.parameters(model, state)
        place = np.argsort(np.argsort(-model.weight_of[:n]))  # of labels in the draw, the heaviest first
        np.testing.assert_allclose(np.exp(log_weights[:-1])[place], model.weight_of[:n], rtol=1e-9)
        drawn = log_components[:, place[model.components[used]]]
        np.testing.assert_allclose(drawn, model.log_table[:, used], atol=1e-9)
    assert n_born > 5


# Other samplers, and what a state holds


@pytest.mark.parametrize(
    ("sampler", "weights_sampler"),
    [
        (SGRLD(0.02), None),
        (SGRHMC(0.02), SCIR(0.1)),
        (SGHMC(0.02), SGHMC(0.05)),
        (SCIR(0.1, control_variate="stored"), SGRLD(0.02)),
    ],
)
def test_any_sampler_of_gammas_runs_and_stays_positive(sampler, weights_sampler):
    table, _ = separated(60, seed=0)
    model = model_of(table, LEARNED, batch_size=20)
    slices = StochasticSlice(sampler, weights_sampler)
    state = slices.init(model, KEY)
    for _ in range(30):
        state = slices.step(model, state)
        assert np.isfinite(state.log_density)
        blocks = state.position
        assert np.isfinite(log_rows(slices._movers[0], blocks.sticks)).all()
        assert np.isfinite(log_rows(slices._movers[1], blocks.components)).all()
        assert blocks.sticks.position.shape[1] == blocks.components.position.shape[1] == n_used(state.statistics)
        assert blocks.concentration > 0
    for mine, recounted in zip(state.statistics, model.count(state.latents), strict=True):
        n = min(mine.shape[-1], recounted.shape[-1])
        np.testing.assert_array_equal(mine[..., :n], recounted[..., :n])


def test_parameters_are_normalised_with_a_tiny_prior():
    table, _ = separated(60, seed=0)
    model = model_of(table, 1.0, batch_size=20, prior=1e-4)
    sampler = StochasticSlice(SCIR(0.5))
    state = sampler.init(model, KEY)
    for _ in range(5):
        state = sampler.step(model, state)
    log_weights, log_components, concentration = sampler.parameters(model, state)
    assert concentration == 1.0
    assert len(log_weights) == n_used(state.statistics) + 1
    assert logsumexp(log_weights) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(logsumexp(log_components, axis=0), 0, atol=1e-12)
    assert np.isfinite(log_components).all()
    assert log_components.min() < -1000


@pytest.mark.parametrize("sampler", [stored(0.3), StochasticSlice(SGRHMC(0.02))])
def test_a_run_that_is_cut_and_pickled_goes_on_as_it_would_have(sampler):
    model = model_of(separated(60, seed=0)[0], LEARNED, batch_size=20)
    state = sampler.init(model, KEY)
    for _ in range(3):
        state = sampler.step(model, state)
    other = pickle.loads(pickle.dumps(state))
    for _ in range(3):
        state, other = sampler.step(model, state), sampler.step(model, other)
    assert_same(state, other)


def assert_same(left, right):
    if isinstance(left, GradientMemory):
        return  # scratch arrays, and what the next step writes before it reads
    if isinstance(left, tuple):
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        np.testing.assert_array_equal(left, right)


# Streams

SHARES = np.array([0.35, 0.25, 0.2, 0.12, 0.08])
TOTAL, N = 5000, 100


def separated(n, seed, kinds=5):
    """Rows of five components, each with four categories of its own; and whose they are."""
    rng = np.random.default_rng(seed)
    probabilities = np.full((5, 20), 0.01) + np.kron(np.eye(5), np.full((1, 4), 0.2))
    shares = SHARES[:kinds] / SHARES[:kinds].sum()
    labels = rng.choice(kinds, n, p=shares)
    return tiny.table_of(rng.multinomial(10, probabilities[labels] / probabilities[0].sum())), labels


def batch_model(seed, concentration=1.0, kinds=5):
    return model_of(separated(N, seed, kinds)[0], concentration)


def stream(sampler, rate, n_steps, *, seed=1, kinds=5, state=None, concentration=1.0):
    """States after each minibatch."""
    if state is None:
        state = sampler.init_stream(batch_model(seed, concentration, kinds), np.uint64(seed), TOTAL / N)
    for t in range(n_steps):
        state = sampler.step_stream(batch_model(1000 * seed + t, concentration), state, rate, TOTAL / N)
        yield state


def sizes_by_rank(state):
    """Of the five largest."""
    return np.pad(np.sort(state.statistics.sizes)[::-1], (0, 5))[:5]


@pytest.mark.extended
def test_first_labels_follow_the_urn():
    table = tiny.CATEGORICAL._replace(indptr=tiny.CATEGORICAL.indptr[:5])  # four rows
    prior, concentration, log_others, n_draws = 0.5, 0.7, np.log(0.3), 20_000
    data = tiny.category_clusters(table, prior).data
    rng = np.random.default_rng(0)
    log_table = np.log(np.concatenate([rng.dirichlet(np.ones(size), 2).T for size in (2, 3, 2)]))
    log_weights = np.log([0.5, 0.2])
    densities = np.exp(log_weights + [log_table[table.indices[a:b]].sum(axis=0) for a, b in pairwise(table.indptr)])

    def law(row, clusters):
        """Probabilities of the labels of rows from this one on, given the clusters opened before."""
        if row == table.n_rows:
            return {(): 1.0}
        opened = sum(map(len, clusters))
        masses = list(densities[row])
        for cluster in (*clusters, ()):
            share = (len(cluster) or concentration) / (opened + concentration)
            gain = tiny.log_marginal((*cluster, row), table, prior) - tiny.log_marginal(cluster, table, prior)
            masses.append(np.exp(log_others + gain) * share)
        found = {}
        for label, mass in enumerate(masses):
            after = list(clusters)
            if label >= 2:
                after[label - 2 : label - 1] = [(*(clusters[label - 2] if label - 2 < len(clusters) else ()), row)]
            for rest, p in law(row + 1, tuple(after)).items():
                found[label, *rest] = p * mass / sum(masses)
        return found

    exact = law(0, ())
    drawn = np.empty((n_draws, table.n_rows), np.int32)
    for i, labels in enumerate(drawn):
        arguments = log_table, log_weights, log_others, concentration, np.uint64(i), labels
        assert stochastic_slice._draw_labels_in_sequence(data, *arguments) == max(labels.max() - 1, 0)
    labels, p = np.array(list(exact)), np.array(list(exact.values()))
    assert p.sum() == pytest.approx(1)
    for found in (drawn, labels):
        assert found.max() >= 4
    for statistic in (
        lambda z: z[:, :, None] == np.arange(5),
        lambda z: z[:, :, None] == z[:, None, :],
        lambda z: z.max(axis=1)[:, None] == np.arange(1, 8),
    ):
        of_draws = statistic(drawn).reshape(n_draws, -1)
        of_law = p @ statistic(labels).reshape(len(p), -1)
        error = np.sqrt(np.maximum(of_law * (1 - of_law), 0.0) / n_draws) + 1e-9
        assert_agrees(Estimate(of_draws.mean(axis=0), error), of_law)


@pytest.mark.extended
def test_statistics_of_a_stream_add_up_and_their_variance_falls_with_the_rate():
    found, spread = {}, {}
    for rate in (1.0, 0.1):
        states = list(stream(StochasticSlice(SCIR(0.3)), rate, 160))
        totals = [state.statistics.sizes.sum() for state in states]
        np.testing.assert_allclose(totals, TOTAL, rtol=1e-4)
        assert min(sums.min() for state in states for sums in state.statistics[:2]) >= 0
        tokens = [state.statistics.categories.sum() for state in states]
        np.testing.assert_allclose(tokens, 10 * TOTAL, rtol=1e-4)
        kept = np.array([sizes_by_rank(state) for state in states[40:]])
        found[rate] = summarize(kept.reshape(6, 20, 5).mean(axis=1))
        spread[rate] = kept.std(axis=0).mean()
    difference = found[1.0].mean - found[0.1].mean
    assert_agrees(Estimate(difference, np.hypot(found[1.0].error, found[0.1].error)), 0.0)
    assert_agrees(found[0.1], TOTAL * SHARES, bias=30.0)  # the largest of five are a little larger than the first
    assert spread[0.1] < 0.45 * spread[1.0]


def test_statistics_of_a_stream_follow_parameters_that_move():
    sampler = StochasticSlice(SCIR(0.01))
    *_, state = stream(sampler, 0.1, 40)
    order = np.argsort(-state.statistics.sizes)[:2]
    moved = copy.deepcopy(state)
    for block in moved.position[:2]:
        for array in (block.position, block.log_theta):
            array[0, order] = array[0, order[::-1]]
    before = state.statistics.sizes[order]
    after = sampler.step_stream(batch_model(77), moved, 0.01, TOTAL / N).statistics.sizes[order]
    noise = TOTAL / np.sqrt(N)
    assert before[0] - before[1] > 200
    # without the change of the minibatch's counts, no more than a hundredth would move
    np.testing.assert_allclose(after, before[::-1], atol=noise)
    assert after[1] > after[0]


def test_a_stream_finds_components_that_appear_late():
    states = list(stream(StochasticSlice(SCIR(0.3)), 0.1, 120, kinds=3, concentration=LEARNED))
    assert max(len(state.statistics.sizes) for state in states) <= 20
    last = np.mean([sizes_by_rank(state) for state in states[-40:]], axis=0)
    np.testing.assert_allclose(last, TOTAL * SHARES, atol=250)


def test_a_stream_drops_last_components_without_rows():
    states = list(stream(StochasticSlice(SCIR(0.3)), 1.0, 100))
    lengths = [len(state.statistics.sizes) for state in states]
    assert min(np.diff(lengths)) < 0 < max(np.diff(lengths))
    for state in states:
        assert state.statistics.sizes[-1] > 1e-3
        assert state.position.sticks.position.shape[1] == state.mixture.n_components == len(state.statistics.sizes)


def test_a_stream_goes_on_where_passes_over_rows_stopped():
    sampler = StochasticSlice(SCIR(0.3))
    model = model_of(separated(600, seed=3)[0], 1.0, batch_size=100)
    state = sampler.init(model, KEY)
    for _ in range(60):
        state = sampler.step(model, state)
    before, n_steps = sampler.parameters(model, state), state.n_steps
    state = sampler.leave_rows(batch_model(0), state, TOTAL / 600)
    after = sampler.parameters(batch_model(0), state)
    assert_same(before, after)
    assert state.statistics.sizes.sum() == pytest.approx(TOTAL)
    *_, state = stream(sampler, 0.1, 60, state=state)
    assert state.n_steps == n_steps + 60
    np.testing.assert_allclose(sizes_by_rank(state), TOTAL * SHARES, atol=300)


def test_labels_of_all_rows_are_not_for_streams():
    with pytest.raises(IncompatibleError, match="stream"):
        stored(0.1).init_stream(batch_model(0), KEY, 1.0)
