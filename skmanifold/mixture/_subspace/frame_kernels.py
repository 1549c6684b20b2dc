"""Markov chain transitions of one subspace given its rows: plane rotations, flips of directions, births and deaths.

The rows of a component enter through a factor Y of their scatter about the centre, Y'Y = S. The number of rows of Y is
as small as possible. The scatter along direction u is R = |Yu|^2.
"""

import math

import numpy as np

from ...distributions._gamma import draw_ratio
from ...numerics.block_sums import dot
from ...numerics.special import copy_to, log_unit_gamma
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import exponential, fill_permutation, half_angle_sine, normal
from ...utils._njit import njit

# Numbers of one type, because numba compiles a kernel again for each literal integer.
_COMPLETION = np.int64(Purpose.COMPLETION)
_SWEEP = np.int64(Purpose.SWEEP)
_FLIPS = np.int64(Purpose.FLIPS)
_ROTATIONS = np.int64(Purpose.ROTATIONS)
_BIRTH_DEATH = np.int64(Purpose.BIRTH_DEATH)
_ORDER = np.int64(Purpose.ORDER)
_FLIP, _RATIO = np.int64(0), np.int64(1)
# Counters of the draws of a birth or death under its key, and the child key of the direction
_CHOICE, _ACCEPTANCE, _REMOVED = np.int64(0), np.int64(1), np.int64(2)
_DIRECTION = np.int64(0)
_LEAST_FRAME = 32  # directions of a frame, at least
MOST_AXES = 512  # with more rows and more features, only leading axes are computed
N_LEADING = np.int64(32)
_N_POWERS = 4

# Frames


@njit(cache=True, nogil=True)
def log_gain(n, scatter, noise, shape):
    """Log marginal likelihood of a direction within the subspace, less that of the same across it.

    With scatter R along it, noise precision g and prior Beta(a, 1) of the ratio r: a int_0^1 r^(a + n/2 - 1)
    exp(-g r R / 2) dr within the subspace, exp(-g R / 2) across it.
    """
    rate = 0.5 * noise * scatter
    return math.log(shape) + log_unit_gamma(shape + 0.5 * n, rate) + rate


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


# Plane rotations


@njit(cache=True, nogil=True)
def _rotation(key, k1, k2):
    """Cosine and sine of an angle t of log density k1 cos 2t + k2 sin 2t, without trigonometric functions.

    2t is the sum of atan2(k2, k1) and of a von Mises angle.
    """
    concentration = math.hypot(k1, k2)
    if concentration < 1e-16:  # the density is constant to the last bit
        angle = math.pi * uniform(key, 0)
        return math.cos(angle), math.sin(angle)
    cosine = math.sqrt(0.5 + 0.5 * (abs(k1) / concentration))
    sine = 0.5 * (abs(k2) / concentration) / cosine
    if k1 < 0.0:
        cosine, sine = sine, cosine
    if k2 < 0.0:
        sine = -sine
    drawn_sine = half_angle_sine(key, concentration)
    drawn_cosine = math.sqrt(1.0 - drawn_sine * drawn_sine)
    return cosine * drawn_cosine - sine * drawn_sine, sine * drawn_cosine + cosine * drawn_sine


@njit(cache=True, nogil=True)
def rotate_planes(rows, size, scatters, precisions, key):
    """Rotate every pair of directions of different precision by an angle t of log density k1 cos 2t + k2 sin 2t.

    The first `size` columns of `rows`, (D, width), are products of directions and rows of Y, so that scatters are inner
    products; the others are coordinates, which rotate too. `scatters`, (D,), are those along the directions.
    """
    D, width = rows.shape
    for i in range(D):
        first = rows[i]
        for j in range(i + 1, D):
            gap = precisions[i] - precisions[j]
            if gap == 0.0:
                continue
            second = rows[j]
            between = dot(first[:size], second[:size])
            cosine, sine = _rotation(
                fold_in(key, i * D + j), -0.25 * gap * (scatters[i] - scatters[j]), -0.5 * gap * between
            )
            for a in range(width):
                low, high = first[a], second[a]
                first[a] = cosine * low + sine * high
                second[a] = cosine * high - sine * low
            change = sine * (sine * (scatters[j] - scatters[i]) + 2.0 * cosine * between)
            scatters[i] += change
            scatters[j] -= change
    for j in range(D):  # without the rounding errors of their changes
        scatters[j] = dot(rows[j, :size], rows[j, :size])


