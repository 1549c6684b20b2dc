"""Tables and fits that several test files share, and slow densities to compare with."""

from functools import cache
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture

SAMPLERS = tuple(DPCategoricalMixture._samplers)
EMISSIONS = ("multinomial", "categorical")
SHORT = {"init": 5, "max_iter": 12, "burn_in": 4, "thin": 2, "random_state": 0}


@cache
def small_table():
    """60 rows of five columns, of three categories each, from three components; some cells are missing, and a row."""
    table = make_categorical_mixture(
        60, 5, 3, n_categories=3, category_prior=0.2, missing=0.1, random_state=1
    ).data.astype(np.float64)
    table[7] = np.nan
    table.flags.writeable = False
    return table


@cache
def small_counts():
    """50 rows of about twelve tokens of six categories, from three components; one row and one category are empty."""
    rng = np.random.default_rng(2)
    shares = rng.dirichlet(np.full(6, 0.3), 3)
    counts = rng.multinomial(rng.poisson(12, 50), shares[rng.integers(3, size=50)])
    counts[11] = 0
    counts[:, 4] = 0
    counts = sp.csr_array(counts.astype(np.float64))
    counts.data.flags.writeable = False
    return counts


def data_of(emission):
    """The small table, or the small counts."""
    return small_counts() if emission == "multinomial" else small_table()


def make(emission, sampler="slice", **params):
    """An unfitted estimator with a short run."""
    return DPCategoricalMixture(emission, sampler=sampler, **{**SHORT, **params})


@cache
def small_fit(emission, sampler="slice"):
    """Never change it."""
    return make(emission, sampler).fit(data_of(emission))


def learned(mixture):
    """All that a fit leaves on an estimator, as bytes."""
    parts = {name: draws.tobytes() for name, draws in mixture.posterior_.items()}
    for name in ("labels_", "log_density_trace_"):
        parts[name] = np.asarray(getattr(mixture, name, ())).tobytes()
    means = mixture.components_
    parts["components_"] = (means if mixture.emission == "multinomial" else np.hstack(means)).tobytes()
    return {**parts, "weights_": mixture.weights_.tobytes(), "concentration_": mixture.concentration_}


def predicted(mixture, X):
    """What a fitted mixture says of rows, as bytes."""
    return tuple(getattr(mixture, name)(X).tobytes() for name in ("score_samples", "predict_proba", "predict"))


# Densities, one cell after the other


def tokens_of(emission, X, n_categories):
    """Counts of all categories, columns side by side, (n_rows, sum of n_categories), and where the columns begin."""
    start = np.concatenate(([0], np.cumsum(n_categories)))
    if emission == "multinomial":
        return (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.int64), start
    tokens = np.zeros((len(X), start[-1]), np.int64)
    for i, j in np.argwhere(~np.isnan(X)):
        tokens[i, start[j] + int(X[i, j])] = 1
    return tokens, start


def slow_log_terms(tokens, start, sizes, counts, concentration, prior):
    """Log of weight times Dirichlet-multinomial density, (n_rows, K + 1), from the definition.

    `counts` are (K, n_categories); the last component is one without rows.
    """
    shares = np.append(sizes, concentration) / (np.sum(sizes) + concentration)
    counts = np.vstack((counts, np.zeros(start[-1])))
    terms = np.empty((len(tokens), len(shares)))
    for i, row in enumerate(tokens):
        for k, cells in enumerate(counts + prior):
            terms[i, k] = np.log(shares[k])
            for first, stop in pairwise(start):
                cell, n = cells[first:stop], row[first:stop]
                terms[i, k] += sum(map(_log_rising, cell, n)) - _log_rising(cell.sum(), n.sum())
    return terms


def _log_rising(x, n):
    return np.log(x + np.arange(n)).sum()


def counts_by(labels, tokens):
    """Sizes and tokens of the components, in the order of their labels."""
    kept = np.unique(labels)
    return np.array([np.sum(labels == k) for k in kept]), np.array([tokens[labels == k].sum(axis=0) for k in kept])
