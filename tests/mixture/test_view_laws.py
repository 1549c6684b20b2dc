"""Passes and new rows leave the joint distribution of a few rows, views and hyperparameters unchanged (Geweke, 2004).

Chains begin at draws from the prior. Rows are drawn again given the views and hyperparameters, in turn with passes.
"""

from typing import NamedTuple

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from sklearn.base import BaseEstimator

from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.mixture._views import model as models
from skmanifold.mixture._views import moves
from skmanifold.mixture._views.model import ColumnNumbers, ViewModel
from skmanifold.mixture._views.proposals import ConcentrationPrior, Launch
from skmanifold.random._discrete_variates import draw_partition
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import ViewSlice
from skmanifold.samplers._states import LatentState
from skmanifold.utils._threads import ONE

N_ROWS, N_COLUMNS = 6, 3
MISSING = [3, 5], [2, 0]  # rows and columns of missing cells
LAUNCH = (np.arange(N_ROWS) >= 3).astype(np.int32)
WIDTH = 0.5  # of the cells of a rounded column
PAIRS = np.triu_indices(N_ROWS, 1)


class Joint(NamedTuple):
    """A draw of all: rows, concentration of the columns, and for each view its columns, labels and concentration."""

    rows: np.ndarray  # before they are rounded
    gamma: float
    views: list[tuple[np.ndarray, np.ndarray, float]]
    hyperparameters: tuple[np.ndarray, ...]


def emission_of(is_rounded):
    numbers = Gaussian("diag", np.zeros(2), covariance_scale=1.0, resolution=[WIDTH, 0.0] if is_rounded else 0.0)
    return Columns([("codes", Categorical(None, min_categories=3), [0]), ("numbers", numbers, [1, 2])])


def model_of(rows, is_rounded):
    X, emission = rows.copy(), emission_of(is_rounded)
    if is_rounded:
        X[:, 1] = WIDTH * np.round(X[:, 1] / WIDTH)
    X[MISSING] = np.nan
    read = emission.read(BaseEstimator(), X, reset=True)
    clusters = emission.bind(read, 1).separated().clusters(read)
    clusters = clusters.with_hyperprior(emission.free_hyperparameters(), clusters)
    launches = [Launch.of_labels(clusters.of_columns(np.array([j])), LAUNCH) for j in range(N_COLUMNS)]
    return ViewModel(clusters, None, (1.0, 1.0), ConcentrationPrior(None, 1.0, 1.0), launches, None, None, None, ONE)


def numbers_of(model, joint):
    """Hyperparameters, and the numbers within cells as the family stores them."""
    values = []
    for own, places in zip(model.first_numbers().values, model._places, strict=True):
        if len(own):
            block = next(each for each in model.clusters.blocks if hasattr(each, "scales"))
            scaled = (joint.rows[:, places] - block.origin) / block.scales
            own = np.where(np.isnan(own), own, scaled)
        values.append(own)
    return ColumnNumbers(joint.hyperparameters, tuple(values))


def with_new_rows(model, joint, key):
    """New rows given the views and hyperparameters."""
    rng, rows = np.random.default_rng(int(key)), np.empty((N_ROWS, N_COLUMNS))
    family = model.given(ColumnNumbers(joint.hyperparameters, model.first_numbers().values))
    for v, (columns, labels, _) in enumerate(joint.views):
        K, own = int(labels.max()) + 1, family.of_columns(columns)
        components = own.draw_components(own.no_statistics(K), np.arange(K), subkey(key, v), ONE)
        attributes = own.drawn_attributes(components)
        for column in columns:
            if column == 0:
                levels = np.cumsum(attributes["codes"]["components_"][0], axis=1)[labels]
                rows[:, 0] = (levels[:, :-1] <= rng.random((N_ROWS, 1))).sum(axis=1)
            else:
                place = int(np.searchsorted(columns[columns > 0], column))
                means = attributes["numbers"]["components_"][labels, place]
                variances = attributes["numbers"]["covariances_"][labels, place]
                rows[:, column] = rng.normal(means, np.sqrt(variances))
    return joint._replace(rows=rows)


