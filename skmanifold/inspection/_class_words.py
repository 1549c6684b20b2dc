"""Words that characterise classes of texts, with credible intervals in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import betainccinv, betaincinv, digamma, polygamma

from .._install import optional_module
from ..inference._draws import check_level
from ..sparse.counts import canonical_csr
from ..topics.top_words import column_names
from ..utils._inputs.tables import readable
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import check_array

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

_MEASURES = ("log-odds", "c-tf-idf", "lift")
_PRIOR_SHARE = 0.1  # of the mean number of words per class
_SUM_TOLERANCE = 1e-3  # of rows of memberships
_FIRST = 256  # words whose lower ends show which other words can be among the best
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class ClassWords:
    """The words that characterise each class, from :func:`class_words`.

    Classes without words, which can occur in memberships with columns of zeros, have empty lists.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The labels in ascending order, or the column indices of the memberships.
    words : list of n_classes lists
        Names of the words of each class, the most characteristic first. Only words that occur in a class are included,
        so a class can have fewer than `n_words`.
    values : list of n_classes ndarrays
        Posterior medians of the measure.
    low, high : list of n_classes ndarrays
        Lower and upper ends of the equal-tailed credible intervals.
    sizes : ndarray of shape (n_classes,)
        Sums of the memberships of each class: for labels, numbers of rows.
    measure : str
        Name of the measure.
    level : float
        Posterior probability of each interval.
    memberships : ndarray of shape (n_samples,) or (n_samples, n_classes)
        The labels or membership probabilities.
    prior : float
        Weight of the prior, as a number of words.
    """

    classes: np.ndarray
    words: list[list[Any]]
    values: list[np.ndarray]
    low: list[np.ndarray]
    high: list[np.ndarray]
    sizes: np.ndarray
    measure: str
    level: float
    memberships: np.ndarray
    prior: float

    def to_frame(self) -> pd.DataFrame:
        """The words of all classes as a pandas DataFrame.

        Returns
        -------
        frame : pandas.DataFrame
            A row for each word of each class, with the columns class, word, value, low and high.
        """
        return optional_module("pandas", "ClassWords.to_frame", "demo").DataFrame(
            {
                "class": np.repeat(self.classes, [len(words) for words in self.words]),
                "word": [word for words in self.words for word in words],
                "value": np.concatenate(self.values),
                "low": np.concatenate(self.low),
                "high": np.concatenate(self.high),
            }
        )

    def typical_rows(self, n: int = 1) -> list[np.ndarray]:
        """Indices of the rows with the highest memberships of each class.

        Parameters
        ----------
        n : int, default=1
            Maximum number of rows of each class.

        Returns
        -------
        rows : list of n_classes ndarrays of int
            Row indices in descending order of membership, ties in ascending order of the index. Rows with membership 0
            are left out. With labels all memberships are equal, so these are the first rows of each class.

        Raises
        ------
        ValueError
            If n is not a positive whole number.
        """
        _check_whole(n, "n")
        if self.memberships.ndim == 1:
            return [np.flatnonzero(self.memberships == label)[:n] for label in self.classes]
        best = [np.argsort(-column, kind="stable")[:n] for column in self.memberships.T]
        return [rows[column[rows] > 0] for rows, column in zip(best, self.memberships.T, strict=True)]

    def to_pyldavis(
        self,
        counts: MatrixLike,
        *,
        feature_names: ArrayLike | None = None,
        max_features: int | None = 10_000,
        **options: Any,
    ) -> Any:
        """Prepare the classes for a pyLDAvis visualisation, in which they are topics.

        Class t of the page is entry t - 1 of ``classes``. The word probabilities are posterior means, and proportions
        of a text are its memberships. Outliers and texts without words are left out.

        Parameters
        ----------
        counts : {array-like, sparse matrix} of shape (n_samples, n_features)
            The counts that were passed to `class_words`.
        feature_names : array-like of shape (n_features,), default=None
            The words. None uses the column indices.
        max_features : int or None, default=10_000
            Largest number of words to show: those with the largest counts. None shows all.
        **options
            Further arguments of ``pyLDAvis.prepare``. The defaults are those of ``StochasticLDA.to_pyldavis``.

        Returns
        -------
        prepared : pyLDAvis.PreparedData
            Write it with ``pyLDAvis.save_html(prepared, "classes.html")``.

        Raises
        ------
        ValueError
            If counts are not those of the same texts, or the number of names differs from the number of columns.
        """
        from ..admixture._posterior.pyldavis import check_pyldavis, prepare_page

        check_pyldavis(max_features)
        _, _, weights = _checked_memberships(self.memberships)
        X = _checked_counts(counts, len(self.memberships))
        names = column_names(None, X.shape[1], feature_names)
        of_classes, weights = _summed(weights, X), sp.csr_array(weights).toarray()
        frequency, totals = of_classes.sum(axis=0), of_classes.sum(axis=1, keepdims=True)
        background = frequency / frequency.sum()
        topics = np.maximum((of_classes + self.prior * background) / (totals + self.prior), _TINY)
        used = np.flatnonzero(weights.sum(axis=1))
        return prepare_page(topics, lambda: weights[used], X[used], names, max_features, options)


def class_words(
    memberships: ArrayLike,
    counts: MatrixLike,
    feature_names: ArrayLike | None = None,
    *,
    measure: Literal["log-odds", "c-tf-idf", "lift"] = "log-odds",
    n_words: int = 10,
    level: float = 0.9,
    prior: float | None = None,
) -> ClassWords:
    r"""Find the words that characterise each class of texts, with credible intervals.

    The classes can come from any data about the same rows: for example, cluster embeddings of texts by
    :class:`~skmanifold.VonMisesFisherMixture` or :class:`~skmanifold.DPMixture`, and name the clusters by the words of
    the texts. With memberships :math:`m_{ik}` and counts :math:`x_{iw}`, class k has the counts
    :math:`N_{kw} = \sum_i m_{ik} x_{iw}`. Let :math:`f_w = \sum_k N_{kw}`, and let :math:`p_w = f_w / \sum_v f_v` be
    the background distribution. The word probabilities of a class have the informative Dirichlet prior of [1]_, with
    mean p and weight :math:`\alpha` (`prior`), so their posterior distribution is

    .. math:: \phi_k \mid m, x \sim \operatorname{Dirichlet}(N_k + \alpha p).

    The measures are

    .. math::
        \text{log-odds} &= \operatorname{logit} \phi_{kw} - \operatorname{logit} \psi_{kw} \\
        \text{c-tf-idf} &= \phi_{kw} \log (1 + A / f_w) \\
        \text{lift} &= \phi_{kw} / p_w,

    where :math:`\psi_k` are the word probabilities of all other classes together, and A is the mean number of words per
    class. They select different words:

    - "log-odds" sorts words by their z-scores, posterior mean over posterior standard deviation, as [1]_ does. The
      first words are frequent in the class and less frequent elsewhere. Few of them are stop words.
    - "c-tf-idf", class-based tf-idf [2]_, prefers frequent words. Remove stop words first.
    - "lift" prefers words that occur in no other class, such as names.

    For the last two, words are sorted by the lower ends of their intervals. In both orders, a word with few occurrences
    has a low rank even if its value is high, because its posterior distribution is wide.

    Parameters
    ----------
    memberships : array-like of shape (n_samples,) or (n_samples, n_classes)
        Labels, which are whole numbers, or membership probabilities, such as those of `predict_proba`. Rows with the
        label -1 or with only zeros are outliers. They are left out everywhere, also from the background.
    counts : {array-like, sparse matrix} of shape (n_samples, n_features)
        Counts of words in the texts. Fractions are allowed.
    feature_names : array-like of shape (n_features,), default=None
        The words, such as ``vectorizer.get_feature_names_out()``. None uses the column indices.
    measure : {"log-odds", "c-tf-idf", "lift"}, default="log-odds"
        What is computed for each word and class.
    n_words : int, default=10
        Maximum number of words of a class.
    level : float, default=0.9
        Posterior probability of each interval. For "c-tf-idf" and "lift", a lower level gives rare words higher ranks.
    prior : float, default=None
        Weight of the prior, as a number of words. None is a tenth of the mean number of words per class.

    Returns
    -------
    ClassWords
        Words, values, intervals and sizes of the classes, with the methods `to_frame` and `typical_rows`.

    Raises
    ------
    ValueError
        If the memberships are neither labels nor probabilities, counts are negative or not finite, the numbers of rows
        differ, no row belongs to a class, or a parameter is out of its range.

    See Also
    --------
    TopicDisplay.from_class_words : Plot of the result.

    Notes
    -----
    The intervals are conditional on the memberships and the background distribution: they do not include the
    uncertainty of the clustering. Words are modelled as independent draws, so that intervals are too short for words
    that tend to be repeated within a text.

    :math:`\phi_{kw}` has a beta distribution, so the intervals of lift and c-tf-idf are exact. For log-odds, the prior
    of the other classes together has the weight :math:`(K - 1) \alpha` for K classes with words. The log odds ratio is
    the difference of two independent logits of beta variables, with exact quantiles: of the word in the class and
    elsewhere, and of all other words. The median of the difference is approximated by that of the medians, and the
    distance of an end from it by the root of the sum of the squared distances of both terms [3]_, which allows for
    skewness.

    The default prior moves a class of average size by about a tenth towards the background, and smaller classes
    further: for a word of one class only it is about :math:`0.1 f_w` occurrences in the others. With a much smaller
    weight, its probability there is nearly 0, and intervals of log-odds extend to very large values.

    References
    ----------
    .. [1] B. L. Monroe, M. P. Colaresi and K. M. Quinn, "Fightin' words: lexical feature selection and evaluation for
       identifying the content of political conflict", Political Analysis 16 (4), 372-403, 2008.
    .. [2] M. Grootendorst, "BERTopic: neural topic modeling with a class-based TF-IDF procedure", arXiv:2203.05794,
       2022.
    .. [3] G. Y. Zou and A. Donner, "Construction of confidence limits about effect measures: a general approach",
       Statistics in Medicine 27 (10), 1693-1702, 2008.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from skmanifold.inspection import class_words
    >>> texts = ["ball bat ball run", "run bat pitch", "orbit moon launch", "launch orbit fuel", "bat pitch ball"]
    >>> vectorizer = CountVectorizer()
    >>> counts = vectorizer.fit_transform(texts)
    >>> found = class_words([0, 0, 1, 1, 0], counts, vectorizer.get_feature_names_out(), n_words=2)
    >>> found.words
    [['ball', 'bat'], ['launch', 'orbit']]
    """
    if measure not in _MEASURES:
        raise ValueError(f'measure must be "log-odds", "c-tf-idf" or "lift"; got {measure!r}.')
    _check_whole(n_words, "n_words")
    check_level(level)
    if prior is not None and not (isinstance(prior, Real) and 0.0 < prior < np.inf):
        raise ValueError(f"prior must be a positive number of words, or None; got {prior!r}.")
    given, classes, weights = _checked_memberships(memberships)
    X = _checked_counts(counts, len(given))
    names = column_names(None, X.shape[1], feature_names)
    of_classes = _summed(weights, X)
    totals, frequency = of_classes.sum(axis=1), of_classes.sum(axis=0)
    total, n_used = totals.sum(), np.count_nonzero(totals)
    if not n_used:
        raise ValueError("counts has no words in the rows that belong to classes.")
    if measure == "log-odds" and (n_used < 2 or np.count_nonzero(frequency) < 2):
        raise ValueError('measure="log-odds" needs at least two classes with words and two words with counts.')
    weight = _PRIOR_SHARE * total / n_used if prior is None else float(prior)
    tails = np.array([[(1 - level) / 2], [0.5], [(1 + level) / 2]])
    found = []
    for of_class, size in zip(of_classes, totals, strict=True):
        columns = np.flatnonzero(of_class)
        n, f = of_class[columns], frequency[columns]
        pseudo = weight * f / total
        a = n + pseudo  # of the word in the class
        b = np.maximum(size + weight - a, _TINY)  # of other words in the class: 0 if there is only one word
        if measure == "log-odds":
            c = np.maximum(f - n, 0.0) + (n_used - 1) * pseudo  # the same for all other classes together
            d = np.maximum(total - size + (n_used - 1) * weight - c, _TINY)
            best = _largest_z(a, b, c, d, n_words)
            ends = _log_odds(a[best], b[best], c[best], d[best], tails)
        else:
            scale = total / f if measure == "lift" else np.log1p(total / n_used / f)
            best = _largest_low(a, b, scale, level, n_words)
            ends = scale[best] * betaincinv(a[best], b[best], tails)
        found.append((columns[best], ends))
    words = [names[columns].tolist() for columns, _ in found]
    low, values, high = ([ends[i] for _, ends in found] for i in range(3))
    sizes = np.asarray(weights.sum(axis=0), np.float64).ravel()
    return ClassWords(classes, words, values, low, high, sizes, measure, level, given, float(weight))


def _checked_counts(counts: Any, n_rows: int) -> Any:
    """Counts in CSR format."""
    X = canonical_csr(check_array(counts, accept_sparse="csr", dtype=np.float64, input_name="counts"))
    if X.nnz and X.data.min() < 0:
        raise ValueError(f"counts must not be negative; got {X.data.min():g}.")
    if X.shape[0] != n_rows:
        raise ValueError(f"memberships has {n_rows} rows, but counts has {X.shape[0]} rows.")
    return X


def _summed(weights: Any, X: Any) -> np.ndarray:
    """Counts of words in each class, (n_classes, n_features)."""
    summed = (X.T @ weights).T if isinstance(weights, np.ndarray) else (weights.T @ X).toarray()
    return np.ascontiguousarray(summed)


def _largest_low(a: np.ndarray, b: np.ndarray, scale: np.ndarray, level: float, n: int) -> np.ndarray:
    """Indices of the n largest lower ends of `scale` times variables with the distributions Beta(a, b), ties by index.

    Quantiles are only computed where an upper bound is large enough: with a <= b the median is at most the mean.
    """
    tail = (1 - level) / 2
    bound = scale * np.where(a <= b, a / (a + b), 1.0)
    first = np.argsort(-bound, kind="stable")[: n + _FIRST]
    lows = np.sort(scale[first] * betaincinv(a[first], b[first], tail))
    near = np.flatnonzero(bound >= lows[-n]) if n <= len(lows) else np.arange(len(a))
    return near[np.argsort(-scale[near] * betaincinv(a[near], b[near], tail), kind="stable")[:n]]


def _largest_z(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, n: int) -> np.ndarray:
    """Indices of the n largest z-scores of log odds ratios of Beta(a, b) and Beta(c, d), ties by index."""
    mean = digamma(a) - digamma(b) - digamma(c) + digamma(d)
    variance = polygamma(1, a) + polygamma(1, b) + polygamma(1, c) + polygamma(1, d)
    return np.argsort(-mean / np.sqrt(variance), kind="stable")[:n]


def _log_odds(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Lower end, median and upper end, (3, n), of log odds ratios of Beta(a, b) and Beta(c, d).

    They are differences of the logits of independent variables with the distributions Beta(a, c) and Beta(b, d).
    """
    (low, median, high), (other_low, other_median, other_high) = _logits(a, c, tails), _logits(b, d, tails)
    value = median - other_median
    below, above = np.hypot(median - low, other_high - other_median), np.hypot(high - median, other_median - other_low)
    return np.array([value - below, value, value + above])


