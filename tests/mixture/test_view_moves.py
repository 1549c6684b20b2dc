"""Moves of `ViewSlice` with three columns and four rows, by enumeration of the posterior; wrong moves fail.

Chains begin at exact draws of the posterior. If the moves are right, each later state is one more exact draw.
"""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, summarize
from scipy.special import gammaln, logsumexp, softmax
from sklearn.base import BaseEstimator

from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.mixture._views import model as models
from skmanifold.mixture._views import moves
from skmanifold.mixture._views.model import ViewModel
from skmanifold.mixture._views.proposals import ConcentrationPrior, Launch, Proposal, counted
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import ViewSlice
from skmanifold.samplers._states import LatentState
from skmanifold.utils._threads import ONE

from .dirichlet_process._tiny_partitions import partitions

X = np.array([[0, -1.2, 0.3], [0, -0.7, 2.1], [1, 1.9, np.nan], [2, 1.4, -1.6]])
N_ROWS, N_COLUMNS = X.shape
ROWS, COLUMNS = partitions(N_ROWS), partitions(N_COLUMNS)
LAUNCHES = (0, 0, 1, 1), (0, 0, 1, 1), (0, 1, 0, 0)
GIVEN = {"gamma": 1.3, "prior": ConcentrationPrior(0.8, 1.0, 1.0)}
DRAWN = {"gamma": None, "prior": ConcentrationPrior(None, 1.0, 1.0)}
GRID = np.exp(np.linspace(-12.0, 3.2, 4000))  # of concentrations, for integrals
CLEARLY = 7.0  # standard errors by which a wrong move has to fail, at least


# --- the posterior ---------------------------------------------------------------------------------------


def model_of(gamma, prior):
    numbers = Gaussian("diag", [0.0, 0.0], 0.3, 1.0, 3.0)
    emission = Columns([("codes", Categorical(0.6), [0]), ("numbers", numbers, [1, 2])])
    clusters = emission.bind(rows := emission.read(BaseEstimator(), X, reset=True), 1).separated().clusters(rows)
    return ViewModel(clusters, gamma, (1.0, 1.0), prior, launches_at(clusters, LAUNCHES), None, None, None, ONE)


def launches_at(clusters, labels):
    columns = [clusters.of_columns(np.array([j])) for j in range(N_COLUMNS)]
    return [Launch.of_labels(own, np.array(of_column)) for own, of_column in zip(columns, labels, strict=True)]


def log_crp(labels, concentration):
    sizes = np.bincount(labels)
    of_total = gammaln(concentration) - gammaln(concentration + len(labels))
    return len(sizes) * np.log(concentration) + gammaln(sizes).sum() + of_total


class Concentrations:
    """One concentration given a partition: a number, or with the prior Ga(1, 1) on a grid."""

    def __init__(self, given):
        self.values = GRID if given is None else np.array([given])
        self.log_prior = np.zeros(1) if given is not None else np.log(GRID) - GRID + np.log(np.log(GRID[1] / GRID[0]))

    def log_terms(self, labels):
        return self.log_prior + log_crp(labels, self.values)

    def log_evidence(self, labels):
        return logsumexp(self.log_terms(labels))

    def mean(self, labels):
        return softmax(self.log_terms(labels)) @ self.values

    def drawn(self, labels, rng):
        return rng.choice(self.values, p=softmax(self.log_terms(labels)))


