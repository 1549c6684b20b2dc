"""The number of components of a mixture: scorers for searches, and a bootstrap test of one more component."""

from __future__ import annotations

from inspect import signature
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils import check_random_state, check_scalar

from ..utils._typing import Ignored, MatrixLike, RandomStateLike
from ..utils._validation import check_array


def bic_scorer(estimator: BaseEstimator, X: MatrixLike, y: Ignored = None) -> float:
    """Negative Bayesian information criterion of a fitted mixture, as `scoring` of a search: higher is better.

    Information criteria are about the rows of the fit. So a search has ``cv=[(rows, rows)]``, where ``rows`` are the
    indices of all rows.

    Parameters
    ----------
    estimator : estimator instance
        Fitted estimator with a method `bic`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows of `fit`.
    y : Ignored

    Returns
    -------
    score : float
        ``-estimator.bic(X)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.emissions import Gaussian
    >>> from skmanifold.metrics import bic_scorer
    >>> X, rows = load_iris().data, np.arange(150)
    >>> grid = {"n_components": [1, 2, 3], "emission__covariance_type": ["full", "diag"]}
    >>> mixture = ExponentialFamilyMixture(emission=Gaussian(), random_state=0)
    >>> search = GridSearchCV(mixture, grid, scoring=bic_scorer, cv=[(rows, rows)]).fit(X)
    >>> search.best_params_["emission__covariance_type"]
    'full'
    """
    return -estimator.bic(X)


def icl_scorer(estimator: BaseEstimator, X: MatrixLike, y: Ignored = None) -> float:
    """Negative integrated completed likelihood criterion of a fitted mixture, as `bic_scorer`: higher is better.

    Parameters
    ----------
    estimator : estimator instance
        Fitted estimator with a method `icl`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows of `fit`.
    y : Ignored

    Returns
    -------
    score : float
        ``-estimator.icl(X)``.
    """
    return -estimator.icl(X)


class BootstrapTest(NamedTuple):
    """Result of a bootstrap test of `n_components` components against one more.

    Attributes
    ----------
    n_components : int
        Number of components of the null hypothesis.
    statistic : float
        Twice the difference of the log likelihoods of X.
    p_value : float
        ``(1 + m) / (1 + n_bootstrap)``, where m is the number of drawn statistics that are not below `statistic`.
    drawn_statistics : ndarray of shape (n_bootstrap,)
        Statistics of rows drawn from the smaller mixture.
    """

    n_components: int
    statistic: float
    p_value: float
    drawn_statistics: np.ndarray


def bootstrap_components_test(
    mixture: BaseEstimator,
    X: MatrixLike,
    n_bootstrap: int = 99,
    *,
    random_state: RandomStateLike = None,
    n_jobs: int | None = None,
) -> BootstrapTest:
    r"""Parametric bootstrap test of K components against K + 1, where K is the `n_components` of a mixture.

    The statistic is that of the likelihood ratio, :math:`2 (\ell_{K + 1} - \ell_K)`, with the log likelihoods at the
    two estimates. It has no chi-squared distribution, because the smaller mixture is at the boundary of the larger one.
    So its distribution is that of the same statistic of rows drawn from the fitted mixture of K components, to which
    both mixtures are fitted again [1]_. A small p-value is evidence for more than K components, if components have the
    distribution of the emission. It is valid too if fits are penalised by priors, or end in local modes, since those
    of drawn rows do as well.

    Parameters
    ----------
    mixture : estimator instance
        Mixture with a given number of components, such as :class:`~skmanifold.ExponentialFamilyMixture`. Clones of it
        are fitted, with other values of `random_state`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows, without missing cells.
    n_bootstrap : int, default=99
        Number of bootstrap samples, each with two fits. The lowest possible p-value is ``1 / (1 + n_bootstrap)``.
    random_state : int, RandomState instance or None, default=None
        Seed of fits and drawn rows.
    n_jobs : int, default=None
        Number of bootstrap samples at a time, as in joblib. The result does not depend on it.

    Returns
    -------
    test : BootstrapTest
        A named tuple of `n_components`, `statistic`, `p_value` and `drawn_statistics`.

    Raises
    ------
    ValueError
        If the estimator infers the number of components or is no mixture, X has missing cells, or a fit fails.

    References
    ----------
    .. [1] G. J. McLachlan, "On bootstrapping the likelihood ratio test statistic for the number of components in a
       normal mixture", Journal of the Royal Statistical Society C 36, 1987.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> from skmanifold.metrics import bootstrap_components_test
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-2.0, 1.0, (60, 1)), rng.normal(2.0, 1.0, (60, 1))])
    >>> bootstrap_components_test(ExponentialFamilyMixture(1), X, n_bootstrap=19, random_state=0).p_value
    0.05
    """
    parameters = signature(mixture.sample).parameters if hasattr(mixture, "sample") else ()
    K = getattr(mixture, "n_components", None)
    if not isinstance(mixture, DensityMixin) or not isinstance(K, Integral) or "random_state" not in parameters:
        raise ValueError(
            "bootstrap_components_test needs a mixture with a given number n_components and a method "
            "sample(n_samples, random_state), such as ExponentialFamilyMixture; "
            f"{type(mixture).__name__} is none."
        )
    n_bootstrap = check_scalar(n_bootstrap, "n_bootstrap", Integral, min_val=1)
    n_rows = check_array(X, accept_sparse=True, dtype=None, input_name="X").shape[0]
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=(n_bootstrap + 1, 3)).tolist()
    fits = [[clone(mixture).set_params(n_components=K + i, random_state=of[i]) for i in (0, 1)] for of in seeds]
    statistic, smaller = _ratio(fits[0], X, n_rows), fits[0][0]
    drawn = Parallel(n_jobs=n_jobs)(
        delayed(_ratio)(pair, smaller.sample(n_rows, random_state=of[2])[0], n_rows)
        for pair, of in zip(fits[1:], seeds[1:], strict=True)
    )
    p_value = (1 + np.sum(np.asarray(drawn) >= statistic)) / (1 + n_bootstrap)
    return BootstrapTest(int(K), statistic, float(p_value), np.array(drawn))


def _ratio(pair: list[Any], X: Any, n_rows: int) -> float:
    """Statistic of the likelihood ratio of two mixtures, which are fitted to the rows."""
    smaller, larger = (mixture.fit(X).score(X) for mixture in pair)
    return float(2.0 * n_rows * (larger - smaller))
