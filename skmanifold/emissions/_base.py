"""The base class of emissions, which hold the prior of a component's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..sparse.counts import USE_COUNTS_OF_WORDS, Counts, as_counts, counts_to_fit, validate_counts
from ..utils._plain_numbers import PlainNumbers
from ..utils._typing import MatrixLike

# The library's emissions that accept such X, for errors: this file cannot import them.
ABLE = {
    "allows_missing": ("bernoulli", "poisson"),
    "allows_sparse": ("bernoulli", "multinomial", "poisson"),
    "has_missing_tokens": ("bernoulli",),
}


class BaseEmission(PlainNumbers, BaseEstimator):
    """Base class of emissions, which set the distribution of rows or tokens given their component.

    The constructor takes hyperparameters of the conjugate prior; an emission holds no data. An emission for mixtures
    has the methods of `RowEmission`, ``read`` and ``bind``. An emission for admixtures has those of `TokenEmission`,
    ``read_tokens`` and ``bind_tokens``; it inherits a ``read_tokens`` for counts of words from this class. The class
    attributes below declare which X it accepts.
    """

    short_name: ClassVar[str] = ""
    allows_missing: ClassVar[bool] = False  # rows of a mixture may have NaN
    allows_sparse: ClassVar[bool] = True  # rows of a mixture may be sparse
    positive_only: ClassVar[bool] = True
    has_missing_tokens: ClassVar[bool] = False  # rows of an admixture may have NaN
    has_vector_tokens: ClassVar[bool] = False  # tokens are vectors, with densities in place of probabilities
    has_random_totals: ClassVar[bool] = False  # the number of tokens of a row is random, so that rows have intensities
    has_codes: ClassVar[bool] = False  # cells are codes of categories
    tokens_of_column: ClassVar[int] = 1  # number of different tokens for each column of X
    _parameter_constraints: ClassVar[dict] = {}

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """Validate X and return it as counts of tokens, for an admixture.

        Parameters
        ----------
        estimator : estimator instance
            Validation stores the number and names of columns in it, as scikit-learn does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts.
        key : uint64 or None
            Key of the random numbers that round fractions, as a fit needs whole counts. None leaves counts as they
            are.
        reset : bool
            Whether to store the number and names of columns, or to compare them with those of `fit`.

        Returns
        -------
        counts : Counts
            Counts of the tokens in each row.

        Raises
        ------
        ValueError
            If X is not made of counts.
        """
        with explained_refusals(self, X, tokens=True):
            csr = validate_counts(estimator, X, reset=reset)
        if key is None:
            return as_counts(csr)
        return counts_to_fit(csr, key, USE_COUNTS_OF_WORDS, stacklevel=8)


@contextmanager
def explained_refusals(emission: BaseEmission | None, X: Any, tokens: bool = False) -> Iterator[None]:
    """Replace the error of a validation that rejects sparse X or NaN by a sentence that names the emission.

    Parameters
    ----------
    emission : BaseEmission or None
        Its class declares which X it accepts; None keeps the original error.
    X : object
        As the user gave it.
    tokens : bool, default=False
        Whether X is read for an admixture.

    Returns
    -------
    context : iterator of None
        For ``with``, around the validation of X.

    Raises
    ------
    ValueError
        If X has NaN that the emission does not accept.
    TypeError
        If X is sparse and the emission does not accept that.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if emission is None:
            raise
        flag = "has_missing_tokens" if tokens else "allows_missing"
        if sp.issparse(X) and not tokens and not emission.allows_sparse:
            raise TypeError(_sentence(emission, "sparse X", "allows_sparse", "pass X.toarray()")) from error
        if not getattr(emission, flag) and "contains NaN" in str(error):
            cure = "put an imputer before it in a pipeline"
            raise ValueError(_sentence(emission, "NaN, missing cells,", flag, cure)) from error
        raise


def _sentence(emission: BaseEmission, what: str, flag: str, cure: str) -> str:
    able = ABLE[flag]
    others = f"{' and '.join(map(repr, able))} {'do' if len(able) > 1 else 'does'}"
    return f"The emission {type(emission).__name__} does not take {what} as {others}: {cure}."


def positive_prior(value: Any, n_features: int, name: str) -> np.ndarray:
    """Validate a hyperparameter and return one positive number for each feature.

    Parameters
    ----------
    value : float or array-like of shape (n_features,)
        As the user gave it.
    n_features : int
        Number of features.
    name : str
        Name of the hyperparameter, for errors.

    Returns
    -------
    values : ndarray of shape (n_features,)
        Positive numbers.

    Raises
    ------
    ValueError
        If the shape is wrong, or a number is not positive and finite.
    """
    values = np.array(value, dtype=np.float64)
    if values.shape not in ((), (n_features,)):
        raise ValueError(f"{name} must be a number or have shape ({n_features},); got {values.shape}.")
    if not np.all(np.isfinite(values)) or values.min() <= 0.0:
        raise ValueError(f"{name} must be positive and finite.")
    return np.full(n_features, values)
