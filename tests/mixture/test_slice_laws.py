"""The slice sampler of a Dirichlet-process mixture as a whole: labels of sticks, partition and concentration.

Wrong variants go through the same checks, and fail.
"""

import copy

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats

from skmanifold.mixture._dp_model import DPModel
from skmanifold.samplers import Slice, _sticks
from skmanifold.samplers._sticks import Sticks, draw_sticks, lengthen_sticks
from skmanifold.utils._random import Purpose, root_key, subkey

from . import _tiny_partitions as tiny
from ._slice_evidence import ExactPosterior, draw_places, model_of, slice_estimate, state_of, statistics

TABLES = {"multinomial": tiny.TABLE, "categorical": tiny.CATEGORICAL}
PRIORS = {"given": 1.0, "learned": (1.0, 1.0)}
TEXTBOOK, ORDER = Slice(0, 0, False), Slice(0)
SAMPLERS = {
    "textbook": (TEXTBOOK, None),
    "new order": (ORDER, None),
    "split-merge": (Slice(2), None),
    "split-merge, 2 scans": (Slice(2, 2), None),
    "minibatches": (ORDER, 2),
    "minibatches, textbook": (TEXTBOOK, 2),
    "minibatches, split-merge": (Slice(1, 1), 3),
}
POSTERIORS = {(table, prior): ExactPosterior(TABLES[table], PRIORS[prior]) for table in TABLES for prior in PRIORS}


# --- what the tests stand on -----------------------------------------------------------------------------


def test_exact_expectations_are_those_worked_out_elsewhere():
    given, learned = (POSTERIORS["multinomial", prior].expectations for prior in PRIORS)
    np.testing.assert_allclose(given[:6], [*tiny.P_COMPONENTS, tiny.P_TOGETHER], atol=1e-5)
    np.testing.assert_allclose(learned[:6], [*tiny.GAMMA_P_COMPONENTS, tiny.GAMMA_P_TOGETHER], atol=2e-5)
    np.testing.assert_allclose(learned[8], tiny.GAMMA_MEAN_CONCENTRATION, atol=2e-5)


@pytest.mark.parametrize("case", POSTERIORS)
def test_exact_draws_have_the_exact_expectations(case):
    posterior = POSTERIORS[case]
    alphas, labels = posterior.draws(8000, np.random.default_rng(0))
    draws = statistics(labels, alphas, posterior.learned)
    assert_agrees(summarize(draws), posterior.expectations)


# --- the posterior of a few rows -------------------------------------------------------------------------


def check(sampler, batch_size=None, table="multinomial", prior="learned", kind=DPModel, **options):
    """An estimate along chains, and what it should be."""
    posterior = POSTERIORS[table, prior]
    model = model_of(posterior.table, posterior.concentration, batch_size, kind)
    return slice_estimate(sampler, model, posterior, **options), posterior.expectations


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_slice_leaves_the_posterior_of_labels_and_concentration_alone(name, prior):
    sampler, batch_size = SAMPLERS[name]
    estimate, exact = check(sampler, batch_size, prior=prior)
    assert estimate.error[:6].max() < 0.02
    assert_agrees(estimate, exact)


@pytest.mark.parametrize("name", ["textbook", "minibatches, split-merge"])
def test_slice_is_right_for_tables_of_several_columns_with_missing_cells(name):
    sampler, batch_size = SAMPLERS[name]
    assert_agrees(*check(sampler, batch_size, "categorical", n_steps=30))


# --- wrong variants --------------------------------------------------------------------------------------


class PrintedRule:
    """Sticks up to the first k with u* < 1 - sum_{j<=k}: what the paper prints. `order_above` sees both."""

    @staticmethod
    def order_above(weights, least):
        enough = np.flatnonzero(1 - np.cumsum(weights) > least)
        return _sticks_as_they_are["order_above"](weights[: enough[0] + 1 if len(enough) else 1], least)


_sticks_as_they_are = dict(vars(_sticks))


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


def too_few_sticks(sticks, concentration, least, key):
    """Ends when the heaviest of those to come would be in doubt, not when none could matter."""
    return lengthen_sticks(sticks, concentration, min(1.0, 4 * least), key)


def sticks_that_forget_what_comes_after(sizes, concentration, key):
    shares = some_number(key).beta(1 + sizes, concentration)
    return Sticks(np.log(shares), np.log1p(-shares))


def sticks_without_their_prior(sizes, concentration, key):
    return draw_sticks(np.maximum(sizes - 1, 0), concentration, key)


def order_kept(sizes, concentration, key):
    return np.where(sizes > 0, np.arange(len(sizes)), -1).astype(np.int32)


