"""Random variates as functions of a key: normals, exponentials, gammas, counts, subsets of rows.

As in `_keys`, draws are not sequential: each draw uses the bits of its key and counter, and after a rejection further
bits that are separate for each draw, so that draws do not affect each other. Gamma, Poisson, binomial and multinomial
variates use the whole stream of a key, which must not be used for other draws.

All methods are exact up to the rounding of float64, and of uniforms to 52 or 53 bits: events rarer than 1e-16 do not
occur.
"""

from __future__ import annotations

import math

import numpy as np

from ..utils._njit import njit
from ._keys import fold_in, random_bits, uniform

# The ziggurat of Marsaglia and Tsang (2000) with 256 layers of equal area under exp(-x^2 / 2), from the tail inwards.
_TAIL_START = 3.6541528853610088
_LAYER_MASK = np.uint64(255)
_FIRST = np.int64(0)  # a counter of the usual type, because numba compiles a kernel again for a literal integer


def _ziggurat_edges() -> np.ndarray:
    """Right edge of each layer, and 0 at the top; the width of the lowest includes the area of its tail."""
    height = math.exp(-0.5 * _TAIL_START**2)
    area = _TAIL_START * height + math.sqrt(0.5 * math.pi) * math.erfc(_TAIL_START / math.sqrt(2.0))
    edges = [area / height, _TAIL_START]
    while len(edges) < 256:
        height += area / edges[-1]
        edges.append(math.sqrt(-2.0 * math.log(height)))
    return np.array([*edges, 0.0])


_EDGES = _ziggurat_edges()
_HEIGHTS = np.exp(-0.5 * _EDGES**2)


@njit(cache=True, nogil=True)
def open_uniform(key, counter):
    """A float64 strictly between 0 and 1, with 52 random bits, symmetric about 1/2; its logarithm is finite.

    Parameters
    ----------
    key : uint64
    counter : int
        Number of the draw in the stream of the key.

    Returns
    -------
    float
    """
    return ((random_bits(key, np.uint64(counter)) >> np.uint64(12)) + 0.5) * 2.0**-52


@njit(cache=True, nogil=True)
def fill_bits(key, first, out):
    """Random bits of consecutive counters from `first` on."""
    for k in range(len(out)):
        out[k] = random_bits(key, np.uint64(first + k))


@njit(cache=True, nogil=True)
def exponential(key, counter):
    """A standard exponential variate, by inversion; never 0.

    Parameters
    ----------
    key : uint64
    counter : int
        Number of the draw in the stream of the key.

    Returns
    -------
    float
        The variate, positive.
    """
    return -math.log(open_uniform(key, counter))


# Normals


@njit(cache=True, nogil=True)
def _layer_and_place(bits):
    """A layer of the ziggurat from the low 8 bits, and a signed position in it from the high 54."""
    layer = bits & _LAYER_MASK
    # An odd integer of 54 bits with its sign: exact in float64, symmetric, and never 0.
    fraction = ((np.int64(bits) >> np.int64(10)) | np.int64(1)) * 2.0**-53
    return layer, fraction * _EDGES[layer]


@njit(cache=True, nogil=True)
def _normal_by_rejection(bits):
    """The rest of `normal` for the one draw in 80 that is not inside the layer above, with separate random bits."""
    child = fold_in(bits, _FIRST)
    counter = _FIRST
    while True:
        layer, x = _layer_and_place(bits)
        if abs(x) < _EDGES[layer + np.uint64(1)]:
            return x
        if layer == 0:  # Marsaglia's (1964) tail
            while True:
                beyond = exponential(child, counter) / _TAIL_START
                spare = exponential(child, counter + 1)
                counter += 2
                if 2.0 * spare > beyond * beyond:
                    return math.copysign(_TAIL_START + beyond, x)
        low, high = _HEIGHTS[layer], _HEIGHTS[layer + np.uint64(1)]
        if low + open_uniform(child, counter) * (high - low) < math.exp(-0.5 * x * x):
            return x
        bits = random_bits(child, np.uint64(counter + 1))
        counter += 2


@njit(cache=True, nogil=True)
def normal(key, counter):
    """A standard normal variate, by the ziggurat (Marsaglia and Tsang, 2000; Doornik, 2005).

    Parameters
    ----------
    key : uint64
    counter : int
        Number of the draw in the stream of the key.

    Returns
    -------
    float
    """
    bits = random_bits(key, np.uint64(counter))
    layer, x = _layer_and_place(bits)
    if abs(x) < _EDGES[layer + np.uint64(1)]:
        return x
    return _normal_by_rejection(bits)


