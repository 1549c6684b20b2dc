"""Mutual information of a column and the component, in closed form for categories and from drawn rows for others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp, rel_entr

_N_DRAWN = 2000
_KEY = np.uint64(24)


def mutual_information(log_densities: np.ndarray, log_weights: np.ndarray) -> float:
    """Mean over rows of the divergence of p(component | row) from p(component), given log densities (n_rows, K).

    If the rows are drawn from the mixture, this estimates the mutual information without bias.
    """
    log_joint = log_densities + log_weights
    log_posterior = log_joint - logsumexp(log_joint, axis=1, keepdims=True)
    terms = np.exp(log_posterior) * np.where(np.isfinite(log_posterior), log_posterior - log_weights, 0.0)
    return max(0.0, float(terms.sum(axis=1).mean()))


def information_of_categories(weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The contribution of each category to its information about the component, (n_categories,)."""
    shares = weights / weights.sum()
    return shares @ rel_entr(probabilities, shares @ probabilities)


def information_from_draws(
    weights: np.ndarray,
    draw: Callable[[np.ndarray, np.uint64], np.ndarray],
    log_densities_of_column: Callable[[int, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Mutual information of each column and the component, (n_columns,), estimated from 2,000 drawn rows.

    ``draw(labels, key)`` returns rows of these components, and ``log_densities_of_column(column, values)`` the log
    densities of the values of one column given each component, (n_values, K).
    """
    shares = weights / weights.sum()
    evenly = (np.arange(_N_DRAWN) + 0.5) / _N_DRAWN
    X = draw(np.searchsorted(np.cumsum(shares)[:-1], evenly).astype(np.int32), _KEY)
    used = shares > 0.0
    log_weights = np.log(shares[used])
    columns = (log_densities_of_column(j, X[:, j])[:, used] for j in range(X.shape[1]))
    return np.array([mutual_information(log_densities, log_weights) for log_densities in columns])