def order_of_sizes(sizes, concentration, key):
    places = np.full(len(sizes), -1, np.int32)
    occupied = np.flatnonzero(sizes)
    places[occupied[np.argsort(-sizes[occupied])]] = np.arange(len(occupied))
    return places


def order_without_empty_sticks(sizes, concentration, key):
    places = np.full(len(sizes), -1, np.int32)
    occupied = np.flatnonzero(sizes)
    places[occupied] = draw_places(sizes[occupied], 1e-9, some_number(key))
    return places


class EscobarWest(Slice):
    """Draws the concentration given the number of clusters, as where labels are forgotten."""

    def _scan(self, model, rows, labels, counts, concentration, key):
        rng, (shape, rate) = some_number(key), model.concentration_prior
        n_clusters, n_rows = len(counts.occupied), model.n_rows
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
        model.concentration_prior = shape + len(counts.occupied) - counts.n_used, rate
        return super()._scan(model, rows, labels, counts, concentration, key)


class CountsOfTheMinibatch(Slice):
    """The counts of the minibatch, as many times as it goes into all rows."""

    def _scan(self, model, rows, labels, counts, concentration, key):
        seen = np.isin(np.arange(model.n_rows), rows)
        scale = model.n_rows // len(rows)
        only = model.count(np.where(seen, labels, counts.capacity - 1).astype(np.int32))
        sizes = scale * only.sizes
        sizes[-1] = 0
        slices = subkey(key, Purpose.SLICE)
        sticks = draw_sticks(sizes[: counts.n_used], concentration, key)
        least = model.least_slice(rows, labels, sticks.weights()[0], slices)
        weights, _ = lengthen_sticks(sticks, concentration, least, key).weights()
        above = _sticks.order_above(weights, least)
        scaled = counts._replace(sizes=sizes, categories=scale * only.categories)
        components = model.draw_components(scaled, above, subkey(key, Purpose.COMPONENTS))
        return concentration, model.sample_labels(
            rows, labels, counts, components, weights[above], above, weights, slices
        )


class OldConcentration(Slice):
    """Sticks from the prior of the concentration before."""


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
        return super().least_slice(rows, labels, self._old(weights), key)

    def sample_labels(self, rows, labels, counts, log_table, weights, components, weight_of, key):
        return super().sample_labels(
            rows, labels, counts, log_table, weights, components, self._old(weight_of), key
        )


class ComponentsOfThePrior(DPModel):
    """Components are drawn as if nothing had been seen."""

    def draw_components(self, counts, components, key):
        return super().draw_components(counts._replace(categories=0 * counts.categories), components, key)


WRONG_STICKS = [
    (printed_rule, "order_above", TEXTBOOK),
    (no_new_sticks, "lengthen_sticks", TEXTBOOK),
    (too_few_sticks, "lengthen_sticks", TEXTBOOK),
    (sticks_that_forget_what_comes_after, "draw_sticks", TEXTBOOK),
    (sticks_without_their_prior, "draw_sticks", TEXTBOOK),
    (order_kept, "redraw_order", Slice(2)),
    (order_of_sizes, "redraw_order", ORDER),
    (order_without_empty_sticks, "redraw_order", ORDER),
]


@pytest.mark.parametrize(("wrong", "name", "sampler"), WRONG_STICKS)
def test_wrong_sticks_are_found_out(wrong, name, sampler, monkeypatch):
    monkeypatch.setattr(_sticks, name, wrong)
    estimate, exact = check(sampler, prior="given", n_steps=20)
    print(((estimate.mean-exact)/estimate.error).round(1))
    assert_disagrees(estimate, exact)


@pytest.mark.parametrize("kind", [EscobarWest, CountsClusters])
def test_wrong_laws_of_the_concentration_are_found_out(kind):
    estimate, exact = check(kind(0, 0, False), n_steps=20)
    print(((estimate.mean-exact)/estimate.error).round(1))
    assert_disagrees(estimate, exact)


@pytest.mark.parametrize("kind", [SlicesOfOldWeights, ComponentsOfThePrior])
def test_wrong_models_are_found_out(kind):
    estimate, exact = check(ORDER, kind=kind, prior="given", n_steps=20)
    print(((estimate.mean-exact)/estimate.error).round(1))
    assert_disagrees(estimate, exact)


def test_scaled_counts_of_minibatches_are_found_out():
    estimate, exact = check(CountsOfTheMinibatch(0), 1, prior="given", n_steps=20)
    print(((estimate.mean-exact)/estimate.error).round(1))
    assert_disagrees(estimate, exact)