# Flips


@njit(cache=True, nogil=True)
def flip_directions(scatters, inside, ratios, n, noise, log_dimension, shape, key):
    """Decide, with ratios integrated out, which directions are in the subspace, and draw the ratios of those.

    Given their number, all subsets of the D directions are equally likely: the odds contain the factor (d + 1) / (D -
    d).
    """
    D = len(scatters)
    d = 0
    for j in range(D):
        d += inside[j]
    for j in range(D):
        child = fold_in(key, j)
        others = d - inside[j]
        if others + 1 >= len(log_dimension) or log_dimension[others + 1] == -np.inf:
            enters = False
        elif log_dimension[others] == -np.inf:
            enters = True
        else:
            odds = log_gain(n, scatters[j], noise, shape) + log_dimension[others + 1] - log_dimension[others]
            odds += math.log((others + 1.0) / (D - others))
            enters = uniform(child, _FLIP) * (1.0 + math.exp(-odds)) < 1.0 if odds > -700.0 else False
        inside[j] = enters
        d = others + (1 if enters else 0)
        ratios[j] = draw_ratio(fold_in(child, _RATIO), shape + 0.5 * n, 0.5 * noise * scatters[j]) if enters else 1.0


# Births and deaths: a new direction is proposed where the rows vary most


@njit(cache=True, nogil=True)
def _spectrum(Y, basis):
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
def _bound(eigenvalues, n_zero, top_eigenvalue):
    """Solve sum_l 1 / (b + top_eigenvalue - eigenvalue_l) = 1 for b >= 1; `n_zero` more eigenvalues are zero."""
    low, high = 1.0, float(len(eigenvalues) + n_zero)
    for _ in range(60):
        b = 0.5 * (low + high)
        total = n_zero / (b + top_eigenvalue)
        for eigenvalue in eigenvalues:
            total += 1.0 / (b + (top_eigenvalue - eigenvalue))
        if total > 1.0:
            low = b
        else:
            high = b
    return high


@njit(cache=True, nogil=True)
def _fit_proposal(Y, basis, n, noise):
    """Fit the angular central Gaussian distribution from which a new direction is proposed.

    Given its likeliest ratio, a direction orthogonal to `basis` is Bingham with a matrix A. The inverse covariance I +
    (top eigenvalue I - A) / b has the smallest bound (Kent, Ganeiber and Mardia, 2018). Returns A's positive
    eigenvalues, their vectors, the largest, b, and the dimension of the space. Only differences of eigenvalues matter,
    so the mean of those without a vector is zero.
    """
    values, axes, rest = _spectrum(Y, basis)
    q = Y.shape[1] - len(basis)
    n_axes = min(len(values), q)
    largest_scatter = values[0] if n_axes > 0 else 0.0
    per_scatter = noise - n / largest_scatter if noise * largest_scatter > n else 0.0
    eigenvalues, top_eigenvalue = per_scatter * (values[:n_axes] - rest), per_scatter * (largest_scatter - rest)
    return eigenvalues, axes[:n_axes], top_eigenvalue, _bound(eigenvalues, q - n_axes, top_eigenvalue), q


