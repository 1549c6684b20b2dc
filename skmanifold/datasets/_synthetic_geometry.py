"""Generators of directions and of rows near affine subspaces, with the true parameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..distributions import VonMisesFisher, sample_truncated_gamma
from ..distributions._von_mises_fisher import draw_about
from ..manifolds import Stiefel
from ..random._keys import Purpose, root_key, subkey
from ..utils._threads import limit_threads, split_range
from ..utils._typing import ArrayLike, Bunch, RandomStateLike
from ..utils._validation import check_array
from ._synthetic import _check_doc_topic_prior, _check_numbers, _check_sizes, _check_weights, _draw_dirichlet, _is_whole

_CELLS_PER_BLOCK = 2**17  # entries of documents drawn at a time; another value would give another corpus


class _SphericalCorpus(Bunch):
    data: np.ndarray | sp.csr_array
    components: np.ndarray
    proportions: np.ndarray
    topic_mean: np.ndarray
    mean_direction: np.ndarray
    document_concentration: float
    topic_concentration: float
    mean_concentration: float


def make_spherical_admixture(
    n_samples: int = 500,
    n_features: int = 100,
    n_components: int = 5,
    *,
    doc_topic_prior: ArrayLike = 0.5,
    document_concentration: float | None = None,
    topic_concentration: float | None = None,
    mean_concentration: float | None = None,
    n_words: int | None = None,
    random_state: RandomStateLike = None,
) -> _SphericalCorpus:
    r"""Draw documents that are directions from the spherical admixture model.

    Topics and documents are unit vectors with entries of both signs [1]_:

    .. math:: \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad
        v_d \sim \mathrm{vMF}\left(\frac{\beta \theta_d}{|\beta \theta_d|}, \kappa_1\right),

    where all entries of m are :math:`V^{-1/2}`. (The angles between these vectors do not depend on m.)

    The time is proportional to ``n_samples * n_features``, as is the memory of dense documents. The memory of sparse
    documents is proportional to ``n_samples * n_words``.

    Parameters
    ----------
    n_samples : int, default=500
        Number of documents. A larger number appends documents and does not change the first ones.
    n_features : int, default=100
        Number of words in the vocabulary, V; at least 2.
    n_components : int, default=5
        Number of topics, K.
    doc_topic_prior : float or array-like of shape (n_components,), default=0.5
        Dirichlet parameter alpha of the proportions of a document: one number for all topics or one for each.
    document_concentration, topic_concentration, mean_concentration : float, default=None
        Concentrations :math:`\kappa_1` of documents, :math:`\sigma` of topics and :math:`\kappa_0` of :math:`\mu`; 0 is
        the uniform distribution. None is `n_features`, with which the expected cosine with the mean direction is 0.6 to
        0.7 for any number of features.
    n_words : int, default=None
        Number of entries to keep in each document, those of largest absolute value. Rows are normalised again, and the
        documents are a sparse array. They are then as sparse as tf-idf, but **not draws from the model**: a truncated
        row is farther from its mean direction than :math:`\kappa_1` implies, and von Mises-Fisher draws have no zeros.
        Use it for benchmarks of speed and memory, or to test estimators on a misspecified model. None keeps all.
    random_state : int, RandomState instance or None, default=None
        Seed. An int gives the same corpus in every call with the same release of numpy.

    Returns
    -------
    corpus : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with the attributes

        data : ndarray of shape (n_samples, n_features), or csr_array if `n_words` is given
            The documents; rows have unit length.
        components : ndarray of shape (n_components, n_features)
            The true topics :math:`\beta_k`; rows have unit length.
        proportions : ndarray of shape (n_samples, n_components)
            The true proportions :math:`\theta_d`; rows sum to 1.
        topic_mean : ndarray of shape (n_features,)
            The mean direction :math:`\mu` of the topics.
        mean_direction : ndarray of shape (n_features,)
            The direction m.
        document_concentration, topic_concentration, mean_concentration : float
            The concentrations.

    Raises
    ------
    ValueError
        If a parameter has the wrong type or is out of its range.

    See Also
    --------
    skmanifold.SphericalAdmixture : Estimates the topics.
    make_lda_corpus : Counts of words, which :class:`~sklearn.feature_extraction.text.TfidfTransformer` converts to
        sparse directions without negative entries.

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney (2010), "Spherical topic models", ICML.

    Examples
    --------
    >>> from skmanifold.datasets import make_spherical_admixture
    >>> corpus = make_spherical_admixture(n_samples=200, n_features=50, n_components=3, random_state=0)
    >>> corpus.data.shape, corpus.components.shape, corpus.proportions.shape
    ((200, 50), (3, 50), (200, 3))
    """
    n_samples, n_features, n_components = _check_sizes(
        n_samples=n_samples, n_features=n_features, n_components=n_components
    )
    if n_features < 2:
        raise ValueError("n_features must be at least 2, because directions need two features.")
    alpha = _check_doc_topic_prior(doc_topic_prior, n_components)
    given = {
        "document_concentration": document_concentration,
        "topic_concentration": topic_concentration,
        "mean_concentration": mean_concentration,
    }
    _check_numbers(**{name: value for name, value in given.items() if value is not None})
    concentrations = {name: float(n_features if value is None else value) for name, value in given.items()}
    of_document, of_topic, of_mean = concentrations.values()
    if n_words is not None and not (_is_whole(n_words, 1) and int(n_words) <= n_features):
        raise ValueError(f"n_words must be None or an int from 1 to n_features={n_features}; got {n_words!r}.")
    key = root_key(random_state)

    rng = _generator(key, Purpose.COMPONENTS)
    mean_direction = np.full(n_features, n_features**-0.5)
    topic_mean = VonMisesFisher(mean_direction, of_mean).sample(random_state=rng)
    components = VonMisesFisher(topic_mean, of_topic).sample(n_components, random_state=rng)

    proportions = np.empty((n_samples, n_components))
    n_kept = n_features if n_words is None else n_words
    values = np.empty((n_samples, n_kept))
    columns = None if n_words is None else np.empty((n_samples, n_kept), np.int32)
    size = max(1, _CELLS_PER_BLOCK // max(n_features, n_components))
    with limit_threads("blas"):  # rounding depends on the number of threads
        for block, (first, stop) in enumerate(split_range(n_samples, size)):
            rng = _generator(key, Purpose.DRAW, block)
            theta = _draw_dirichlet(rng, alpha, size)  # the last block is complete too, so that prefixes agree
            documents = draw_about(theta @ components, of_document, rng)[: stop - first]
            if columns is not None:
                largest = np.argpartition(np.abs(documents), -n_kept, axis=1)[:, -n_kept:]
                columns[first:stop] = np.sort(largest, axis=1)
                documents = np.take_along_axis(documents, columns[first:stop], axis=1)
                documents /= np.linalg.norm(documents, axis=1, keepdims=True)
            values[first:stop], proportions[first:stop] = documents, theta[: stop - first]

    data: np.ndarray | sp.csr_array = values
    if columns is not None:
        kind = np.int32 if columns.size < 2**31 else np.int64
        starts = n_kept * np.arange(n_samples + 1, dtype=kind)
        data = sp.csr_array((values.ravel(), columns.ravel().astype(kind, copy=False), starts), (n_samples, n_features))
    return _SphericalCorpus(
        data=data,
        components=components,
        proportions=proportions,
        topic_mean=topic_mean,
        mean_direction=mean_direction,
        **concentrations,
    )


def _generator(key, *names) -> np.random.Generator:
    return np.random.default_rng(int(subkey(key, *names)))


class SubspaceData(Bunch):
    """The result of :func:`make_subspaces`: rows, their components, and the true parameters.

    It is a dictionary whose entries are also attributes. :func:`make_subspaces` describes them.

    Parameters
    ----------
    **kwargs
        The entries.
    """

    data: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    bases: list[np.ndarray]
    offsets: np.ndarray
    centres: np.ndarray
    precisions: list[np.ndarray]
    noise_variance: float

    def log_densities(self, X: ArrayLike) -> np.ndarray:
        """Log of the weight of each component times its density, with the true parameters.

        The component with the largest value is the Bayes classifier of a row. Its expected accuracy is an upper bound
        for all clusterings and classifiers. The log of the sum is the true log density of the row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_densities : ndarray of shape (n_samples, n_components)
            The logarithms; -inf for components of weight zero.

        Raises
        ------
        ValueError
            If `X` is not two-dimensional, not finite, or has another number of features.

        Examples
        --------
        >>> from skmanifold.datasets import make_subspaces
        >>> mixture = make_subspaces(n_samples=500, n_features=5, random_state=0)
        >>> guesses = mixture.log_densities(mixture.data).argmax(axis=1)
        >>> round(float((guesses == mixture.labels).mean()), 2)
        0.99
        """
        rows = check_array(X, dtype=np.float64, input_name="X")
        n_features = self.centres.shape[1]
        if rows.shape[1] != n_features:
            raise ValueError(f"X has {rows.shape[1]} features, but the subspaces have {n_features}.")
        with np.errstate(divide="ignore"):
            out = np.tile(np.log(self.weights), (len(rows), 1))
        out -= n_features / 2 * np.log(2 * np.pi)
        with limit_threads("blas"):  # rounding depends on the number of threads
            for k, (basis, precisions) in enumerate(zip(self.bases, self.precisions, strict=True)):
                residuals = rows - self.centres[k]
                scores = residuals @ basis.T
                residuals -= scores @ basis
                out[:, k] += (np.log(precisions).sum() - scores**2 @ precisions) / 2
                out[:, k] -= (n_features - len(basis)) / 2 * np.log(self.noise_variance)
                out[:, k] -= np.einsum("ij,ij->i", residuals, residuals) / (2 * self.noise_variance)
        return out


def make_subspaces(
    n_samples: int | Sequence[int] = 1000,
    n_features: int = 3,
    dimensions: Sequence[int] = (1, 2),
    *,
    noise_precision: float = 10.0,
    weights: ArrayLike | None = None,
    shuffle: bool = True,
    random_state: RandomStateLike = None,
) -> SubspaceData:
    r"""Draw rows from a mixture of normal distributions close to affine subspaces of different dimensions.

    The orthonormal rows of :math:`U_k` are a random basis, uniformly distributed, of a subspace of dimension
    :math:`d_k`, which is shifted by the orthogonal offset :math:`\theta_k`. Component k has its centre at :math:`\mu_k`
    within the subspace, the variances :math:`1 / J_{kj}` along the basis, and the variance of the noise,
    :math:`1 / \nu`, in all orthogonal directions [1]_:

    .. math::
        \mu_k &\sim N(0, I), \quad \theta_k = (I - U_k^\top U_k) g_k, \quad g_k \sim N(0, I), \\
        J_{kj} &\sim \mathrm{Ga}(1, 1) \text{ given that } J_{kj} < \nu, \\
        x_i &= U_{z_i}^\top (\mu_{z_i} + s_i) + \theta_{z_i} + (I - U_{z_i}^\top U_{z_i}) \epsilon_i, \quad
        s_{ij} \sim N(0, 1 / J_{z_i j}), \quad \epsilon_i \sim N(0, I / \nu).

    No variance along a subspace is less than that of the noise. With a high `noise_precision` the components are flat;
    with a lower one they are closer to spherical and overlap more.

    Parameters
    ----------
    n_samples : int or sequence of int, default=1000
        Number of rows, whose components are drawn with probabilities `weights`; or a sequence with the number of rows
        of each component. The components do not depend on it.
    n_features : int, default=3
        Number of columns, m.
    dimensions : sequence of int, default=(1, 2)
        Dimension of the subspace of each component, from 0 (a spherical component) to `n_features`.
    noise_precision : float, default=10.0
        Precision :math:`\nu`, the inverse of the variance orthogonal to the subspaces.
    weights : array-like of shape (n_components,), default=None
        Proportions of the components: non-negative numbers, which are divided by their sum. None makes them equal. If
        `n_samples` is a sequence, they are proportional to it and must be None.
    shuffle : bool, default=True
        Whether rows are in random order. Otherwise they are sorted by component; the rows are the same.
    random_state : int, RandomState instance or None, default=None
        Seed. An int gives the same data in every call with the same release of numpy.

    Returns
    -------
    mixture : SubspaceData
        A :class:`~sklearn.utils.Bunch` with the method ``log_densities(X)`` and the attributes

        data : ndarray of shape (n_samples, n_features)
            The rows.
        labels : ndarray of shape (n_samples,), int64
            The component of each row.
        weights : ndarray of shape (n_components,)
            The proportions of the components; they sum to 1.
        bases : list of ndarray of shape (d_k, n_features)
            :math:`U_k`, with orthonormal rows.
        offsets : ndarray of shape (n_components, n_features)
            :math:`\theta_k`, the point of each affine subspace closest to the origin.
        centres : ndarray of shape (n_components, n_features)
            The means :math:`U_k^\top \mu_k + \theta_k`.
        precisions : list of ndarray of shape (d_k,)
            :math:`J_k`, the inverses of the variances along the rows of each basis.
        noise_variance : float
            The variance in all orthogonal directions, :math:`1 / \nu`.

    Raises
    ------
    ValueError
        If a parameter has the wrong type or is out of its range.

    See Also
    --------
    skmanifold.metrics.match_subspaces : Compares estimated subspaces with ``bases``.

    References
    ----------
    .. [1] St. Thomas, B., Lin, L., Lim, L.-H. and Mukherjee, S. (2014). Learning subspaces of different dimensions.
       arXiv preprint. The distributions of offsets and precisions are specified here.

    Examples
    --------
    A line and a plane:

    >>> from skmanifold.datasets import make_subspaces
    >>> mixture = make_subspaces(n_samples=500, random_state=0)
    >>> mixture.data.shape, [basis.shape for basis in mixture.bases]
    ((500, 3), [(1, 3), (2, 3)])
    """
    _check_sizes(n_features=n_features)
    dimensions = _check_dimensions(dimensions, n_features)
    _check_numbers(0, noise_precision=noise_precision)
    if not isinstance(shuffle, bool | np.bool_):
        raise ValueError(f"shuffle must be True or False; got {shuffle!r}.")
    n_components = len(dimensions)
    counts = _check_counts(n_samples, weights, n_components)
    weights = _check_weights(counts if weights is None else weights, n_components)
    key = root_key(random_state)
    if counts is None:
        labels = np.sort(_generator(key, Purpose.LABELS).choice(n_components, size=n_samples, p=weights))
    else:
        labels = np.repeat(np.arange(n_components), counts)

    bases, precisions = [], []
    offsets, centres = np.empty((n_components, n_features)), np.empty((n_components, n_features))
    data = np.empty((len(labels), n_features))
    ends = np.searchsorted(labels, np.arange(n_components + 1))
    with limit_threads("blas"):  # rounding depends on the number of threads
        for k, d in enumerate(dimensions):
            rng = _generator(key, Purpose.COMPONENTS, k)
            basis = Stiefel(n_features, d).random_point(rng).T if d else np.empty((0, n_features))
            g = rng.standard_normal(n_features)
            offsets[k] = g - g @ basis.T @ basis
            centres[k] = rng.standard_normal(d) @ basis + offsets[k]
            bases.append(np.ascontiguousarray(basis))
            precisions.append(sample_truncated_gamma(1.0, upper=noise_precision, size=d, random_state=rng))

            rows = data[ends[k] : ends[k + 1]]
            _generator(key, Purpose.DRAW, k).standard_normal(out=rows)
            scores = rows @ basis.T  # independent of the orthogonal part, so only these are scaled
            rows *= noise_precision**-0.5
            rows += scores * (precisions[k] ** -0.5 - noise_precision**-0.5) @ basis
            rows += centres[k]
    if shuffle:
        order = _generator(key, Purpose.ORDER).permutation(len(labels))
        data, labels = data[order], labels[order]
    return SubspaceData(
        data=data,
        labels=labels,
        weights=weights,
        bases=bases,
        offsets=offsets,
        centres=centres,
        precisions=precisions,
        noise_variance=1.0 / noise_precision,
    )


def _check_dimensions(dimensions, n_features: int) -> list[int]:
    entries = list(dimensions) if np.ndim(dimensions) == 1 else []
    if not entries or not all(_is_whole(d, 0) and d <= n_features for d in entries):
        raise ValueError(
            f"dimensions must be a sequence of ints from 0 to n_features={n_features}, one per component; got "
            f"{dimensions!r}."
        )
    return [int(d) for d in entries]


def _check_counts(n_samples, weights, n_components: int) -> np.ndarray | None:
    """Number of rows of each component; None if it is random."""
    if np.ndim(n_samples) == 0:
        _check_sizes(n_samples=n_samples)
        return None
    entries = list(n_samples)
    if len(entries) != n_components or not all(_is_whole(n, 1) for n in entries):
        raise ValueError(
            f"n_samples must be an int of at least 1 or a sequence of {n_components} of them (one per component); got "
            f"{n_samples!r}."
        )
    if weights is not None:
        raise ValueError("weights must be None if n_samples is a sequence of the numbers of rows of each component.")
    return np.array(entries, dtype=np.int64)