class Posterior:
    """All partitions of the columns with partitions of the rows in each view, and their probabilities."""

    def __init__(self, gamma, prior):
        self.model = model_of(gamma, prior)
        self.of_columns, self.of_rows = Concentrations(gamma), Concentrations(prior.given)
        clusters = self.model.clusters
        marginals = {
            labels: clusters.log_marginals_of_columns(counted(clusters, np.array(labels, np.int32), ONE))
            for labels in ROWS
        }
        priors = {labels: self.of_rows.log_evidence(labels) for labels in ROWS}
        self.states, logs = [], []
        for columns in COLUMNS:
            for of_views in itertools.product(ROWS, repeat=max(columns) + 1):
                likelihood = sum(marginals[of_views[v]][j] for j, v in enumerate(columns))
                of_partitions = sum(priors[labels] for labels in of_views)
                logs.append(self.of_columns.log_evidence(columns) + of_partitions + likelihood)
                self.states.append((columns, of_views))
        self.probabilities = softmax(logs)
        values = []
        for columns, of_views in self.states:
            of_concentrations = [self.of_rows.mean(of_views[v]) for v in columns]
            values.append(features(columns, [of_views[v] for v in columns]))
            values[-1] = np.append(values[-1], [*of_concentrations, self.of_columns.mean(columns)])
        self.exact = self.probabilities @ np.array(values)

    def start(self, rng):
        """An exact draw: the concentration of the columns, and views."""
        columns, of_views = self.states[rng.choice(len(self.states), p=self.probabilities)]
        views = []
        for v, labels in enumerate(of_views):
            own = np.flatnonzero(np.equal(columns, v)), np.array(labels, np.int32), self.of_rows.drawn(labels, rng)
            views.append(self.model.view(*own, self.model.first_numbers()))
        return float(self.of_columns.drawn(columns, rng)), views


def features(columns, of_rows):
    """Which columns are in one view, which rows are together in the view of each column, and products of these."""
    same = [float(columns[a] == columns[b]) for a, b in itertools.combinations(range(N_COLUMNS), 2)]
    pairs = list(itertools.combinations(range(N_ROWS), 2))
    together = [float(labels[a] == labels[b]) for labels in of_rows for a, b in pairs]
    products = [first * second for first in same for second in together]
    return np.array([*same, len(set(columns)) == 2, *together, *products])


def features_of(gamma, views):
    columns, own = np.empty(N_COLUMNS, int), [None] * N_COLUMNS
    for v, view in enumerate(views):
        columns[view.columns] = v
        for j in view.columns:
            own[j] = view
    concentrations = [view.concentration for view in own]
    return np.append(features(columns, [view.labels for view in own]), [*concentrations, gamma])


posterior = cache(lambda is_drawn: Posterior(**(DRAWN if is_drawn else GIVEN)))


# --- moves -----------------------------------------------------------------------------------------------


def column_moves(n_candidates):
    def step(model, gamma, views, key):
        return gamma, model.move_columns(views, model.first_numbers(), gamma, n_candidates, key)

    return step


def split_merges(model, gamma, views, key):
    return gamma, model.split_or_merge(views, model.first_numbers(), gamma, key)


def whole_pass(model, gamma, views, key):
    state = LatentState(gamma, key, 0, -np.inf, views, model.first_numbers())
    state = ViewSlice(1, 2, 1).step(model, state)
    return state.position, state.statistics


def launches_of_current_views(move):
    """Moves whose launches are the partitions in which the columns are."""

    def step(model, gamma, views, key):
        labels = [next(view.labels for view in views if j in view.columns) for j in range(N_COLUMNS)]
        model.launches = launches_at(model.clusters, labels)
        try:
            return move(model, gamma, views, key)
        finally:
            model.launches = launches_at(model.clusters, LAUNCHES)

    return step


def estimate(step, is_drawn=True, n_chains=200, n_steps=8):
    """Means along chains that begin at exact draws, and the exact ones."""
    exact, rng, of_chains = posterior(is_drawn), np.random.default_rng(0), []
    for chain in range(n_chains):
        (gamma, views), key, values = exact.start(rng), subkey(root_key(1), chain), []
        for number in range(n_steps):
            gamma, views = step(exact.model, gamma, views, subkey(key, number))
            values.append(features_of(gamma, views))
        of_chains.append(np.mean(values, axis=0))
    mean, error = summarize(of_chains)
    # A state in which fewer than ten chains begin has a known variance, but the chains do not show it
    least = np.where(exact.exact * n_chains < 10.0, np.sqrt(exact.exact / n_chains), 1e-3)
    return Estimate(mean, np.maximum(error, least)), exact.exact


def assert_disagrees_clearly(estimate, exact):
    mean, error = estimate
    assert np.max(np.abs(mean - exact) / error) > CLEARLY


@pytest.fixture
def many_candidates(monkeypatch):
    monkeypatch.setattr(moves, "_MOST_TRIED", 0.7)