@njit(cache=True, nogil=True)
def _log_proposal_density(direction, eigenvalues, axes, top_eigenvalue, b, q):
    """Log density of a proposed direction, relative to the uniform distribution."""
    log_det = (q - len(eigenvalues)) * math.log1p(top_eigenvalue / b)
    below = top_eigenvalue
    for i in range(len(eigenvalues)):
        log_det += math.log1p((top_eigenvalue - eigenvalues[i]) / b)
        below -= eigenvalues[i] * dot(axes[i], direction) ** 2
    return 0.5 * (log_det - q * math.log1p(max(below, 0.0) / b))


@njit(cache=True, nogil=True)
def _propose_direction(basis, eigenvalues, axes, top_eigenvalue, b, key):
    """Append to `basis` a direction drawn from the proposal distribution; returns the larger basis."""
    d, m = basis.shape
    frame, z = resize_rows(basis, d + 1), np.empty(m)
    rest = 1.0 / math.sqrt(1.0 + top_eigenvalue / b)
    for a in range(m):
        z[a] = normal(key, a)
        frame[d, a] = rest * z[a]
    for i in range(len(eigenvalues)):
        inner = dot(axes[i], z)
        scale = 1.0 / math.sqrt(1.0 + (top_eigenvalue - eigenvalues[i]) / b) - rest
        for a in range(m):
            frame[d, a] += scale * inner * axes[i, a]
    orthonormalise(frame, d)
    return frame


@njit(cache=True, nogil=True)
def scatter_along(Y, direction):
    """Scatter of the rows along a unit vector, |Y u|^2."""
    along = np.dot(Y, direction)
    return np.dot(along, along)


@njit(cache=True, nogil=True)
def _birth_probability(d, log_dimension):
    """Probability that the move at dimension d is a birth, and not a death."""
    can_grow = d + 1 < len(log_dimension) and log_dimension[d + 1] > -np.inf
    can_shrink = d > 0 and log_dimension[d - 1] > -np.inf
    if can_grow and can_shrink:
        return 0.5
    return 1.0 if can_grow else 0.0


@njit(cache=True, nogil=True)
def birth_death_step(Y, basis, ratios, n, noise, log_dimension, shape, key):
    """Propose to add a direction along which the rows vary, or to remove one; returns the new basis and ratios.

    Metropolis-Hastings, with the ratio of the direction integrated out. A new direction is placed last, and any may be
    removed; the factors 1 / (d + 1) of the order and of the choice cancel.
    """
    d = len(basis)
    p_birth = _birth_probability(d, log_dimension)
    unchanged = basis, ratios
    # Birth: the direction is proposed near the axes of largest scatter, and its ratio drawn if it is accepted.
    if uniform(key, _CHOICE) < p_birth:
        eigenvalues, axes, top_eigenvalue, b, q = _fit_proposal(Y, basis, n, noise)
        frame = _propose_direction(basis, eigenvalues, axes, top_eigenvalue, b, fold_in(key, _DIRECTION))
        scatter = scatter_along(Y, frame[d])
        log_accept = log_gain(n, scatter, noise, shape) + log_dimension[d + 1] - log_dimension[d]
        log_accept -= _log_proposal_density(frame[d], eigenvalues, axes, top_eigenvalue, b, q)
        log_accept += math.log((1.0 - _birth_probability(d + 1, log_dimension)) / p_birth)
        if -exponential(key, _ACCEPTANCE) >= log_accept:
            return unchanged
        longer = np.empty(d + 1)
        copy_to(longer, ratios)
        longer[d] = draw_ratio(fold_in(key, _RATIO), shape + 0.5 * n, 0.5 * noise * scatter)
        return frame, longer
    if d == 0 or p_birth == 1.0 or log_dimension[d - 1] == -np.inf:
        return unchanged
    # Death: the same ratio inverted, with the proposal that would have led back to the removed direction.
    removed = np.int64(uniform(key, _REMOVED) * d)
    smaller, kept = basis[:-1].copy(), ratios[:-1].copy()
    copy_to(smaller[removed:], basis[removed + 1 :])
    copy_to(kept[removed:], ratios[removed + 1 :])
    eigenvalues, axes, top_eigenvalue, b, q = _fit_proposal(Y, smaller, n, noise)
    scatter = scatter_along(Y, basis[removed])
    log_accept = log_dimension[d - 1] - log_dimension[d] - log_gain(n, scatter, noise, shape)
    log_accept += _log_proposal_density(basis[removed], eigenvalues, axes, top_eigenvalue, b, q)
    log_accept += math.log(_birth_probability(d - 1, log_dimension) / (1.0 - p_birth))
    if -exponential(key, _ACCEPTANCE) >= log_accept:
        return unchanged
    return smaller, kept


