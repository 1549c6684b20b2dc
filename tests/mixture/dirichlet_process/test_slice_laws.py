"""The slice sampler of a Dirichlet-process mixture as a whole: labels of sticks, partition and concentration.

Wrong variants go through the same checks, and fail.
"""

import copy

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees
from scipy import stats
from scipy.special import gammaln

from skmanifold.emissions._statistics import n_used, occupied
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import Purpose, root_key, subkey
from skmanifold.samplers import Slice
from skmanifold.samplers._latent import stick_breaking
from skmanifold.samplers._latent.stick_breaking import Sticks, draw_sticks, lengthen_sticks

from . import _tiny_partitions as tiny
from ._emission_evidence import joint_difference
from ._emission_partitions import CASES
from ._slice_evidence import (
    ExactPosterior,
    clusters_and_empty_sticks,
    draw_places,
    model_of,
    slice_estimate,
    state_of,
)

TABLES = {"multinomial": tiny.TABLE, "categorical": tiny.CATEGORICAL}
PRIORS = {"given": 1.0, "learned": (1.0, 1.0)}
TEXTBOOK, ORDER = Slice(0, 0, False), Slice(0)
SAMPLERS = {  # with the size of minibatches
    "textbook": (TEXTBOOK, None),
    "new order": (ORDER, None),
    "split-merge": (Slice(2), None),
    "split-merge, 2 scans": (Slice(2, 2), None),
    "minibatches": (ORDER, 2),
    "minibatches, textbook": (TEXTBOOK, 2),
    "minibatches, split-merge": (Slice(1, 1), 3),
}
UNLIKELY = 1e-4
KEY = root_key(3)
POSTERIORS = {(table, prior): ExactPosterior(TABLES[table], PRIORS[prior]) for table in TABLES for prior in PRIORS}


# --- what the tests stand on -----------------------------------------------------------------------------


def test_exact_expectations_are_those_worked_out_elsewhere():
    given, learned = (POSTERIORS["multinomial", prior].expectations for prior in PRIORS)
    np.testing.assert_allclose(given[:6], [*tiny.P_COMPONENTS, tiny.P_TOGETHER], atol=1e-5)
    np.testing.assert_allclose(learned[:6], [*tiny.GAMMA_P_COMPONENTS, tiny.GAMMA_P_TOGETHER], atol=3e-5)
    np.testing.assert_allclose(learned[8], tiny.GAMMA_MEAN_CONCENTRATION, atol=3e-5)


# --- the posterior of a few rows -------------------------------------------------------------------------


def check(sampler, batch_size=None, table="multinomial", prior="learned", kind=DPModel, **options):
    """An estimate along chains, and what it should be."""
    posterior = POSTERIORS[table, prior]
    model = model_of(posterior.table, posterior.concentration, batch_size, kind)
    return slice_estimate(sampler, model, posterior, **options), posterior.expectations


@pytest.mark.extended
@pytest.mark.short_cases("textbook-learned")
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", ["textbook", "split-merge, 2 scans", "minibatches, textbook"])
def test_slice_leaves_the_posterior_of_labels_and_concentration_alone(name, prior):
    """Other settings: `test_dp_emission_laws`."""
    sampler, batch_size = SAMPLERS[name]
    estimate, exact = check(sampler, batch_size, prior=prior, n_steps=20 if batch_size else 45)
    assert estimate.error[:6].max() < 0.04
    assert_agrees(estimate, exact)


# --- wrong variants --------------------------------------------------------------------------------------


def some_number(key):
    return np.random.default_rng(int(key))


def printed_rule(weights, least):
    """Of sticks those up to the first k with u* < 1 - sum_{j <= k}, as printed."""
    n_sticks = int(np.argmax(1 - np.cumsum(weights) > least)) + 1
    order = np.argsort(-weights[:n_sticks], kind="stable")
    above = order[weights[order] > least]
    return above if len(above) else order[:1]


def no_new_sticks(sticks, concentration, least, key):
    return sticks


def sticks_until_a_light_one(sticks, concentration, least, key):
    """Ends with the first that weighs less than any slice, as if weights fell."""
    rng, (log_shares, log_rests) = some_number(key), sticks
    while log_shares[-1] + log_rests[:-1].sum() >= np.log(least):
        rest = -rng.exponential() / concentration
        log_shares, log_rests = np.append(log_shares, np.log(-np.expm1(rest))), np.append(log_rests, rest)
    return Sticks(log_shares, log_rests)


def sticks_that_forget_what_comes_after(sizes, concentration, key):
    shares = some_number(key).beta(1 + sizes, concentration)
    return Sticks(np.log(shares), np.log1p(-shares))


def order_kept(sizes, concentration, key):
    return np.where(sizes > 0, np.arange(len(sizes)), -1).astype(np.int32)


def order_of_sizes(sizes, concentration, key):
    places = np.full(len(sizes), -1, np.int32)
    used = np.flatnonzero(sizes)
    places[used[np.argsort(-sizes[used])]] = np.arange(len(used))
    return places


