"""Topics as a table: share, words, coherence and stability of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._install import install_command
from ...metrics import topic_coherence
from ...utils._typing import ArrayLike, MatrixLike, available_if
from .topic_draws import match_chains

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd


def topic_shares(estimator: Any) -> np.ndarray | None:
    """Fraction of the data of each topic or component; None if the estimator does not store it."""
    if hasattr(estimator, "weights_"):
        return np.asarray(estimator.weights_)
    draws = getattr(estimator, "posterior_", {})  # a stream may have none
    weights = draws.get("topic_weights")
    if weights is None or weights.shape[1] == 0 or "n_components" in draws:  # the order of topics then changes
        return None
    return weights[estimator.best_chain_].mean(axis=0)


def topic_stability(estimator: Any) -> np.ndarray | None:
    """Smallest cosine of each topic with its match in another chain; None without other chains or without draws."""
    try:
        draws = estimator._draws_of_topics()
    except (AttributeError, ValueError):
        return None
    if len(draws) < 2:
        return None
    best = estimator.best_chain_
    return np.delete(match_chains(draws, best).similarity, best, axis=0).min(axis=0)


def largest_first(shares: np.ndarray | None, n_topics: int) -> np.ndarray:
    """Topics in descending order of their shares, ties by index; in the order of their indices without shares."""
    return np.arange(n_topics) if shares is None else np.argsort(-shares, kind="stable")


def _shows_words(estimator: TopicFrame) -> bool:
    return estimator._has_words()


class TopicFrame:
    """The method `topics_as_frame` of an estimator with topics of words; not public."""

    components_: Any

    def _has_words(self) -> bool:
        """Return True if columns are words; otherwise raise an AttributeError with the reason."""
        return True

    @available_if(_shows_words)
    def topics_as_frame(
        self, X: MatrixLike | None = None, *, n_words: int = 10, feature_names: ArrayLike | None = None
    ) -> pd.DataFrame:
        """The topics as a pandas DataFrame, the topic with the largest share first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Documents for the coherence, such as those of the fit. None computes no coherence.
        n_words : int, default=10
            Largest number of words per topic; for topics with signs, of each sign. The coherence is that of the same
            words.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()``. None uses ``feature_names_in_`` if it
            exists, else the column indices.

        Returns
        -------
        topics : DataFrame
            One row per topic, with the columns

            - ``topic``: index of the topic, a row of ``components_``.
            - ``share``: fraction of the data; NaN if the estimator does not store it.
            - ``words``: the words with the largest entries, separated by commas.
            - ``negative_words``: those with the most negative entries; only for topics with signs.
            - ``coherence``: normalised pointwise mutual information of the words in `X`, from -1 to 1 (see
              :func:`~skmanifold.metrics.topic_coherence`); NaN without `X`.
            - ``stability``: smallest cosine with the matching topic of another chain; NaN for a single chain, and for
              samplers that do not draw the topics.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_words` is less than 1, the number of names differs from the number of columns, or `X` has negative
            entries or another number of columns.
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(f"topics_as_frame needs pandas: {install_command('demo')}") from error
        check_is_fitted(self)
        n_topics, n_features = self.components_.shape
        found = self.topic_words(n_words, feature_names)  # type: ignore[attr-defined]
        columns: dict[str, Any] = {}
        if found and hasattr(found[0], "negative"):
            columns["words"] = [_joined(topic.positive) for topic in found]
            columns["negative_words"] = [_joined(topic.negative) for topic in found]
        else:
            columns["words"] = [_joined(topic) for topic in found]
        shares = topic_shares(self)
        unknown = np.full(n_topics, np.nan)
        coherence = unknown
        if X is not None and min(n_words, n_features) > 1:
            coherence = topic_coherence(self.components_, X, n_top_words=min(n_words, n_features))
        stability = topic_stability(self)
        frame = pd.DataFrame(
            {
                "topic": np.arange(n_topics),
                "share": unknown if shares is None else shares,
                **columns,
                "coherence": coherence,
                "stability": unknown if stability is None else stability,
            }
        )
        return frame.iloc[largest_first(shares, n_topics)].reset_index(drop=True)


def _joined(words: list[tuple[Any, float]]) -> str:
    return ", ".join(str(name) for name, _ in words)
