"""Draws from the prior of an admixture of an exponential family."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...emissions._abilities import HasDraw, HasNewRows
from ...emissions._estimator import WithEmission
from ...emissions._prior import HasPriorFamily, no_statistics
from ...emissions._protocols import DirichletFamily
from ...random._keys import Purpose, root_key, subkey
from ...sparse.counts import no_rows
from ...topics.topic_word import topic_word_from_array
from ...utils._protocol_check import offers
from ...utils._threads import limit_threads
from ...utils._typing import ArrayLike, RandomStateLike
from ...utils._validation import FIT_OR_GIVE_N_FEATURES
from .._tokens.new_rows import (
    components_of_tokens,
    draw_dirichlet,
    draw_intensities,
    draw_proportions,
    draw_totals,
    draw_words,
    share_tokens,
)
from .._tokens.prior import check_lengths, shares_of_topics
from .._tokens.topic_counts import TopicPrior
from .token_laws import DirichletTokens


class DrawsFromPrior:
    """Mixin of `ExponentialFamilyAdmixture`; not public."""

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: ArrayLike = 100,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw components and proportions from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_features : int, default=None
            Number of columns, or for "gaussian" of dimensions. Hyperparameters are then those of the constructor, and
            none may depend on data. None means a fitted estimator: its columns and the hyperparameters of the fit.
        n_tokens : int or array-like of shape (n_samples,), default=100
            Number of tokens of each row, for "multinomial" and "gaussian". The number is random for "poisson" and that
            of the columns for "bernoulli".
        random_state : int, RandomState instance or None, default=None
            Seed.
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : csr_array or ndarray of shape (n_samples, n_features), or list of ndarray of shape (n_tokens, n_dims)
            Rows, as :meth:`sample` returns them.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"components"``, ``"topic_weights"`` and, for "gaussian",
            ``"covariances"``, with shapes as in ``posterior_``; ``"doc_topic"``, the proportions, or for "poisson" the
            intensities; and ``"doc_topic_counts"``, the number of tokens of each component in each row, both of shape
            (n_samples, n_components).

        Raises
        ------
        ValueError
            If a number is not valid, or a hyperparameter that depends on data is None.
        IncompatibleError
            If the emission does not draw parameters and rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        estimator: Any = self
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        lengths, key = check_lengths(n_tokens, n_samples), root_key(random_state)
        of_rows, of_labels, of_values = (subkey(key, use) for use in (Purpose.SHARES, Purpose.LABELS, Purpose.ROWS))
        emission, alpha, rate, of_tokens = _prior_of(estimator, n_features)
        if rate is not None:
            proportions = draw_intensities(alpha, rate, n_samples, of_rows)
        else:
            proportions = draw_proportions(alpha, n_samples, of_rows)
        position, parameters = _draw_components(estimator, emission, of_tokens, subkey(key, Purpose.COMPONENTS))
        parameters["doc_topic"] = proportions
        if emission.has_missing_tokens:
            table = of_tokens.token_table(position)
            X, counts = _draw_cells(table.reshape(-1, emission.tokens_of_column, len(alpha)), proportions, of_values)
        else:
            if rate is not None:
                counts = draw_totals(proportions, of_labels)
            else:
                counts = share_tokens(proportions, lengths, of_labels)
            X = _draw_tokens(emission, of_tokens, position, counts, of_values)
        parameters |= {"topic_weights": shares_of_topics(counts), "doc_topic_counts": counts}
        return (X, parameters) if return_parameters else X


def _prior_of(estimator: Any, n_features: int | None) -> tuple[Any, np.ndarray, float | None, Any]:
    """The emission, the prior of the rows, the rate of intensities, and the family or the prior of probabilities."""
    if n_features is None:
        check_is_fitted(estimator, msg=FIT_OR_GIVE_N_FEATURES)
        tokens, rate = estimator._tokens, getattr(estimator, "intensity_rate_", None)
        of_tokens = tokens.prior if isinstance(tokens, DirichletTokens) else tokens.family
        return estimator.emission_, estimator.doc_topic_prior_, rate, of_tokens
    n_features = check_scalar(n_features, "n_features", Integral, min_val=1)
    emission: Any = WithEmission._resolve_emission(estimator)
    K, alpha = estimator.n_components, estimator._row_prior()
    rate = estimator.intensity_rate if emission.has_random_totals else None
    if emission.has_random_totals and rate is None:
        raise ValueError(
            "The prior depends on the data because intensity_rate is None: set it, or fit the estimator and omit "
            "n_features."
        )
    if emission.has_vector_tokens:
        caller = f"{type(estimator).__name__}.sample_prior with n_features"
        estimator._check_offers(emission, emission, [HasPriorFamily], caller, "; or fit first")
        return emission, alpha, rate, emission.prior_family(n_features, K, 1)
    n_tokens = n_features * emission.tokens_of_column
    family = emission.bind_tokens(no_rows(n_tokens), K)
    is_dirichlet = offers(family, DirichletFamily)
    return emission, alpha, rate, DirichletTokens(family, n_tokens).prior if is_dirichlet else family


def _draw_components(estimator: Any, emission: Any, of_tokens: Any, key: np.uint64) -> tuple[Any, dict[str, Any]]:
    """Parameters of the components as tokens are drawn from them, and as arrays."""
    if isinstance(of_tokens, TopicPrior):
        topics = draw_dirichlet(np.broadcast_to(of_tokens.values, (len(of_tokens.totals), len(of_tokens.base))), key)
        return topics, {"components": topics}
    needs = [HasDraw, HasNewRows] if emission.has_vector_tokens else [HasDraw]
    estimator._check_offers(emission, of_tokens, needs, f"{type(estimator).__name__}.sample_prior")
    with limit_threads("blas"):
        position = of_tokens.draw(no_statistics(of_tokens), key)
    return position, {name.removesuffix("_"): value for name, value in of_tokens.attributes(position).items()}


def _draw_cells(log_table: np.ndarray, proportions: np.ndarray, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Values of cells, (n_rows, n_features), and the number of cells of each component in each row, (n_rows, K).

    Parameters
    ----------
    log_table : ndarray of shape (n_features, n_values, K)
        Log probabilities of the values of each column.
    proportions : ndarray of shape (n_rows, K)
        Proportions.
    key : uint64
        Key of the random numbers.
    """
    rng = np.random.default_rng(int(key))
    n_features, shape = len(log_table), (len(proportions), len(log_table), 1)
    labels = (rng.random(shape) >= np.cumsum(proportions, axis=1)[:, None, :-1]).sum(axis=2)
    levels = np.cumsum(np.exp(log_table), axis=1).transpose(0, 2, 1)[np.arange(n_features), labels]
    values = (rng.random(shape) * levels[..., -1:] >= levels[..., :-1]).sum(axis=2)
    K = proportions.shape[1]
    return values, (labels[..., None] == np.arange(K)).sum(axis=1)


def _draw_tokens(emission: Any, of_tokens: Any, position: Any, counts: np.ndarray, key: np.uint64) -> Any:
    """Words, or vectors, of tokens whose numbers by component are `counts`, (n_rows, K)."""
    if not emission.has_vector_tokens:
        return draw_words(topic_word_from_array(position), counts, key)
    with limit_threads("blas"):
        vectors = of_tokens.sample(position, components_of_tokens(counts), key)
    return np.split(vectors, np.cumsum(counts.sum(axis=1))[:-1])
