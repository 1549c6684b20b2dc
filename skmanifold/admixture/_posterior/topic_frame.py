"""Topics as a table (share, words, coherence and stability), as lists of words, as a page, and for pyLDAvis."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..._install import optional_module
from ...metrics import topic_coherence
from ...topics.top_words import TopicWords, column_names, top_columns
from ...utils._inputs.tables import is_column
from ...utils._typing import ArrayLike, ClassNamePrefixFeaturesOutMixin, MatrixLike, TransformerMixin, available_if
from ...utils._validation import validate_data
from .uncertainty import TopicUncertainty

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd


def topic_shares(estimator: Any) -> np.ndarray | None:
    """Fraction of the data of each topic or component; None if the estimator does not store it."""
    if hasattr(estimator, "weights_"):
        return np.asarray(estimator.weights_)
    draws = getattr(estimator, "posterior_", {})  # a stream may have none
    if "n_components" in draws:  # the order of topics differs between draws
        return estimator._matched_shares()
    weights = draws.get("topic_weights")
    if weights is not None and weights.shape[1]:
        return weights[estimator.best_chain_].mean(axis=0)
    counts = getattr(estimator, "_topic_counts", None)
    return None if counts is None else counts.totals / counts.totals.sum()


def topic_stability(estimator: Any) -> np.ndarray | None:
    """Smallest cosine of each topic with its match in another chain; None if the chains cannot be compared."""
    topics = getattr(estimator, "posterior_", {}).get("components")
    if not isinstance(estimator, TopicUncertainty) or topics is None or len(topics) < 2 or topics.shape[1] == 0:
        return None
    match = estimator._match_chains()
    return None if match is None else match.least_similarity()


def largest_first(shares: np.ndarray | None, n_topics: int) -> np.ndarray:
    """Topics in descending order of their shares, ties by index; in the order of their indices without shares."""
    return np.arange(n_topics) if shares is None else np.argsort(-shares, kind="stable")


def shows_words(estimator: TopicFrame) -> bool:
    """Whether columns are words, for methods that are available only then."""
    return estimator._has_words()


class TopicFrame(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Output columns, tags and the method `topics_as_frame` of an estimator with topics of words; not public."""

    components_: Any
    doc_topic_prior_: Any

    @property
    def _n_features_out(self) -> int:
        return len(self.doc_topic_prior_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "doc_topic_prior_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _has_words(self) -> bool:
        """Return True if columns are words; otherwise raise an AttributeError with the reason."""
        return True

    def _topic_names(self) -> dict[int, str]:
        """Names of topics by index; by default none."""
        return {}

    @available_if(shows_words)
    def topics_as_frame(
        self, X: MatrixLike | None = None, *, n_words: int = 10, feature_names: ArrayLike | None = None
    ) -> pd.DataFrame:
        """The topics as a pandas DataFrame, the topic with the largest share first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Documents for the coherence, such as those of the fit. None computes no coherence.
        n_words : int, default=10
            Largest number of words per topic; for topics with signs, of each sign. The coherence is that of the words
            in the column ``words``, so it needs at least two.
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()``. None uses ``feature_names_in_`` if it
            exists, else the column indices.

        Returns
        -------
        topics : DataFrame
            One row per topic, with the columns

            - ``topic``: number of the topic, which is the same everywhere: its row of ``components_``, its column of
              `transform` (3 for ``stochasticlda3``), and its place in `topic_words` and in the parameters of other
              methods. If the number of topics is inferred, topics are numbered in the order of this table.
            - ``name``: name of the topic, empty if it has none; only if `seed_words` is a mapping with names.
            - ``share``: fraction of the data; NaN if the estimator does not store it.
            - ``words``: the words with the largest entries, separated by commas.
            - ``negative_words``: those with the most negative entries; only for topics with signs.
            - ``coherence``: normalised pointwise mutual information of the words in `X`, from -1 to 1 (see
              :func:`~skmanifold.metrics.topic_coherence`); NaN without `X`, and for a topic with fewer than two words
              that occur in `X`.
            - ``stability``: cosine with the matching topic of another chain, the minimum over the other chains, as in
              ``topic_diagnostics().similarity``; NaN for a single chain, and for OrthogonalSphericalAdmixture with an
              inferred number of topics.

        Raises
        ------
        ValueError
            If `n_words` is less than 1, the number of names differs from the number of columns, or `X` has negative
            entries or another number of columns.

        Examples
        --------
        >>> from sklearn.feature_extraction.text import CountVectorizer
        >>> from skmanifold import StochasticLDA
        >>> texts = ["ball bat ball run", "run bat pitch", "orbit moon launch", "launch orbit fuel", "bat pitch ball"]
        >>> vectorizer = CountVectorizer()
        >>> X = vectorizer.fit_transform(texts)
        >>> lda = StochasticLDA(2, sampler="gibbs", n_chains=2, max_iter=100, random_state=0).fit(X)
        >>> frame = lda.topics_as_frame(X, n_words=3, feature_names=vectorizer.get_feature_names_out())
        >>> frame.columns.tolist()
        ['topic', 'share', 'words', 'coherence', 'stability']
        >>> frame["words"].tolist()
        ['ball, bat, run', 'launch, orbit, fuel']
        """
        pd = optional_module("pandas", "topics_as_frame", "demo")
        check_is_fitted(self)
        entries = self.components_
        found = self.topic_words(n_words, feature_names)
        has_signs = bool(found) and isinstance(found[0], TopicWords)
        words = [topic.positive if has_signs else topic for topic in found]
        columns = {"words": [_joined(of_topic) for of_topic in words]}
        names = self._topic_names()
        named = {"name": [names.get(topic, "") for topic in range(len(entries))]} if names else {}
        if has_signs:
            columns["negative_words"] = [_joined(topic.negative) for topic in found]
        shares = topic_shares(self)
        unknown = np.full(len(entries), np.nan)
        coherence = (
            unknown if X is None else _coherence(self, entries, X, np.array([len(of_topic) for of_topic in words]))
        )
        stability = topic_stability(self)
        frame = pd.DataFrame(
            {
                "topic": np.arange(len(entries)),
                **named,
                "share": unknown if shares is None else shares,
                **columns,
                "coherence": coherence,
                "stability": unknown if stability is None else stability,
            }
        )
        return frame.iloc[largest_first(shares, len(entries))].reset_index(drop=True)


def _coherence(estimator: Any, entries: np.ndarray, X: MatrixLike, n_words: np.ndarray) -> np.ndarray:
    """NPMI of the first words of each topic, whose numbers may differ; NaN for fewer than two."""
    if is_column(X) or (isinstance(X, list | tuple | np.ndarray) and len(X) and isinstance(X[0], str)):
        raise TypeError("X must be counts of words in documents: pass names of columns as feature_names.")
    X = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64)
    if (X.data if sp.issparse(X) else X).min(initial=0.0) < 0.0:
        raise ValueError("The coherence of topics needs X without negative entries, such as counts of words.")
    coherence = np.full(len(entries), np.nan)
    for size in np.unique(n_words[n_words > 1]):
        topics = n_words == size
        coherence[topics] = topic_coherence(entries[topics], X, n_top_words=int(size))
    return coherence


def _joined(words: list[tuple[Any, float]]) -> str:
    return ", ".join(str(name) for name, _ in words)


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
        ValueError
            If the numbers of names and columns, or of documents and rows, differ, or without X there are no shares.

        References
        ----------
        .. [1] C. Sievert and K. E. Shirley, "LDAvis: A method for visualizing and interpreting topics", 2014.
        """
        from .html_page import write_page  # imported here because a fit does not need it

        check_is_fitted(self)
        write_page(self, path, X, feature_names, documents, n_words, n_documents, level)