def order_without_empty_sticks(sizes, concentration, key):
    places = np.full(len(sizes), -1, np.int32)
    used = np.flatnonzero(sizes)
    places[used] = draw_places(sizes[used], 1e-9, some_number(key))
    return places


class EscobarWest(Slice):
    """Draws the concentration given the number of clusters, as where labels are forgotten."""

    def _scan(self, model, rows, labels, counts, concentration, key):
        rng, (shape, rate) = some_number(key), model.concentration_prior
        n_clusters, n_rows = len(occupied(counts)), model.n_rows
        rate -= np.log(rng.beta(concentration + 1, n_rows))
        odds = (shape + n_clusters - 1) / (n_rows * rate)
        shape += n_clusters - (rng.random() * (1 + odds) > odds)
        model = copy.copy(model)
        model.concentration = rng.gamma(shape) / rate
        return super()._scan(model, rows, labels, counts, model.concentration, key)


class CountsClusters(Slice):
    """Draws the concentration from the sticks, with the number of clusters for that of sticks."""

    def _scan(self, model, rows, labels, counts, concentration, key):
        model = copy.copy(model)
        shape, rate = model.concentration_prior
        model.concentration_prior = shape + len(occupied(counts)) - n_used(counts), rate
        return super()._scan(model, rows, labels, counts, concentration, key)


class CountsOfTheMinibatch(Slice):
    """The counts of the minibatch, as many times as it goes into all rows."""

    def _scan(self, model, rows, labels, counts, concentration, key):
        seen = np.isin(np.arange(model.n_rows), rows)
        scale = model.n_rows // len(rows)
        only = model.count(np.where(seen, labels, len(counts.sizes) - 1).astype(np.int32))
        sizes = scale * only.sizes
        sizes[-1] = 0
        slices = subkey(key, Purpose.SLICE)
        sticks = draw_sticks(sizes[: n_used(counts)], concentration, key)
        least = model.least_slice(rows, labels, sticks.weights()[0], slices)
        weights, _ = lengthen_sticks(sticks, concentration, least, key).weights()
        above = stick_breaking.order_above(weights, least)
        scaled = counts._replace(sizes=sizes, categories=scale * only.categories)
        components = model.draw_components(scaled, above, subkey(key, Purpose.COMPONENTS))
        return concentration, model.sample_labels(
            rows, labels, counts, components, weights[above], above, weights, slices
        )


class SlicesOfOldWeights(DPModel):
    """Slices under the weights of the scan before."""

    before = now = np.ones(1)

    def _old(self, weights):
        old = np.array(weights)
        n = min(len(old), len(self.before))
        old[:n] = self.before[:n]
        return old

    def least_slice(self, rows, labels, weights, key):
        self.before, self.now = self.now, weights
        # Below the largest weight, so that a component is above the slices
        return min(super().least_slice(rows, labels, self._old(weights), key), 0.5 * weights.max())

    def sample_labels(self, rows, labels, counts, log_table, weights, components, weight_of, key):
        return super().sample_labels(rows, labels, counts, log_table, weights, components, self._old(weight_of), key)


class ComponentsOfThePrior(DPModel):
    """Components are drawn as if nothing had been seen."""

    def draw_components(self, counts, components, key):
        return super().draw_components(counts._replace(categories=0 * counts.categories), components, key)


WRONG_STICKS = [
    (printed_rule, "order_above", TEXTBOOK, "given"),
    (no_new_sticks, "lengthen_sticks", TEXTBOOK, "given"),
    (sticks_until_a_light_one, "lengthen_sticks", TEXTBOOK, "learned"),
    (sticks_that_forget_what_comes_after, "draw_sticks", TEXTBOOK, "given"),
    (order_kept, "redraw_order", Slice(8), "learned"),
    (order_of_sizes, "redraw_order", ORDER, "given"),
    (order_without_empty_sticks, "redraw_order", ORDER, "given"),
]


@pytest.mark.extended
@pytest.mark.every(3)
@pytest.mark.parametrize(("wrong", "name", "sampler", "prior"), WRONG_STICKS)
def test_wrong_sticks_are_found_out(wrong, name, sampler, prior, monkeypatch):
    monkeypatch.setattr(stick_breaking, name, wrong)
    assert_disagrees(*check(sampler, prior=prior))


def test_the_printed_rule_leaves_one_component_with_all_rows(monkeypatch):
    monkeypatch.setattr(stick_breaking, "order_above", printed_rule)
    estimate, _ = check(TEXTBOOK, n_chains=5, n_steps=5)
    assert estimate.mean[0] == 1.0


@pytest.mark.extended
@pytest.mark.parametrize("kind", [SlicesOfOldWeights, ComponentsOfThePrior])
def test_wrong_models_are_found_out(kind):
    assert_disagrees(*check(TEXTBOOK, kind=kind, prior="given"))


@pytest.mark.extended
def test_scaled_counts_of_minibatches_are_found_out():
    assert_disagrees(*check(CountsOfTheMinibatch(0), 2, "categorical", "given"))


