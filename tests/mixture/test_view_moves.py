"""Views of columns: all partitions of three columns and four rows, by enumeration."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from sklearn.base import BaseEstimator

from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.mixture._views import moves, proposals
from skmanifold.mixture._views.model import ViewModel
from skmanifold.mixture._views.proposals import ConcentrationPrior, Launch, compacted, counted
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import ViewSlice
from skmanifold.utils._threads import ONE

X = np.array([[0, -1.2, 0.3], [0, -0.7, 2.1], [1, 1.9, np.nan], [2, 1.4, -1.6]])
GAMMA, ALPHA = 1.3, 0.8


def partitions(n):
    """All partitions of n elements, as labels numbered by first elements."""
    found = [(0,)]
    for _ in range(n - 1):
        found = [(*labels, k) for labels in found for k in range(max(labels) + 2)]
    return found


ROWS, COLUMNS = partitions(4), partitions(3)


def log_crp(labels, concentration):
    sizes = np.bincount(labels)
    return len(sizes) * np.log(concentration) + gammaln(sizes).sum() + gammaln(concentration) - gammaln(
        concentration + sizes.sum()
    )


def first_numbered(labels):
    """The same partition, numbered by first elements."""
    names = {}
    return tuple(names.setdefault(int(label), len(names)) for label in labels)


def model_of(launches=None, concentration=GAMMA, prior=ConcentrationPrior(ALPHA, 1.0, 1.0)):
    numbers = Gaussian("diag", mean_prior=[0.0, 0.0], mean_precision_prior=0.3, covariance_prior=1.0,
                       degrees_of_freedom_prior=3.0)
    emission = Columns([("codes", Categorical(0.6), [0]), ("numbers", numbers, [1, 2])])
    rows = emission.read(BaseEstimator(), X, reset=True)
    clusters = emission.bind(rows, 1).separated().clusters(rows)
    launches = launches or [(0, 0, 1, 1), (0, 0, 1, 1), (0, 1, 0, 0)]
    launches = [Launch.of_labels(clusters.of_columns(np.array([j])), np.array(own)) for j, own in enumerate(launches)]
    start = lambda key: np.zeros(3, int)  # noqa: E731
    return ViewModel(clusters, concentration, (1.0, 1.0), prior, launches, None, start, None, ONE)


@pytest.fixture(scope="module")
def exact():
    """Posterior probabilities of (partition of columns, partition of the rows for each column)."""
    model = model_of()
    of_column = {
        labels: model.clusters.log_marginals_of_columns(counted(model.clusters, np.array(labels, np.int32), ONE))
        for labels in ROWS
    }
    logs = {}
    for columns in COLUMNS:
        for of_views in itertools.product(ROWS, repeat=max(columns) + 1):
            total = log_crp(columns, GAMMA) + sum(log_crp(labels, ALPHA) for labels in of_views)
            total += sum(of_column[of_views[v]][j] for j, v in enumerate(columns))
            logs[columns, tuple(of_views[v] for v in columns)] = total
    norm = logsumexp(list(logs.values()))
    return {state: np.exp(log - norm) for state, log in logs.items()}


def state_of(views):
    columns, rows = np.empty(3, int), [None] * 3
    for v, view in enumerate(views):
        columns[view.columns] = v
        for j in view.columns:
            rows[j] = first_numbered(view.labels)
    return first_numbered(columns), tuple(rows)


def features(columns, rows):
    """Indicators that determine the distribution well."""
    same = [float(columns[a] == columns[b]) for a, b in ((0, 1), (0, 2), (1, 2))]
    together = [float(labels[a] == labels[b]) for labels in rows for a, b in itertools.combinations(range(4), 2)]
    products = [s * t for s in same for t in together[:6]]
    return np.array([*same, len(set(columns)) - 2, *together, *products, *(max(labels) for labels in rows)])


def deviations(exact, kernel, n_steps, seed=0):
    """Deviations of means of a chain from the exact ones, in standard errors by batches."""
    model = kernel.__self__ if hasattr(kernel, "__self__") else model_of()
    numbers, views = model.init_views(root_key(seed))
    values, key = [], root_key(seed)
    for step in range(n_steps):
        numbers, views = kernel(model, numbers, views, subkey(key, step))
        values.append(features(*state_of(views)))
    values = np.array(values)[n_steps // 50 :]
    batches = np.array([part.mean(axis=0) for part in np.array_split(values, 40)])
    errors = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    means = sum(p * features(*state) for state, p in exact.items())
    return (batches.mean(axis=0) - means) / np.maximum(errors, 1e-3)


SLICE = ViewSlice()


def whole_pass(model, numbers, views, key):
    from skmanifold.samplers import Slice

    numbers, views = model.draw_rows(numbers, views, Slice(2), subkey(key, 1))
    views = model.move_columns(views, numbers, GAMMA, 1, subkey(key, 2))
    return numbers, model.split_or_merge(views, numbers, GAMMA, subkey(key, 3))


def test_passes_have_the_exact_distribution(exact, monkeypatch):
    monkeypatch.setattr(moves, "_MOST_TRIED", 0.7)
    found = deviations(exact, whole_pass, 6000)
    assert np.abs(found).max() < 4.5