# All of one subspace


@njit(cache=True, nogil=True)
def frame_size(d, m):
    """Number of directions in the frame of a d-dimensional subspace, and the range of d that has the same number.

    If m is large, the frame contains the directions of the subspace and random others, at least twice as many as d.
    """
    least, size = 0, _LEAST_FRAME
    while size < m:
        if d <= size // 2:
            return size, least, size // 2
        least, size = size // 2 + 1, 2 * size
    return m, least, m


@njit(cache=True, nogil=True)
def move_directions(Y, frame, d, ratios, n, noise, log_dimension, shape, n_sweeps, key):
    """Rotate and flip the directions of a frame, (D, m), the first `d` of which span the subspace.

    Returns frame, d and ratios, (D,), 1 for other directions. Scans are in random order: with the directions of the
    subspace first, the order would depend on the state, and the dimension would be biased.
    """
    D, size = len(frame), len(Y)
    order = np.empty(D, np.int64)
    fill_permutation(fold_in(key, _ORDER), order)
    along = np.dot(frame, Y.T)
    rows, scatters = np.zeros((D, size + D)), np.empty(D)
    inside, every = np.empty(D, np.bool_), np.empty(D)
    for j in range(D):
        inside[j] = order[j] < d
        every[j] = ratios[order[j]] if inside[j] else 1.0
        copy_to(rows[j], along[order[j]])
        rows[j, size + order[j]] = 1.0
        scatters[j] = dot(rows[j, :size], rows[j, :size])
    for sweep in range(n_sweeps):
        child = fold_in(fold_in(key, _SWEEP), sweep)
        rotate_planes(rows, size, scatters, noise * every, fold_in(child, _ROTATIONS))
        flip_directions(scatters, inside, every, n, noise, log_dimension, shape, fold_in(child, _FLIPS))
    coordinates, kept = np.empty((D, D)), np.ones(D)
    d, last = 0, D - 1
    for j in range(D):
        place = d if inside[j] else last
        kept[place] = every[j]
        copy_to(coordinates[place], rows[j, size:])
        if inside[j]:
            d += 1
        else:
            last -= 1
    return np.dot(coordinates, frame), d, kept


@njit(cache=True, nogil=True)
def move_frame(Y, basis, ratios, n, noise, log_dimension, shape, n_sweeps, key):
    """Update a subspace given n rows with scatter Y'Y; returns the new basis, its ratios, and the `sum_of_squares`.

    Flips keep the dimension in the range with the same `frame_size`; only births and deaths leave it.
    """
    d, m = basis.shape
    D, least, largest = frame_size(d, m)
    within = log_dimension.copy()
    within[:least], within[largest + 1 :] = -np.inf, -np.inf
    frame = complete_frame(basis, D, fold_in(key, _COMPLETION))
    frame, d, kept = move_directions(Y, frame, d, ratios, n, noise, within, shape, n_sweeps, key)
    moved = frame[:d].copy()
    orthonormalise(moved, np.int64(0))  # against the drift of rounding
    at = moved, kept[:d].copy()
    basis, ratios = birth_death_step(Y, *at, n, noise, log_dimension, shape, fold_in(key, _BIRTH_DEATH))
    return basis, ratios, sum_of_squares(Y, basis, ratios)