@njit(cache=True, nogil=True)
def truncated_normal(key, low, high):
    """A standard normal variate between `low` and `high`, by rejection (Robert, 1995); uses the stream of the key.

    Parameters
    ----------
    key : uint64
    low, high : float
        Finite bounds, low < high.

    Returns
    -------
    float
    """
    if low <= 0.0 <= high:
        nearest, wide = 0.0, high - low > 2.5
    else:
        nearest = low if low > 0.0 else high
        wide = (high - low) * abs(nearest) > 2.0
    counter = _FIRST
    while True:
        if not wide:
            x = min(max(low + (high - low) * open_uniform(key, counter), low), high)
            log_acceptance = 0.5 * (nearest - x) * (nearest + x)
        elif nearest == 0.0:
            x, log_acceptance = normal(key, counter), 0.0
        else:  # a tail, which is nearly exponential
            x = nearest + math.copysign(exponential(key, counter) / abs(nearest), nearest)
            log_acceptance = -0.5 * (x - nearest) ** 2
        if low <= x <= high and math.log(open_uniform(key, counter + 1)) <= log_acceptance:
            return x
        counter += 2


@njit(cache=True, nogil=True)
def fill_normal(keys, purpose, out):
    """Fill each row of an array with standard normal variates.

    Row c has the variates of the counters 0, 1, ... of ``fold_in(keys[c], purpose)``.

    Parameters
    ----------
    keys : ndarray of shape (n_chains,), uint64
        One key for each chain.
    purpose : int
        A `Purpose`.
    out : ndarray of shape (n_chains, n)
        Output.
    """
    for chain in range(out.shape[0]):
        key = fold_in(keys[chain], purpose)
        for i in range(out.shape[1]):
            out[chain, i] = normal(key, i)


@njit(cache=True, nogil=True)
def fold_keys(keys, value, out):
    """Set ``out[c] = fold_in(keys[c], value)``.

    Parameters
    ----------
    keys : ndarray of shape (n_chains,), uint64
        Parent keys.
    value : int
        Integer that is folded in.
    out : ndarray of shape (n_chains,), uint64
        Output: the derived keys. It may be `keys`.
    """
    for chain in range(len(keys)):
        out[chain] = fold_in(keys[chain], value)


def derived_keys(keys: np.ndarray, value: int | np.integer) -> np.ndarray:
    """As `fold_keys`, a new array."""
    out = np.empty_like(keys)
    fold_keys(keys, value, out)
    return out


# Gammas


@njit(cache=True, nogil=True)
def _log1p_beyond_cubic(t):
    """log(1 + t) - (t - t^2/2 + t^3/3), without cancellation at small t."""
    if abs(t) < 0.01:  # here the omitted term, t^9 / 9, is below 1e-18, and the result is about t^4 / 4 = 2.5e-9
        square = t * t
        return -square * square * (1 / 4 - t * (1 / 5 - t * (1 / 6 - t * (1 / 7 - t / 8))))
    return math.log1p(t) - t * (1.0 - t * (1 / 2 - t / 3))


@njit(cache=True, nogil=True)
def _gamma_from_one(key, child, shape):
    """A Ga(shape, 1) variate, shape >= 1: Marsaglia and Tsang (2000), d (1 + t)^3 with t normal, and rejection."""
    d = shape - 1 / 3
    scale = 1.0 / math.sqrt(9.0 * d)
    counter = _FIRST
    while True:
        x = normal(key, counter)
        counter += 1
        t = scale * x
        if t <= -1.0:
            continue
        u = open_uniform(child, counter)
        square = x * x
        # They write x^2/2 + d (1 - v + log v), v = (1 + t)^3; terms up to t^3 cancel, which loses digits at large d.
        # 0.0331: their squeeze, which avoids most logarithms.
        if u < 1.0 - 0.0331 * square * square or math.log(u) < 3.0 * d * _log1p_beyond_cubic(t):
            root = 1.0 + t
            return d * (root * root * root)