def draw_of_prior(model, key):
    rng = np.random.default_rng(int(subkey(key, 1)))
    gamma, views = float(rng.gamma(1.0)), []
    of_columns = draw_partition(rng, N_COLUMNS, gamma)
    for v in range(of_columns.max() + 1):
        concentration = float(rng.gamma(1.0))
        views.append((np.flatnonzero(of_columns == v), draw_partition(rng, N_ROWS, concentration), concentration))
    drawn = model.clusters.with_drawn_hyperparameters(subkey(key, 2))
    hyperparameters = ViewModel._numbers_in(drawn.no_statistics(1)).hyperparameters
    return with_new_rows(model, Joint(np.empty(0), gamma, views, hyperparameters), subkey(key, 3))


def after_pass(joint, is_rounded, key):
    model = model_of(joint.rows, is_rounded)
    numbers = numbers_of(model, joint)
    views = sorted([model.view(*view, numbers) for view in joint.views], key=lambda view: view.columns[0])
    state = LatentState(joint.gamma, key, 0, -np.inf, views, numbers)
    state = ViewSlice(1, 1, 1).step(model, state)
    views = [(view.columns, models.compacted(view.labels), view.concentration) for view in state.statistics]
    return model, Joint(joint.rows, state.position, views, state.latents.hyperparameters)


def features(joint):
    """Bounded functions of the rows, and functions of the views and hyperparameters."""
    of_column = {j: view for view in joint.views for j in view[0].tolist()}
    together = np.stack([np.equal.outer(labels, labels)[PAIRS] for _, labels, _ in map(of_column.get, range(3))])
    same = np.array([of_column[a] is of_column[b] for a, b in ((0, 1), (0, 2), (1, 2))], float)
    cells = joint.rows / (1.0 + np.abs(joint.rows))
    gaps = (cells[PAIRS[0]] - cells[PAIRS[1]]).T ** 2
    logs = [np.log(np.abs(each) + 1e-12).ravel() for each in joint.hyperparameters]
    concentrations = [of_column[j][2] for j in range(N_COLUMNS)]
    return np.concatenate(
        [
            [joint.gamma, joint.gamma**2, len(joint.views)],
            same,
            concentrations,
            together.mean(axis=1),
            cells.mean(axis=0),
            (cells**2).mean(axis=0),
            gaps.mean(axis=1),
            (together * gaps).mean(axis=1),
            same * np.stack([(together[a] & together[b]).mean() for a, b in ((0, 1), (0, 2), (1, 2))]),
            *logs,
            *(each**2 for each in logs),
        ]
    )


def difference(is_rounded=False, n_chains=150, n_steps=8):
    """Mean along chains minus that of the prior, for features that vary."""
    any_rows = np.arange(N_ROWS * N_COLUMNS, dtype=float).reshape(N_ROWS, -1) % 3
    model, of_chains = model_of(any_rows, is_rounded), []
    for chain in range(n_chains):
        key, values = subkey(root_key(0), chain), []
        joint = draw_of_prior(model, subkey(key, 0))
        for step in range(n_steps):
            own, joint = after_pass(joint, is_rounded, subkey(key, 1 + step))
            joint = with_new_rows(own, joint, subkey(key, 1000 + step))
            values.append(features(joint))
        of_chains.append(np.mean(values, axis=0))
    of_prior = [features(draw_of_prior(model, subkey(root_key(1), draw))) for draw in range(3000)]
    found, prior = summarize(of_chains), summarize(of_prior)
    error = np.hypot(found.error, prior.error)
    varies = error > 1e-9
    return Estimate((found.mean - prior.mean)[varies], error[varies])


@pytest.fixture(autouse=True)
def many_candidates(monkeypatch):
    monkeypatch.setattr(moves, "_MOST_TRIED", 0.5)


@pytest.mark.extended
@pytest.mark.parametrize("is_rounded", [False, True])
def test_passes_and_new_rows_leave_the_joint_distribution_unchanged(is_rounded):
    assert_agrees(difference(is_rounded), 0.0)


@pytest.mark.extended
def test_hyperparameters_that_a_view_forgets_are_found(monkeypatch):
    monkeypatch.setattr(ViewModel, "with_numbers", lambda model, statistics, numbers, columns: statistics)
    assert_disagrees(difference(), 0.0)
