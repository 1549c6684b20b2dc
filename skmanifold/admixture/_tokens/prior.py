"""Draws from the prior of admixtures of tokens."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...random._keys import Purpose, root_key, subkey
from ...topics.topic_word import topic_word_from_array
from ...utils._threads import limit_threads
from ...utils._typing import ArrayLike, RandomStateLike
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .new_rows import PriorOfRows, draw_dirichlet, draw_rows
from .topic_counts import TopicPrior


class DrawsFromPrior:
    """The method `sample_prior` of an admixture of tokens; not public."""

    _purpose_of_components: int = Purpose.TOPICS

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: ArrayLike = 100,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw components, such as topics, and proportions from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_features : int, default=None
            Number of columns, or for the emission "gaussian" of dimensions. Hyperparameters are then those of the
            constructor, and none may depend on data. None means a fitted estimator: its columns and the hyperparameters
            of the fit.
        n_tokens : int or array-like of shape (n_samples,), default=100
            Number of tokens of each row. For the emission "poisson" it is random, for "bernoulli" that of the columns.
        random_state : int, RandomState instance or None, default=None
            Seed.
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : csr_array or ndarray of shape (n_samples, n_features), or list of ndarray of shape (n_tokens, n_dims)
            Counts, or for the emission "bernoulli" zeros and ones. For "gaussian" each row is an array with the vectors
            of its tokens.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: the components with their weights and concentrations, with names and
            shapes as in ``posterior_``; ``"doc_topic"``, the proportions, or for "poisson" the intensities; and
            ``"doc_topic_counts"``, the number of tokens of each component in each row, both of shape (n_samples,
            n_components). If the number of topics is inferred, ``"n_components"`` is the number of those with tokens,
            and the proportions are integrated out: tokens share tables, and tables share topics, as in the Chinese
            restaurant franchise.

        Raises
        ------
        ValueError
            If a number is not valid, or a hyperparameter depends on the data and `n_features` is given.
        IncompatibleError
            If the emission does not draw parameters and rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        check_scalar(n_samples, "n_samples", Integral, min_val=1)
        if n_features is None:
            check_is_fitted(self, msg=FIT_OR_GIVE_N_FEATURES)
        else:
            check_scalar(n_features, "n_features", Integral, min_val=1)
        X, parameters = self._draw_from_prior(n_features, _lengths(n_tokens, n_samples), root_key(random_state))
        return (X, parameters) if return_parameters else X

    def _prior_of_rows(self, n_features: int | None) -> PriorOfRows:
        """The prior of the fit, or that of the constructor for a number of columns."""
        raise NotImplementedError

    def _draw_from_prior(self, n_features: int | None, lengths: np.ndarray, key: np.uint64) -> tuple[Any, dict]:
        """Rows with these numbers of tokens, and the parameters."""
        prior = self._prior_of_rows(n_features)
        tokens, key_of_components = prior.tokens, subkey(key, self._purpose_of_components)
        if isinstance(tokens, TopicPrior):
            shapes = np.broadcast_to(tokens.values, (len(tokens.totals), len(tokens.base)))
            parameters = {"components": draw_dirichlet(shapes, key_of_components)}
            position: Any = topic_word_from_array(parameters["components"])
        else:
            with limit_threads("blas"):
                position = tokens.family.draw(tuple(map(np.zeros, tokens.family.shapes())), key_of_components)
            parameters = tokens.record(position)
        rows = draw_rows(prior, position, lengths, key)
        totals = rows.totals.sum(axis=0)
        shares = {"topic_weights": totals / max(1, totals.sum()), "doc_topic": rows.proportions}
        return rows.X, {**parameters, **shares, "doc_topic_counts": rows.totals}


def _lengths(n_tokens: ArrayLike, n_samples: int) -> np.ndarray:
    """Numbers of tokens of the rows, (n_samples,) int64, from a parameter; a ValueError if they are not valid."""
    lengths = np.asarray(n_tokens)
    if lengths.dtype.kind not in "iu" or lengths.shape not in ((), (n_samples,)) or lengths.min(initial=0) < 0:
        raise ValueError(
            f"n_tokens must be a non-negative int or an array of {n_samples} of them, one for each document; got "
            f"{n_tokens!r}."
        )
    return np.full(n_samples, lengths, np.int64)