@njit(cache=True, nogil=True)
def log_gamma_variate(key, shape):
    """The logarithm of a Ga(shape, 1) variate, for shapes from 1e-300 to 1e12.

    A shape below 1 is raised by 1 and log(U) / shape added (Marsaglia and Tsang, 2000), which stays finite where the
    variate itself would underflow.

    Parameters
    ----------
    key : uint64
        Key of the random stream, which must not be used for other draws.
    shape : float
        Shape, from 1e-300 to 1e12.

    Returns
    -------
    float
        The logarithm, finite.
    """
    child = fold_in(key, _FIRST)
    if shape >= 1.0:
        return math.log(_gamma_from_one(key, child, shape))
    return math.log(_gamma_from_one(key, child, shape + 1.0)) - exponential(child, _FIRST) / shape


@njit(cache=True, nogil=True)
def log_beta_variate(key, a, b):
    """The finite logs of x and 1 - x for x from Beta(a, b), accurate also if x rounds to one; a, b from 1e-300 to 1e12.

    The key must not be used for other draws.
    """
    x, rest = log_gamma_variate(fold_in(key, 0), a), log_gamma_variate(fold_in(key, 1), b)
    total = max(x, rest) + math.log1p(math.exp(-abs(x - rest)))
    return x - total, rest - total


@njit(cache=True, nogil=True)
def gamma_variate(key, shape):
    """A Ga(shape, 1) variate; it underflows to 0 for small shapes.

    Parameters
    ----------
    key : uint64
        Key of the random stream, which must not be used for other draws.
    shape : float
        Shape, positive.

    Returns
    -------
    float
        The variate; `log_gamma_variate` is its logarithm.
    """
    child = fold_in(key, _FIRST)
    if shape >= 1.0:
        return _gamma_from_one(key, child, shape)
    return _gamma_from_one(key, child, shape + 1.0) * math.exp(-exponential(child, _FIRST) / shape)


# Angles


@njit(cache=True, nogil=True)
def half_angle_sine(key, concentration):
    """The sine of half an angle with density proportional to exp(concentration cos(angle)): Best and Fisher (1979).

    Their r and f are near 1 at large concentrations, so r - 1 and 1 - f are used; r is (1 + root) / (2 concentration).
    At least 1e-16, below which the density is constant in float64.
    """
    root = math.hypot(1.0, 2.0 * concentration)
    beyond = (1.0 + 1.0 / (root + 2.0 * concentration)) / (2.0 * concentration)  # r - 1
    counter = 0
    while True:
        half = 0.5 * math.pi * open_uniform(key, counter)
        sine, cosine = math.sin(half), math.cos(half)
        short = 2.0 * sine * sine * beyond / (beyond + 2.0 * cosine * cosine)  # 1 - f
        c = concentration * (beyond + short)
        u = open_uniform(key, counter + 1)
        counter += 3
        if c * (2.0 - c) > u or math.log(c / u) + 1.0 - c >= 0.0:
            size = math.sqrt(min(0.5 * short, 1.0))
            return size if uniform(key, counter - 1) < 0.5 else -size


# Subsets


@njit(cache=True, nogil=True)
def _below(bits, bound):
    """A uniform integer in [0, bound) from 64 random bits, and from a derived key after a rejection."""
    remainder = bits % bound
    while bits - remainder > ~bound + np.uint64(1):  # rejected: in the last, incomplete range of `bound` integers
        bits = fold_in(bits, _FIRST)
        remainder = bits % bound
    return remainder


@njit(cache=True, nogil=True)
def _insert(slots, row):
    """Put `row` into a hash table with linear probing (-1: free); False if it was there.

    The rows are random, so that their low bits are a good hash, without collisions for consecutive rows.
    """
    mask = len(slots) - 1
    slot = row & mask
    while slots[slot] >= 0:
        if slots[slot] == row:
            return False
        slot = (slot + 1) & mask
    slots[slot] = row
    return True


@njit(cache=True, nogil=True)
def fill_permutation(key, out):
    """Fill `out` with its indices in random order (Fisher and Yates)."""
    for i in range(len(out)):
        j = np.int64(uniform(key, i) * (i + 1))
        out[i] = out[j]
        out[j] = i


