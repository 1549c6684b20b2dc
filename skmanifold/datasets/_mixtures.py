"""Generator of tables of categories from mixtures, with the true parameters."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ..utils._typing import ArrayLike, Bunch, RandomStateLike
from ._synthetic import _check_number, _check_size, _draw_dirichlet


class _CategoricalTable(Bunch):
    data: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    components: np.ndarray


def make_categorical_mixture(
    n_samples: int = 1000,
    n_features: int = 20,
    n_components: int = 5,
    *,
    n_categories: int = 4,
    weights: ArrayLike | None = None,
    category_prior: float = 0.3,
    missing: float = 0.0,
    random_state: RandomStateLike = None,
) -> _CategoricalTable:
    r"""Draw a table of category codes from a mixture in which the columns are independent given the component.

    This is the latent class model [1]_ with a symmetric prior of the categories: for component k, column j and row i,

    .. math::
        \phi_{kj} \sim \mathrm{Dirichlet}(a), \quad
        z_i \sim \pi, \quad x_{ij} \sim \phi_{z_i j}.

    Then cells are missing completely at random, with the probability `missing`.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=20
        Number of columns.
    n_components : int, default=5
        Number of components, K.
    n_categories : int, default=4
        Number of categories of every column.
    weights : array-like of shape (n_components,), default=None
        Proportions pi of the components: non-negative numbers, which are divided by their sum. None makes them equal.
    category_prior : float, default=0.3
        Dirichlet parameter a of each category. With a smaller value each component has fewer probable categories, and
        components are easier to distinguish; for large values all distributions approach the uniform one.
    missing : float, default=0.0
        Probability that a cell is missing, less than 1. The other cells do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed. An int gives the same table in every call with the same release of numpy.

    Returns
    -------
    mixture : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_samples, n_features)
            Codes from 0 to ``n_categories - 1``, of the smallest possible signed integer type. If `missing` is positive
            they are floats (float32 if it is exact), with NaN in missing cells.
        labels : ndarray of shape (n_samples,), int64
            The component of each row.
        weights : ndarray of shape (n_components,), float64
            The true proportions of the components; they sum to 1.
        components : ndarray of shape (n_components, n_features, n_categories), float64
            The true probabilities of the categories; they sum to 1 over the last axis.

    Raises
    ------
    ValueError
        If a parameter has the wrong type or is out of its range.

    References
    ----------
    .. [1] L. A. Goodman (1974), "Exploratory latent structure analysis using both identifiable and unidentifiable
       models", Biometrika 61, 215-231.

    Examples
    --------
    >>> from skmanifold.datasets import make_categorical_mixture
    >>> mixture = make_categorical_mixture(n_samples=200, n_features=6, n_components=3, random_state=0)
    >>> mixture.data.shape, mixture.labels.shape, mixture.components.shape
    ((200, 6), (200,), (3, 6, 4))
    """
    sizes = {"n_samples": n_samples, "n_features": n_features, "n_components": n_components}
    for name, value in (sizes | {"n_categories": n_categories}).items():
        _check_size(name, value)
    n_samples, n_features, n_components = map(int, sizes.values())  # narrow numbers of numpy could overflow
    _check_number("category_prior", category_prior)
    _check_number("missing", missing, zero=True)
    if missing >= 1:
        raise ValueError(f"missing must be a number below 1; got {missing!r}.")
    weights = _check_weights(weights, n_components)
    rng = np.random.default_rng(check_random_state(random_state).randint(0, 2**32, size=8, dtype=np.uint32))
    (rng_of_missing,) = rng.spawn(1)

    components = _draw_dirichlet(rng, np.full(n_categories, category_prior), n_components * n_features)
    components = components.reshape(n_components, n_features, n_categories)
    labels = rng.choice(n_components, size=n_samples, p=weights)
    rows = np.argsort(labels, kind="stable")  # one cumulative table per component
    drawn, starts = np.unique(labels[rows], return_index=True)
    ranges = [*zip(drawn, starts, [*starts[1:], n_samples], strict=True)]
    code_type = np.min_scalar_type(-n_categories)
    data = np.empty((n_samples, n_features), np.promote_types(code_type, np.float32) if missing else code_type)
    codes = np.empty(n_samples, data.dtype)
    for column in range(n_features):
        uniform = rng.random(n_samples)
        for component, start, stop in ranges:
            below = np.cumsum(components[component, column, :-1])  # rounding cannot give an invalid category
            codes[rows[start:stop]] = np.searchsorted(below, uniform[start:stop], side="right")
        if missing:
            codes[rng_of_missing.random(n_samples) < missing] = np.nan
        data[:, column] = codes
    return _CategoricalTable(data=data, labels=labels, weights=weights, components=components)


def _check_weights(weights, n_components: int) -> np.ndarray:
    if weights is None:
        return np.full(n_components, 1.0 / n_components)
    shares = np.asarray(weights)
    right = shares.shape == (n_components,) and shares.dtype.kind in "iuf" and np.all(np.isfinite(shares))
    if not right or np.any(shares < 0) or not np.any(shares > 0):
        raise ValueError(
            f"weights must be None or an array of {n_components} finite numbers of at least 0 (one per component), not "
            "all 0."
        )
    return shares / shares.sum()