STEPS = {
    "columns, 1 candidate": (column_moves(1), False, 5),
    "columns, 2 candidates": (column_moves(2), False, 5),
    "columns, concentrations drawn": (column_moves(1), True, 5),
    "split-merge": (split_merges, False, 8),
    "split-merge, concentrations drawn": (split_merges, True, 8),
    "whole pass": (whole_pass, True, 4),
}
IN_SHORT = "columns, 2 candidates", "split-merge, concentrations drawn", "whole pass"
by_step = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.extended) for name in STEPS]
)


@pytest.mark.usefixtures("many_candidates")
@by_step
def test_moves_leave_the_posterior_unchanged(name):
    step, is_drawn, n_steps = STEPS[name]
    found, exact = estimate(step, is_drawn, n_steps=n_steps)
    assert found.error.max() < 0.1
    assert_agrees(found, exact)


@pytest.mark.extended
@pytest.mark.usefixtures("many_candidates")
def test_rows_of_random_views_leave_the_posterior_unchanged(monkeypatch):
    monkeypatch.setattr(models, "_MOST_VIEWS", 1)
    assert_agrees(*estimate(whole_pass, n_steps=4))


# --- wrong moves -----------------------------------------------------------------------------------------


class Altered:
    """A module with other functions."""

    def __init__(self, module, **functions):
        self.module, self.functions = module, functions

    def __getattr__(self, name):
        return self.functions.get(name) or getattr(self.module, name)


def without_density(propose):
    return lambda *arguments: Proposal(*propose(*arguments)[:2], 0.0)


def not_apart(family, blocks, other, *arguments):
    return moves_coarsened(family, blocks, np.arange(len(other)), *arguments)


moves_coarsened = moves.coarsened


def repeated(move, n_times=3):
    def step(model, gamma, views, key):
        for number in range(n_times):
            gamma, views = move(model, gamma, views, subkey(key, number))
        return gamma, views

    return step


WRONG = {  # moves, whether concentrations are drawn, steps, and what is replaced in the module of the moves
    "no proposal density": (
        column_moves(1),
        False,
        {"log_proposal": lambda *_: 0.0, "propose_partition": without_density(moves.propose_partition)},
    ),
    "no prior of a new partition of the rows": (column_moves(1), False, {"log_view_prior": lambda *_: 0.0}),
    "no sizes of views": (
        column_moves(1),
        False,
        {"np": Altered(np, log=lambda sizes: np.zeros(len(sizes)))},
    ),
    "candidates not counted": (
        column_moves(3),
        False,
        {"math": Altered(math, log=lambda x: math.log(3.0 * x))},
    ),
    "the view of a column alone is no candidate": (column_moves(1), False, {"log_proposal": lambda *_: np.inf}),
    "launch of a column from its view": (launches_of_current_views(column_moves(1)), False, {}),
    "no probability of the columns that move": (
        repeated(split_merges),
        False,
        {"np": Altered(np, logaddexp=lambda first, second: np.zeros(len(second)))},
    ),
    "no probability of the partitions of a split": (
        split_merges,
        False,
        {"coarsened": lambda *arguments: (moves_coarsened(*arguments)[0], 0.0)},
    ),
    "no choices of the second column": (
        repeated(split_merges),
        False,
        {"math": Altered(math, log=lambda x: math.log(GIVEN["gamma"]) if x == GIVEN["gamma"] else 0.0)},
    ),
    "a split that a merge does not reverse": (repeated(split_merges), False, {"coarsened": not_apart}),
    "no gamma functions of the sizes": (repeated(split_merges), False, {"gammaln": lambda n: 0.0}),
}


@pytest.mark.extended
@pytest.mark.usefixtures("many_candidates")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_moves_are_found(name, monkeypatch):
    step, is_drawn, replaced = WRONG[name]
    posterior(is_drawn)
    for function, wrong in replaced.items():
        monkeypatch.setattr(moves, function, wrong)
    assert_disagrees_clearly(*estimate(step, is_drawn, n_chains=600, n_steps=8))


@pytest.mark.extended
@pytest.mark.usefixtures("many_candidates")
@pytest.mark.parametrize("step", [column_moves(1), split_merges], ids=["columns", "split-merge"])
def test_a_missing_density_of_proposed_concentrations_is_found(step, monkeypatch):
    posterior(True)
    monkeypatch.setattr(ConcentrationPrior, "log_proposal", lambda *_: 0.0)
    assert_disagrees_clearly(*estimate(repeated(step), n_chains=400, n_steps=8))