def _logits(a: np.ndarray, b: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Logits of quantiles of Beta(a, b); the complement of a quantile is computed without loss of digits."""
    quantiles, complements = betaincinv(a, b, tails), betainccinv(b, a, tails)
    return np.log(np.maximum(quantiles, _TINY)) - np.log(np.maximum(complements, _TINY))


def _checked_memberships(memberships: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """The validated argument, the classes, and weights of shape (n_samples, n_classes): sparse for labels."""
    cells = np.asarray(readable(memberships, "memberships")) if not sp.issparse(memberships) else memberships
    if cells.dtype.kind in "OSU" and any(isinstance(cell, str) for cell in cells.ravel()):
        raise ValueError(
            "memberships has strings, but labels must be whole numbers: pass "
            "sklearn.preprocessing.LabelEncoder().fit_transform(labels)."
        )
    given = check_array(memberships, ensure_2d=False, input_name="memberships")
    if given.ndim == 2:
        given = given.astype(np.float64)
        if given.min() < 0:
            raise ValueError(f"memberships must not be negative; got {given.min():g}.")
        sums = given.sum(axis=1)
        wrong = np.flatnonzero((np.abs(sums - 1.0) > _SUM_TOLERANCE) & (sums != 0.0))
        if len(wrong):
            raise ValueError(
                "Rows of memberships must sum to 1, or to 0 for outliers; "
                f"row {wrong[0]} has the sum {sums[wrong[0]]:.6g}."
            )
        is_outlier, classes, weights = sums == 0.0, np.arange(given.shape[1]), given
    else:
        with np.errstate(invalid="ignore"):  # infinities are refused above, large numbers below
            labels = given.astype(np.int64)
        if (labels != given).any():
            odd = given[labels != given][0]
            raise ValueError(f"memberships with one dimension must be labels, which are whole numbers; got {odd}.")
        if labels.min() < -1:
            raise ValueError(f"Labels must be at least -1, which marks outliers; got {labels.min()}.")
        given, is_outlier = labels, labels == -1
        rows = np.flatnonzero(~is_outlier)
        classes, codes = np.unique(labels[rows], return_inverse=True)
        weights = sp.csr_array((np.ones(len(rows)), (rows, codes)), shape=(len(labels), len(classes)))
    if is_outlier.all():
        raise ValueError("All rows of memberships are outliers, so there are no classes.")
    return given, classes, weights


def _check_whole(n: Any, name: str) -> None:
    if not isinstance(n, Number):
        raise TypeError(f"{name} must be a whole number of at least 1; got a {type(n).__name__}.")
    if not isinstance(n, Integral) or n < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {n!r}.")
