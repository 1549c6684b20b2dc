"""Frames, principal axes of rows, and subspaces near these: principal axes tilted by t-distributed amounts."""

import math

import numpy as np

from ...numerics.block_sums import dot
from ...numerics.special import copy_to
from ...random._keys import fold_in
from ...random._variates import gamma_variate, normal
from ...utils._njit import njit

MOST_AXES = 512  # with more rows and more features, only leading axes are computed
N_LEADING = np.int64(32)
_N_POWERS = 4
_SCALE = np.int64(2)
_SINGULAR = -230.0  # log determinant of cosines between subspaces, one of which may be orthogonal to the other
# Sum of squared tilts, and the largest, up to which all are nearly normal, and their degrees of freedom
_CLEAR_SUM, _CLEAR, _CLEAR_DOF = 0.2, 0.03, 30.0

# Frames


@njit(cache=True, nogil=True)
def orthonormalise(frame, first):
    """Orthonormalise the rows of `frame` from `first` on (Gram-Schmidt, each projection twice against rounding)."""
    for j in range(first, len(frame)):
        for _ in range(2):
            for i in range(j):
                inner = dot(frame[i], frame[j])
                for a in range(frame.shape[1]):
                    frame[j, a] -= inner * frame[i, a]
        length = math.sqrt(dot(frame[j], frame[j]))
        for a in range(frame.shape[1]):
            frame[j, a] /= length


@njit(cache=True, nogil=True)
def resize_rows(rows, n):
    """Copy the rows to a new array of shape (n, m); additional rows are not initialised."""
    out = np.empty((n, rows.shape[1]))
    copy_to(out, rows)
    return out


@njit(cache=True, nogil=True)
def complete_frame(basis, size, key):
    """Complete `basis` to (size, m) orthonormal rows by directions uniform in its orthogonal complement."""
    d, m = basis.shape
    frame = resize_rows(basis, size)
    for j in range(d, size):
        child = fold_in(key, j)
        for a in range(m):
            frame[j, a] = normal(child, a)
    orthonormalise(frame, d)
    return frame


@njit(cache=True, nogil=True)
def scatter_along(Y, direction):
    """Scatter of the rows along a unit vector, |Y u|^2."""
    along = np.dot(Y, direction)
    return np.dot(along, along)


# Principal axes


@njit(cache=True, nogil=True)
def spectrum(Y, basis):
    """Positive eigenvalues, decreasing, and eigenvectors (as rows) of the scatter of Y orthogonal to the basis.

    Of many wide rows only the leading ones. Also returns the mean of the eigenvalues without a vector.
    """
    left = Y - np.dot(np.dot(Y, basis.T), basis)
    if min(left.shape) > MOST_AXES:
        values, axes, squares = leading_axes(left, N_LEADING)
        return values, axes, max(squares - values.sum(), 0.0) / max(left.shape[1] - len(basis) - len(values), 1)
    few = len(left) <= left.shape[1]
    ascending, vectors = np.linalg.eigh(np.dot(left, left.T) if few else np.dot(left.T, left))
    size, n = len(ascending), 0
    least = 1e-12 * max(ascending[size - 1], 0.0)
    while n < size and ascending[size - 1 - n] > least:
        n += 1
    values, axes = ascending[::-1][:n].copy(), vectors.T[::-1][:n].copy()
    if few:  # unit eigenvectors of the large matrix from those of the small one
        axes = np.dot(axes, left) / np.sqrt(values).reshape((n, 1))
    return values, axes, 0.0


@njit(cache=True, nogil=True)
def _orthonormal_columns(rows):
    return np.ascontiguousarray(np.linalg.qr(np.ascontiguousarray(rows.T))[0])


@njit(cache=True, nogil=True)
def leading_axes(Y, n_axes):
    """Approximate leading eigenvalues, decreasing, and eigenvectors (as rows) of Y'Y, and its trace.

    Power iterations of a block need no matrix of features by features. The block is the same in every call.
    """
    m, squares = Y.shape[1], 0.0
    axes = np.empty((n_axes, m))
    for j in range(n_axes):
        for a in range(m):
            axes[j, a] = normal(np.uint64(j), a)
    for row in Y:
        squares += dot(row, row)
    for _ in range(_N_POWERS):
        axes = np.dot(np.dot(Y, _orthonormal_columns(axes)).T, Y)
    columns = _orthonormal_columns(axes)
    along = np.dot(Y, columns)
    ascending, vectors = np.linalg.eigh(np.dot(along.T, along))
    return np.maximum(ascending[::-1], 0.0), np.dot(vectors.T[::-1].copy(), columns.T), squares


@njit(cache=True, nogil=True)
def with_axes(values, axes, rest, basis, least):
    """Scatters, decreasing, at least so many axes, and the mean of the others, of a `spectrum` orthogonal to a basis.

    Axes without scatter are arbitrary, but the same in every call.
    """
    b, m = basis.shape
    size = min(len(values), m - b)
    if size >= least:
        return values[:size], axes[:size], rest
    both, scatters = resize_rows(basis, b + size), np.full(least, rest)
    copy_to(both[b:], axes[:size])
    copy_to(scatters, values[:size])
    return scatters, complete_frame(both, b + least, np.uint64(0))[b:].copy(), rest


# Tilted axes


