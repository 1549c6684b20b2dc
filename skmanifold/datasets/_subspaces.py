"""Generator of data close to affine subspaces of different dimensions, with the true parameters."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from ..distributions import sample_truncated_gamma
from ..manifolds import Stiefel
from ..random._keys import Purpose, root_key
from ..utils._threads import limit_threads
from ..utils._typing import ArrayLike, Bunch, RandomStateLike
from ..utils._validation import check_array
from ._mixtures import _check_weights
from ._spherical import _generator
from ._synthetic import _check_number, _check_size


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
    _check_size("n_features", n_features)
    dimensions = _check_dimensions(dimensions, n_features)
    _check_number("noise_precision", noise_precision)
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


def _is_whole(value, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


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
        _check_size("n_samples", n_samples)
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