@njit(cache=True, nogil=True)
def sample_rows(keys, purpose, n_samples, out):
    """Draw n distinct rows of ``range(n_samples)`` for each chain.

    All subsets have the same probability: Floyd's algorithm (Bentley and Floyd, 1987), in time and memory O(n).
    The order within a row of `out` is not random: entry i is at most ``n_samples - n + i``, and this value is the
    most frequent.

    Parameters
    ----------
    keys : ndarray of shape (n_chains,), uint64
        One key for each chain.
    purpose : int
        A `Purpose`, which is folded into the keys.
    n_samples : int
        Number of rows to choose from.
    out : ndarray of shape (n_chains, n), int64
        Output: the rows.

    Raises
    ------
    ValueError
        If n is larger than `n_samples`.
    """
    n = out.shape[1]
    if n > n_samples:
        raise ValueError("a subset cannot have more rows than there are.")
    size = 2
    while size < 2 * n:
        size *= 2
    slots = np.empty(size, np.int64)
    for chain in range(out.shape[0]):
        key = fold_in(keys[chain], purpose)
        slots[:] = -1
        for i in range(n):
            last = np.int64(n_samples - n + i)
            row = np.int64(_below(random_bits(key, np.uint64(i)), np.uint64(last + 1)))
            if not _insert(slots, row):
                row = last
                _insert(slots, row)
            out[chain, i] = row


def some_rows(key, purpose, n_samples, n):
    """Choose n distinct rows of ``range(n_samples)``, ascending, equally probable subsets; ValueError if too many."""
    rows = np.empty((1, n), np.int64)
    sample_rows(np.array([key], np.uint64), purpose, n_samples, rows)
    return np.sort(rows[0])


@njit(cache=True, nogil=True)
def fill_log_gammas(key, shapes, out):
    """Fill a vector with logarithms of gamma variates of rate 1 with these shapes."""
    for k in range(len(shapes)):
        out[k] = log_gamma_variate(fold_in(key, k), shapes[k])


@njit(cache=True, nogil=True)
def fill_log_gamma_variates(key, shapes, out):
    """Fill a matrix with logarithms of gamma variates of rate 1; each entry has its own key.

    Parameters
    ----------
    key : uint64
    shapes : ndarray of shape (m, n)
        Shapes, positive.
    out : ndarray of shape (m, n)
        Output: the logarithms.
    """
    for i in range(shapes.shape[0]):
        fill_log_gammas(fold_in(key, i), shapes[i], out[i])


_TANGENT, _FIRST_TRIAL = 0, 1  # children of a key


@njit(cache=True, nogil=True)
def _cosine_complement(key, dim, concentration):
    """Draw 1 - w for the cosine w with the mean direction: see `distributions._von_mises_fisher`."""
    degrees = dim - 1.0
    b = degrees / (2.0 * concentration + math.hypot(2.0 * concentration, degrees))
    start = 2.0 * b / (1.0 + b)
    if not start > 0.0:  # 1 - w is smaller than the smallest float
        return 0.0
    trial = _FIRST_TRIAL
    while True:
        of_trial = fold_in(key, trial)
        trial += 1
        one = gamma_variate(fold_in(of_trial, 0), 0.5 * degrees)
        other = gamma_variate(fold_in(of_trial, 1), 0.5 * degrees)
        if not one + other > 0.0:
            continue
        gap = 2.0 * b * one / (other + b * one)
        ratio = (start + gap * (1.0 - start)) / (start * (2.0 - start))
        if -exponential(fold_in(of_trial, 2), 0) <= concentration * (start - gap) + degrees * math.log(ratio):
            return gap


@njit(cache=True, nogil=True)
def fill_direction(key, mean, concentration, out):
    """Fill `out` with a von Mises-Fisher unit vector about a mean of any length; a mean of zeros makes it uniform.

    The key must not be used for other draws.
    """
    d, of_normals = len(mean), fold_in(key, _TANGENT)
    along, square = 0.0, 0.0
    for j in range(d):
        out[j] = normal(of_normals, j)
        along += mean[j] * out[j]
        square += mean[j] * mean[j]
    if square > 0.0:
        along /= square
        for j in range(d):
            out[j] -= along * mean[j]
    length = 0.0
    for j in range(d):
        length += out[j] * out[j]
    length = math.sqrt(length)
    if square == 0.0:
        for j in range(d):
            out[j] /= length
        return
    gap = _cosine_complement(key, float(d), concentration)
    of_tangent = math.sqrt(gap * max(2.0 - gap, 0.0)) / length
    of_mean = (1.0 - gap) / math.sqrt(square)
    for j in range(d):
        out[j] = of_tangent * out[j] + of_mean * mean[j]
