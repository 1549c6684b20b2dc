"""Topics as lists of words, and on the page that pyLDAvis makes."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from ...topics.top_words import column_names, top_columns
from ...utils._typing import ArrayLike, MatrixLike, available_if


def _shows_words(estimator: TopicPage) -> bool:
    return estimator._has_words()


class TopicPage:
    """Methods of an estimator with topics of words; not public."""

    components_: Any

    def _has_words(self) -> bool:
        """Whether rows are counts of words; raises an AttributeError, saying why, if they are not."""
        return True

    @available_if(_shows_words)
    def topic_words(self, n_words: int = 10, feature_names: ArrayLike | None = None) -> list[list[tuple[Any, float]]]:
        """The most probable words of each topic.

        Only where rows are counts of words.

        Parameters
        ----------
        n_words : int, default=10
            Most words of a topic.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()`` or ``corpus.vocabulary``; None is
            ``feature_names_in_``, or their numbers.

        Returns
        -------
        topics : list of lists of (name, probability)
            For each topic its words and their entries of ``components_``, the most probable first; equally probable
            ones in the order of the columns.

        Raises
        ------
        ValueError
            If `n_words` is below 1, or there are not as many names as columns.
        """
        check_is_fitted(self)
        entries = self.components_
        names = column_names(self, entries.shape[1], feature_names)
        return [
            [(names[i], float(topic[i])) for i in columns]
            for topic, columns in zip(entries, top_columns(entries, n_words), strict=True)
        ]

    @available_if(_shows_words)
    def to_pyldavis(
        self,
        X: MatrixLike,
        *,
        feature_names: ArrayLike | None = None,
        max_features: int | None = 10_000,
        **options: Any,
    ) -> Any:
        """The topics as pyLDAvis takes them, for its page of topics.

        Topic t of the page is row t - 1 of ``components_``. Proportions are those of `transform`. Only where rows are
        counts of words.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents: the sizes of topics are shares of their tokens. Documents without tokens are
            left out.
        feature_names : array-like of shape (n_features,), default=None
            The words; None is ``feature_names_in_``, or x0, x1, ... where there are none.
        max_features : int or None, default=10_000
            The most words that are shown, those with most tokens in X; None is all.
        **options
            Of ``pyLDAvis.prepare``. By default ``n_jobs=1``, ``sort_topics=False`` and ``mds`` is a classical scaling
            of Jensen-Shannon divergences that is the same on every machine. With 50 topics it takes ten seconds or so,
            with ``lambda_step=0.05`` a third.

        Returns
        -------
        prepared : pyLDAvis.PreparedData
            Write it with ``pyLDAvis.save_html(prepared, "topics.html")``. The page loads its scripts from the network;
            where there is none, add ``d3_url=pyLDAvis.urls.D3_LOCAL, ldavis_url=pyLDAvis.urls.LDAVIS_LOCAL,
            ldavis_css_url=pyLDAvis.urls.LDAVIS_CSS_LOCAL``, for a page that is read on this machine.

        Raises
        ------
        ImportError
            Where pyLDAvis is not installed (``pip install "skmanifold[pyldavis]"``).
        ValueError
            If X has no tokens, or names do not fit its columns.
        """
        from .pyldavis import to_pyldavis  # brings in more of scipy than a fit needs

        check_is_fitted(self)
        return to_pyldavis(self, X, feature_names=feature_names, max_features=max_features, **options)
