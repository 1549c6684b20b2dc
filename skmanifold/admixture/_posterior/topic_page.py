"""Topics as lists of words, as a page of HTML, and for pyLDAvis."""

from __future__ import annotations

import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ...topics.top_words import column_names, top_columns
from ...utils._typing import ArrayLike, MatrixLike, available_if
from .topic_frame import TopicFrame, shows_words


class TopicPage(TopicFrame):
    """Methods of an estimator with topics of words; not public."""

    @available_if(shows_words)
    def topic_words(self, n_words: int = 10, feature_names: ArrayLike | None = None) -> list[list[tuple[Any, float]]]:
        """The most probable words of each topic.

        Available only if rows are counts of words.

        Parameters
        ----------
        n_words : int, default=10
            Largest number of words per topic.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()`` or ``corpus.vocabulary``. None uses
            ``feature_names_in_`` if it exists, else the column indices.

        Returns
        -------
        topics : list of lists of (name, probability)
            Words of each topic with their entries of ``components_``, in decreasing order of probability. Equally
            probable words are in the order of the columns.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_words` is less than 1, or the number of names differs from the number of columns.
        """
        check_is_fitted(self)
        entries = self.components_
        names = column_names(self, entries.shape[1], feature_names)
        return [
            [(names[i], float(topic[i])) for i in columns]
            for topic, columns in zip(entries, top_columns(entries, n_words), strict=True)
        ]

    @available_if(shows_words)
    def to_pyldavis(
        self,
        X: MatrixLike,
        *,
        feature_names: ArrayLike | None = None,
        max_features: int | None = 10_000,
        **options: Any,
    ) -> Any:
        """Prepare the topics for a pyLDAvis visualisation.

        Topic t of the page is row t - 1 of ``components_``. Proportions are those of `transform`. Available only if
        rows are counts of words.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents. The sizes of topics are their shares of these tokens. Documents without tokens
            are ignored.
        feature_names : array-like of shape (n_features,), default=None
            The words. None uses ``feature_names_in_`` if it exists, else x0, x1, ...
        max_features : int or None, default=10_000
            Largest number of words to show: those with most tokens in X. None shows all.
        **options
            Further arguments of ``pyLDAvis.prepare``. The defaults are ``n_jobs=1``, ``sort_topics=False`` and, for
            ``mds``, a classical scaling of Jensen-Shannon divergences that is the same on every machine. With 50 topics
            the call takes about ten seconds, with ``lambda_step=0.05`` a third of that.

        Returns
        -------
        prepared : pyLDAvis.PreparedData
            Write it with ``pyLDAvis.save_html(prepared, "topics.html")``. The page shows words unchanged, and never
            runs them as scripts. It loads its scripts from the network.
            For a page that is read without network on the same machine, add ``d3_url=pyLDAvis.urls.D3_LOCAL,
            ldavis_url=pyLDAvis.urls.LDAVIS_LOCAL, ldavis_css_url=pyLDAvis.urls.LDAVIS_CSS_LOCAL``.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ImportError
            If pyLDAvis is not installed.
        ValueError
            If X has no tokens, or the number of names differs from the number of columns.
        """
        from .pyldavis import to_pyldavis  # imported here because it loads parts of scipy that a fit does not need

        check_is_fitted(self)
        return to_pyldavis(self, X, feature_names=feature_names, max_features=max_features, **options)

    @available_if(shows_words)
    def to_html(
        self,
        path: str | os.PathLike[str],
        X: MatrixLike | None = None,
        *,
        feature_names: ArrayLike | None = None,
        documents: ArrayLike | None = None,
        n_words: int = 30,
        n_documents: int = 20,
        level: float = 0.9,
    ) -> None:
        r"""Write a page that shows the topics in a browser, in a single file and without network.

        Topics are in descending order of their shares and have the numbers of `topics_as_frame`. A slider sets the
        :math:`\lambda` of the relevance [1]_ by which words w of topic k are sorted,

        .. math:: \lambda \log p(w \mid k) + (1 - \lambda) \log \frac{p(w \mid k)}{p(w)},

        where p(w) is the average over topics, weighted by their shares. Intervals are shown if the sampler draws the
        topics. Available only if rows are counts of words.

        Parameters
        ----------
        path : str or path-like
            The file, which is replaced if it exists.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Counts of words in documents. None shows no documents.
        feature_names : array-like of shape (n_features,), default=None
            The words. None uses ``feature_names_in_`` if it exists, else x0, x1, ...
        documents : array-like of shape (n_samples,), default=None
            Titles or texts of the rows of X, of which 300 characters are shown. None shows the indices of rows.
        n_words, n_documents : int, default=30 and 20
            Largest numbers of words and of documents per topic. Documents are those with the largest proportions in
            `transform`.
        level : float, default=0.9
            Posterior probability of each interval. With few draws it is lower, as in `credible_intervals`.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If the numbers of names and columns, or of documents and rows, differ, or without X there are no shares.

        References
        ----------
        .. [1] C. Sievert and K. E. Shirley, "LDAvis: A method for visualizing and interpreting topics", 2014.
        """
        from .html_page import write_page  # imported here because a fit does not need it

        check_is_fitted(self)
        write_page(self, path, X, feature_names, documents, n_words, n_documents, level)