@njit(cache=True, nogil=True)
def log_t(square, log_det, size, dof):
    """Log density of the multivariate t distribution, with the quadratic form and the log determinant of precisions."""
    level = math.lgamma(0.5 * (dof + size)) - math.lgamma(0.5 * dof) - 0.5 * size * math.log(dof * math.pi)
    return level + 0.5 * log_det - 0.5 * (dof + size) * math.log1p(square / dof)


@njit(cache=True, nogil=True)
def _bound(gaps, n_last):
    """Solve 1 / b + sum_j 1 / (b + gaps_j) = 1 for b >= 1, where the last of the gaps counts so many times."""
    low, high = 1.0, float(len(gaps) + n_last)
    for _ in range(60):
        b = 0.5 * (low + high)
        total = 1.0 / b
        for j in range(len(gaps)):
            total += (n_last if j == len(gaps) - 1 else 1.0) / (b + gaps[j])
        if total > 1.0:
            low = b
        else:
            high = b
    return high


@njit(cache=True, nogil=True)
def tilt_precisions(first, others, n_last, n, noise, is_outside):
    """Precisions of the tilts of the axis with scatter `first` to axes with scatters `others`; and degrees of freedom.

    Given its likeliest ratio the direction is Bingham; the others are directions of the same subspace, or outside of
    it. If it hardly varies, tilts are nearly normal. Otherwise it is angular central Gaussian, with the smallest bound
    of the ratio of densities (Kent, Ganeiber and Mardia, 2018), so that tilts are t-distributed with one degree of
    freedom. The last of the others stands for so many axes.
    """
    gaps, spread, largest = np.empty(len(others)), 0.0, 0.0
    ratio = min(1.0, n / (noise * max(first, 1e-300)))
    for j in range(len(others)):
        other = 1.0 if is_outside else min(1.0, n / (noise * max(others[j], 1e-300)))
        gaps[j] = noise * max(other - ratio, 0.0) * max(first - others[j], 0.0)
        number = n_last if j == len(others) - 1 else 1
        spread += number / (1.0 + gaps[j])
        largest = max(largest, min(number, 1) / (1.0 + gaps[j]))
    if spread < _CLEAR_SUM and largest < _CLEAR:
        return 1.0 + gaps, _CLEAR_DOF
    return 1.0 + gaps / _bound(gaps, n_last), 1.0


@njit(cache=True, nogil=True)
def tilt_scale(dof, key):
    """The factor that makes normal tilts t-distributed."""
    return math.sqrt(0.5 * dof / max(gamma_variate(fold_in(key, _SCALE), 0.5 * dof), 1e-300))


@njit(cache=True, nogil=True)
def _others(scatters, rest, d):
    """Scatters of the axes from d on, and the mean of those along all that are orthogonal to the axes."""
    out = np.full(len(scatters) - d + 1, rest)
    copy_to(out, scatters[d:])
    return out


@njit(cache=True, nogil=True)
def draw_span(scatters, axes, rest, d, n, noise, ambient, key):
    """Orthonormal basis, (d, m), of a subspace near the first d principal axes: each is tilted to all others.

    The axes are principal in a subspace of `ambient` dimensions.
    """
    size, m = axes.shape
    n_rest = ambient - size
    span, z, others = axes[:d].copy(), np.empty(m), _others(scatters, rest, d)
    for i in range(d):
        child = fold_in(key, i)
        precisions, dof = tilt_precisions(scatters[i], others, n_rest, n, noise, True)
        scale = tilt_scale(dof, child)
        for a in range(m):
            z[a] = normal(child, a)
        of_rest = scale / math.sqrt(precisions[size - d])
        for a in range(m):
            span[i, a] += of_rest * z[a]
        for j in range(size):
            along = dot(axes[j], z)
            step = scale * along / math.sqrt(precisions[j - d]) if j >= d else 0.0
            for a in range(m):
                span[i, a] += (step - of_rest * along) * axes[j, a]
    orthonormalise(span, 0)
    return span


@njit(cache=True, nogil=True)
def log_span(span, scatters, axes, rest, n, noise, m):
    """Log density of `draw_span` relative to the uniform distribution of subspaces of m dimensions.

    The tilts B, (d, m - d), of a uniform subspace have a density proportional to |I + B B'|^(-m / 2).
    """
    d, size = len(span), len(axes)
    q, n_rest, others = m - d, m - size, _others(scatters, rest, d)
    within, towards = np.dot(span, axes[:d].T), np.dot(span, axes[d:].T)
    left = span - np.dot(within, axes[:d]) - np.dot(towards, axes[d:])
    if np.linalg.slogdet(within)[1] < _SINGULAR:
        for i in range(d):
            within[i, i] += 1e-12
    tilts, rests = np.linalg.solve(within, towards), np.linalg.solve(within, left)
    level = 0.5 * q * d * math.log(math.pi) - m * np.linalg.slogdet(within)[1]
    for i in range(d):
        level += math.lgamma(0.5 * (i + 1)) - math.lgamma(0.5 * (q + i + 1))
        precisions, dof = tilt_precisions(scatters[i], others, n_rest, n, noise, True)
        square = precisions[size - d] * dot(rests[i], rests[i])
        log_det = n_rest * math.log(precisions[size - d])
        for j in range(size - d):
            square += precisions[j] * tilts[i, j] * tilts[i, j]
            log_det += math.log(precisions[j])
        level += log_t(square, log_det, q, dof)
    return level