@njit(cache=True, nogil=True)
def sum_of_squares(Y, basis, ratios):
    """Sum of squares of rows with scatter Y'Y, where squares along the basis are multiplied by the ratios.

    The difference of two sums of squares would be inaccurate for rows near the subspace.
    """
    along = np.dot(Y, basis.T)
    left = Y - np.dot(along, basis)
    total = 0.0
    for i in range(len(Y)):
        total += dot(left[i], left[i])
        for j in range(len(ratios)):
            total += ratios[j] * along[i, j] * along[i, j]
    return total


# Centres


@njit(cache=True, nogil=True)
def draw_centre(basis, ratios, noise, n, mean, variance, key):
    """Draw a centre from its normal full conditional, given n rows with this mean; that of the prior is zero."""
    m = len(mean)
    across = n * noise * variance
    shrink = across / (1.0 + across)
    spread = math.sqrt(variance / (1.0 + across))
    z, out = np.empty(m), np.empty(m)
    for a in range(m):
        z[a] = normal(key, a)
        out[a] = shrink * mean[a] + spread * z[a]
    for j in range(len(basis)):
        along = n * noise * ratios[j] * variance
        shift = (along / (1.0 + along) - shrink) * dot(basis[j], mean)
        shift += (math.sqrt(variance / (1.0 + along)) - spread) * dot(basis[j], z)
        for a in range(m):
            out[a] += shift * basis[j, a]
    return out


# Initial dimensions


@njit(cache=True, nogil=True)
def _log_frames(scatters, noise, ratios, d):
    """Log of the share of all bases near the principal axes, in any order and signs, by Laplace's approximation.

    The log density at angle t between two axes is c (cos 2t - 1), which integrates to about pi / sqrt(1 + 2 pi c).
    """
    m, total, product = len(scatters), 0.0, 1.0
    for i in range(d):
        for j in range(i + 1, m):
            gap = (ratios[j] - ratios[i]) * (scatters[i] - scatters[j])
            product *= 1.0 + 0.5 * math.pi * noise * gap
            if product > 1e100:
                total -= 0.5 * math.log(product)
                product = 1.0
        half = 0.5 * (m - i)
        total += (m - 1 - i) * math.log(math.pi) + math.log(i + 1.0) - half * math.log(math.pi) + math.lgamma(half)
    return total - 0.5 * math.log(product)


@njit(cache=True, nogil=True)
def best_dimension(scatters, n, log_dimension, ratio_shape, noise_shape, noise_rate):
    """The most probable dimension, with bases integrated out approximately, and the likeliest precision of its noise.

    `scatters`, (m,), are those of n rows along their principal axes, decreasing. The dimension is at most n / 2 if
    possible: with fewer rows per direction the approximation fails.
    """
    m = len(scatters)
    best, d_best, noise_best = -np.inf, np.int64(0), 1.0
    total, ratios = 0.0, np.empty(m)
    for j in range(m):
        total += scatters[j]
    across = total
    for d in range(len(log_dimension)):
        if d > 0:
            across = max(across - scatters[d - 1], 0.0)
        if log_dimension[d] == -np.inf or (2 * d > n and best > -np.inf):
            continue
        noise = (noise_shape + 0.5 * n * (m - d)) / (noise_rate + 0.5 * across)
        level = (noise_shape + 0.5 * n * m) * math.log(noise) - noise * (noise_rate + 0.5 * total) + log_dimension[d]
        for j in range(m):
            ratios[j] = min(1.0, n / (noise * max(scatters[j], 1e-300))) if j < d else 1.0
            level += log_gain(n, scatters[j], noise, ratio_shape) if j < d else 0.0
        level += _log_frames(scatters, noise, ratios, d)
        if level > best:
            best, d_best, noise_best = level, np.int64(d), noise
    return d_best, noise_best
