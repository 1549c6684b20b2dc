"""One-to-one matching of topics and of subspaces, and distances between linear subspaces of any dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_non_negative

from ..topics.topic_word import TopicWord
from ..utils._inputs.column_order import in_column_order, table_names
from ..utils._threads import split_range
from ..utils._typing import ArrayLike
from ..utils._validation import check_array

_CHUNK_CELLS = 1 << 20  # dense entries in memory at a time


class TopicMatch(NamedTuple):
    """Pairs of matched topics, in the order of the reference.

    Parameters
    ----------
    reference : ndarray of shape (n_pairs,)
        Rows of the reference, ascending; all of them if the reference has at most as many topics as the other matrix.
    other : ndarray of shape (n_pairs,)
        The matched rows of the other matrix.
    similarity : ndarray of shape (n_pairs,)
        Similarities of the pairs.
    """

    reference: np.ndarray
    other: np.ndarray
    similarity: np.ndarray


def match_topics(
    reference: ArrayLike | TopicWord,
    other: ArrayLike | TopicWord,
    *,
    metric: Literal["cosine", "hellinger", "total_variation"] = "cosine",
) -> TopicMatch:
    r"""One-to-one matching of two sets of topics with the greatest sum of similarities.

    For rows p and q the similarity is one of

    .. math::
        \text{cosine} &= \frac{p \cdot q}{\|p\| \, \|q\|} \\
        \text{hellinger} &= 1 - \Bigl(1 - \sum_v \sqrt{p_v q_v}\Bigr)^{1/2} \\
        \text{total\_variation} &= 1 - \tfrac{1}{2} \sum_v |p_v - q_v|

    The last two are one minus the distance of that name, after division of each row by its sum. All three are 1 for
    equal topics and 0 for topics without a common word. The Hungarian method finds the pairs exactly.

    Parameters
    ----------
    reference, other : array-like of shape (n_topics, n_features) or TopicWord
        The topics. If their numbers differ, the number of pairs is the smaller one. Entries may be negative for the
        cosine only.
    metric : {"cosine", "hellinger", "total_variation"}, default="cosine"
        The similarity.

    Returns
    -------
    TopicMatch
        The pairs: ``other[match.other]`` is in the order of ``reference[match.reference]``.

    Raises
    ------
    ValueError
        If the numbers of words differ, a value is not finite, a row is zero, or a value is negative and the metric is
        not "cosine".

    Examples
    --------
    >>> from skmanifold.metrics import match_topics
    >>> match = match_topics([[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1], [2, 0, 0]])
    >>> match.other.tolist(), match.similarity.tolist()
    ([2, 0], [1.0, 1.0])
    """
    if metric not in ("cosine", "hellinger", "total_variation"):
        raise ValueError(f'metric must be "cosine", "hellinger" or "total_variation"; got {metric!r}.')
    other = in_column_order(other, table_names(reference), "other", of="reference")
    topics = _readable(reference, metric), _readable(other, metric)
    n_features, n_other = (of_matrix.n_features for of_matrix in topics)
    if n_other != n_features:
        raise ValueError(f"The reference has {n_features} words, but the other matrix has {n_other}.")
    similarity = _similarities(*topics, metric)
    rows, columns = linear_sum_assignment(similarity, maximize=True)
    return TopicMatch(rows, columns, similarity[rows, columns])


class _Topics(NamedTuple):
    """A matrix of topics, of which some columns at a time are made dense."""

    n_topics: int
    n_features: int
    words: Callable[[int, int], np.ndarray]


def _readable(topics, metric) -> _Topics:
    if isinstance(topics, TopicWord):
        return _Topics(topics.n_components, topics.n_features, topics.words)
    topics = check_array(topics, dtype=(np.float64, np.float32), input_name="topics")
    if metric != "cosine":
        check_non_negative(topics, f"match_topics with metric={metric!r}")
    if not np.all(topics.any(axis=1)):
        raise ValueError("Every topic must have a nonzero entry.")
    n_topics, n_features = topics.shape
    return _Topics(n_topics, n_features, lambda start, stop: topics[:, start:stop].astype(np.float64))


def _similarities(reference: _Topics, other: _Topics, metric: str) -> np.ndarray:
    """Similarities of all pairs, from blocks of words, so that sparse topics never become one dense array."""
    chunks = split_range(reference.n_features, max(1, _CHUNK_CELLS // max(reference.n_topics, other.n_topics)))
    scales = []
    for topics in (reference, other):
        sums = np.zeros(topics.n_topics)
        for chunk in chunks:
            block = topics.words(*chunk)
            sums += np.einsum("kv,kv->k", block, block) if metric == "cosine" else block.sum(axis=1)
        scales.append((np.sqrt(sums) if metric == "cosine" else sums)[:, np.newaxis])
    out = np.zeros((reference.n_topics, other.n_topics))
    for chunk in chunks:
        left, right = reference.words(*chunk) / scales[0], other.words(*chunk) / scales[1]
        if metric == "cosine":
            out += left @ right.T
        elif metric == "hellinger":
            out += np.sqrt(left) @ np.sqrt(right).T
        else:
            out += cdist(left, right, "cityblock")
    if metric == "hellinger":
        return 1 - np.sqrt(np.maximum(1 - out, 0))
    return 1 - out / 2 if metric == "total_variation" else out


_MAX_EXCESS = 1e-5  # largest error of an inner product, as of float32; bases within it are orthonormalised again


class SubspaceMatch(NamedTuple):
    """Pairs of matched subspaces, in the order of the reference.

    Parameters
    ----------
    reference : ndarray of shape (n_pairs,)
        Indices into the reference, ascending; all of them if it has at most as many subspaces as the other list.
    other : ndarray of shape (n_pairs,)
        Indices of the matched subspaces in the other list.
    distance : ndarray of shape (n_pairs,)
        Distances of the pairs.
    """

    reference: np.ndarray
    other: np.ndarray
    distance: np.ndarray


def principal_angles(A: ArrayLike, B: ArrayLike) -> np.ndarray:
    """Principal angles between two subspaces of any dimensions.

    Sines and cosines are computed by two singular value decompositions, and each angle from both [1]_, with errors of
    the order of 1e-16 also near 0 and a right angle. The cost is O(n_features d^2).

    Parameters
    ----------
    A, B : array-like of shapes (d1, n_features) and (d2, n_features)
        Bases with orthonormal rows, such as ``components_`` of :class:`~sklearn.decomposition.PCA`. A basis without
        rows spans the subspace of dimension 0.

    Returns
    -------
    angles : ndarray of shape (min(d1, d2),)
        In radians, from 0 to pi / 2, ascending.

    Raises
    ------
    ValueError
        If a basis is not two-dimensional, not finite or not orthonormal, or the numbers of features differ.

    See Also
    --------
    subspace_distance : Distance computed from the angles and the two dimensions.

    References
    ----------
    .. [1] Björck, Å. and Golub, G. (1973). Numerical methods for computing angles between linear subspaces. Mathematics
       of Computation 27.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold.metrics import principal_angles
    >>> plane, line = [[1, 0, 0], [0, 1, 0]], [[0, 0.6, 0.8]]
    >>> np.rad2deg(principal_angles(plane, line)).round(2).tolist()
    [53.13]
    """
    return _angles(*_check_bases([A, B]))


def subspace_distance(A: ArrayLike, B: ArrayLike, *, metric: Literal["projection", "geodesic"] = "projection") -> float:
    r"""Distance between two subspaces of any dimensions.

    Let :math:`\theta_i` be the principal angles, :math:`d_1` and :math:`d_2` the dimensions, and P and Q the
    projections onto the subspaces. The two distances are

    .. math::
        \text{projection} &= \tfrac{1}{\sqrt 2} \|P - Q\|_F
            = \Bigl(\tfrac{1}{2} |d_1 - d_2| + \sum_i \sin^2 \theta_i\Bigr)^{1/2} \\
        \text{geodesic} &= \Bigl(\tfrac{\pi^2}{4} |d_1 - d_2| + \sum_i \theta_i^2\Bigr)^{1/2}

    Both are metrics on subspaces of all dimensions. Between subspaces of the same dimension the second is the length of
    the shortest path in the Grassmannian [1]_. The subspace with the largest distance is the orthogonal complement.
    The implementation forms no projection matrices and is accurate for nearly equal subspaces.

    Parameters
    ----------
    A, B : array-like of shapes (d1, n_features) and (d2, n_features)
        Bases with orthonormal rows. A basis without rows spans the subspace of dimension 0.
    metric : {"projection", "geodesic"}, default="projection"
        The distance.

    Returns
    -------
    float
        The distance, which depends only on the subspaces and not on their bases.

    Raises
    ------
    ValueError
        If a basis is not two-dimensional, not finite or not orthonormal, or the numbers of features differ.

    See Also
    --------
    pairwise_subspace_distances : All pairs of two lists.
    skmanifold.manifolds.projection_distance : The projection distance between projection matrices.

    References
    ----------
    .. [1] Ye, K. and Lim, L.-H. (2016). Schubert varieties and distances between subspaces of different dimensions.
       SIAM Journal on Matrix Analysis and Applications 37.

    Examples
    --------
    >>> from skmanifold.metrics import subspace_distance
    >>> plane, line = [[1, 0, 0], [0, 1, 0]], [[0, 0.6, 0.8]]
    >>> round(subspace_distance(plane, line) ** 2, 12)  # half a dimension, and the sine 0.8 squared
    1.14
    """
    _check_metric(metric)
    first, second = _check_bases([A, B])
    return _distance(first, second, metric)


def pairwise_subspace_distances(
    bases: Sequence[ArrayLike],
    other: Sequence[ArrayLike] | None = None,
    *,
    metric: Literal["projection", "geodesic"] = "projection",
) -> np.ndarray:
    """Distances between all pairs of subspaces.

    Parameters
    ----------
    bases : sequence of array-like of shape (d, n_features)
        Bases with orthonormal rows; d may differ.
    other : sequence of array-like of shape (d, n_features), default=None
        Further bases; None compares `bases` with themselves.
    metric : {"projection", "geodesic"}, default="projection"
        The distance, as in :func:`subspace_distance`.

    Returns
    -------
    distances : ndarray of shape (len(bases), len(other))
        Entry (i, j) is the distance from ``bases[i]`` to ``other[j]``. Without `other` it is symmetric, with zeros on
        the diagonal.

    Raises
    ------
    ValueError
        If a basis is not two-dimensional, not finite or not orthonormal, or the numbers of features differ.

    Examples
    --------
    >>> from skmanifold.metrics import pairwise_subspace_distances
    >>> bases = [[[1, 0, 0]], [[0, 1, 0]], [[1, 0, 0], [0, 1, 0]]]
    >>> pairwise_subspace_distances(bases).round(3).tolist()
    [[0.0, 1.0, 0.707], [1.0, 0.0, 0.707], [0.707, 0.707, 0.0]]
    """
    _check_metric(metric)
    n_rows = len(bases)
    checked = _check_bases([*bases, *(() if other is None else other)])
    left, right = checked[:n_rows], checked[n_rows:]
    if other is not None:
        return np.array([[_distance(A, B, metric) for B in right] for A in left]).reshape(n_rows, len(right))
    distances = np.zeros((n_rows, n_rows))
    for i, j in zip(*np.triu_indices(n_rows, 1), strict=True):
        distances[i, j] = distances[j, i] = _distance(left[i], left[j], metric)
    return distances


def match_subspaces(
    reference: Sequence[ArrayLike],
    other: Sequence[ArrayLike],
    *,
    metric: Literal["projection", "geodesic"] = "projection",
) -> SubspaceMatch:
    """One-to-one matching of two lists of subspaces with the smallest sum of distances.

    The Hungarian method finds the pairs exactly.

    Parameters
    ----------
    reference, other : sequences of array-like of shape (d, n_features)
        Bases with orthonormal rows; d may differ. If the lengths of the lists differ, the number of pairs is the
        smaller one.
    metric : {"projection", "geodesic"}, default="projection"
        The distance, as in :func:`subspace_distance`.

    Returns
    -------
    SubspaceMatch
        The pairs: ``[other[i] for i in match.other]`` is in the order of the matched subspaces of `reference`.

    Raises
    ------
    ValueError
        If a basis is not two-dimensional, not finite or not orthonormal, or the numbers of features differ.

    Examples
    --------
    >>> from skmanifold.metrics import match_subspaces
    >>> line, plane = [[0, 0.6, 0.8]], [[1, 0, 0], [0, 1, 0]]
    >>> match = match_subspaces([line, plane], [plane, [[0, 0.8, 0.6]]])
    >>> match.other.tolist(), match.distance.round(3).tolist()
    ([1, 0], [0.28, 0.0])
    """
    distances = pairwise_subspace_distances(reference, other, metric=metric)
    rows, columns = linear_sum_assignment(distances)
    return SubspaceMatch(rows, columns, distances[rows, columns])


def _check_metric(metric):
    if metric not in ("projection", "geodesic"):
        raise ValueError(f'metric must be "projection" or "geodesic"; got {metric!r}.')


def _check_bases(bases):
    """The bases as float64, orthonormalised again."""
    checked: list[np.ndarray] = []
    for basis in bases:
        basis = check_array(basis, dtype=np.float64, ensure_min_samples=0, input_name="basis")
        excess = np.abs(basis @ basis.T - np.eye(len(basis))).max(initial=0.0)
        if excess > _MAX_EXCESS:
            raise ValueError(f"The rows of a basis must be orthonormal; the largest deviation is {excess:.3g}.")
        if checked and basis.shape[1] != checked[0].shape[1]:
            raise ValueError(f"One basis has {checked[0].shape[1]} features, another {basis.shape[1]}.")
        checked.append(np.linalg.qr(basis.T)[0].T)
    return checked


def _angles(A, B):
    """Angles of checked bases.

    `scipy.linalg.subspace_angles` chooses sine or cosine of an angle by another one: if that is above 45 degrees, it
    returns 0 for 1e-10.
    """
    small, large = (A, B) if len(A) < len(B) else (B, A)
    cross = small @ large.T
    cosines = np.linalg.svd(cross, compute_uv=False)
    sines = np.linalg.svd(small - cross @ large, compute_uv=False)
    return np.arctan2(sines[::-1], cosines)  # descending cosines correspond to ascending sines


def _distance(A, B, metric):
    angles = _angles(A, B)
    gap = abs(len(A) - len(B))
    if metric == "geodesic":
        return float(np.sqrt(np.pi**2 / 4 * gap + np.sum(angles**2)))
    return float(np.sqrt(gap / 2 + np.sum(np.sin(angles) ** 2)))