# --- the concentration given the labels it was drawn for -------------------------------------------------


def log_density_of_concentration(log_alpha, labels, prior):
    """Of log alpha given labels of sticks, up to a constant: sticks integrated out one by one."""
    shape, rate = prior
    alpha = np.exp(log_alpha)
    out = shape * log_alpha - rate * alpha
    for j in range(labels.max() + 1):
        after = (labels > j).sum()
        out += log_alpha + gammaln(alpha + after) - gammaln(1 + alpha + (labels >= j).sum())
    return out


def p_value_of_concentrations(sampler, n=1500, given="before"):
    """One step from exact draws: where the concentration is in its law given the labels before it or after it, by their
    empty sticks.
    """
    posterior = POSTERIORS["multinomial", "learned"]
    model = model_of(posterior.table, posterior.concentration)
    alphas, starts = posterior.draws(n, np.random.default_rng(1))
    log_alpha = np.linspace(-10, 4, 700)
    observed, expected = np.zeros((4, 8)), np.zeros((4, 1))
    for i in range(n):
        after = sampler.step(model, state_of(model, alphas[i], starts[i], subkey(KEY, i)))
        labels = starts[i] if given == "before" else after.latents
        density = np.exp(log_density_of_concentration(log_alpha, labels, posterior.concentration))
        below = np.cumsum(density)
        place = np.interp(np.log(after.position), log_alpha, (below - density / 2) / below[-1])
        n_empty = min(3, clusters_and_empty_sticks(labels)[1])
        observed[n_empty, min(7, int(8 * place))] += 1
        expected[n_empty] += 1 / 8
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), 4 * 7)


@pytest.mark.extended
@pytest.mark.parametrize("given", ["before", "after"])
def test_the_concentration_has_its_law_given_the_labels_of_sticks(given):
    assert p_value_of_concentrations(TEXTBOOK, given=given) > UNLIKELY


@pytest.mark.short_cases("EscobarWest")
@pytest.mark.parametrize("kind", [EscobarWest, CountsClusters])
def test_wrong_laws_of_the_concentration_are_found_out(kind):
    assert p_value_of_concentrations(kind(0, 0, False), 1000) < UNLIKELY


def test_new_sticks_are_broken_for_the_concentration_just_drawn(monkeypatch):
    """With the one before, which is a law so near that chains of thousands of steps do not tell, it would be wrong."""
    drawn_for = []

    def lengthen(sticks, concentration, *rest):
        drawn_for.append(concentration)
        return lengthen_sticks(sticks, concentration, *rest)

    monkeypatch.setattr(stick_breaking, "lengthen_sticks", lengthen)
    model = model_of(tiny.TABLE, (1.0, 1.0))
    state = TEXTBOOK.init(model, KEY)
    for _ in range(5):
        before = state.position
        state = TEXTBOOK.step(model, state)
        assert drawn_for.pop() == state.position != before
    assert not drawn_for


# --- the same with figures to three decimals -------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", ["textbook", "new order", "split-merge", "split-merge, 2 scans", "minibatches"])
def test_slice_draws_the_number_of_components_to_three_decimals(name, prior):
    sampler, batch_size = SAMPLERS[name]
    estimate, exact = check(sampler, batch_size, prior=prior, n_steps=7000, n_chains=40)
    assert_agrees(estimate, exact)
    np.testing.assert_allclose(estimate.mean[:6], exact[:6], atol=0.005)


@pytest.mark.long
def test_the_number_of_clusters_does_not_suffice_to_draw_the_concentration():
    """Escobar and West's rule among labels of sticks: near, and wrong by as much as was worked out elsewhere."""
    estimate, exact = check(EscobarWest(0, 0, False), n_steps=7000, n_chains=40)
    assert_disagrees(estimate, exact)
    np.testing.assert_allclose(estimate.mean[:2], [0.0489, 0.248], atol=0.005)


# --- the joint law of parameters and data ----------------------------------------------------------------


class SplitsByAnotherPrior(DPModel):
    """Splits and merges for components of a prior that is not the one they are drawn from."""

    def split_merge(self, *arguments):
        other = copy.copy(self)
        other.clusters = tiny.category_clusters(self.clusters.rows, 2.0)
        return DPModel.split_merge(other, *arguments)


@pytest.mark.extended
@pytest.mark.short_cases("split-merge", "minibatches")
@pytest.mark.parametrize("name", ["textbook", "split-merge", "minibatches"])
def test_slice_leaves_the_joint_law_of_parameters_and_data_alone(name):
    sampler, batch_size = SAMPLERS[name]
    assert_agrees(joint_difference(sampler, CASES["categorical, missing"], batch_size), 0.0)


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize(("kind", "sampler"), [(SplitsByAnotherPrior, Slice(5)), (SlicesOfOldWeights, TEXTBOOK)])
def test_the_joint_law_finds_wrong_models_out(kind, sampler):
    assert_disagrees(joint_difference(sampler, CASES["categorical"], kind=kind, n_chains=120), 0.0)
