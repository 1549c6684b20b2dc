"""Logarithms of gamma variates with tables for one shape: a ziggurat, and tabulated quantiles.

For many draws with one shape, interpolation in a table of quantiles is several times as fast as the general method of
`log_gamma_variate`. The quantile function of the logarithm, as a function of the smaller v of a probability and its
complement, is smooth in log v. The table has a cubic polynomial for each of 16 equal parts of each interval
[2^-e, 2^(1-e)) of v. The error is below 1e-7 standard deviations, less than the rounding of a float32.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, gammaln

from ..utils._conditions import Array
from ..utils._njit import njit, njit_part
from ._keys import fold_in, random_bits, uniform
from ._variates import exponential, fill_bits, log_gamma_variate, open_uniform

N_LAYERS = 1024  # about one draw in 200 then needs the rejection test
_MAX_NEWTON = 64  # steps; about six suffice
_LAYER_MASK = np.uint64(N_LAYERS - 1)
_BIN_BITS = 4
_N_BINS = 1 << _BIN_BITS
_N_EXPONENTS = 55  # a uniform variate is a multiple of 2^-53, and 0 is read as 2^-54
_MANTISSA_BITS = 52
_BIAS = 1023
_EXPONENT_MASK = (1 << 11) - 1
_POSITION_MASK = (1 << (_MANTISSA_BITS - _BIN_BITS)) - 1
_POSITION_UNIT = 2.0 ** (_BIN_BITS - _MANTISSA_BITS)
_LEAST_PROBABILITY = 2.0**-54
_NODES = (1 - np.cos(np.pi * (np.arange(4) + 0.5) / 4)) / 2  # of Chebyshev, in (0, 1)
_LEAST = 1e-280  # smaller quantiles are computed from the first term of their series


class GammaTables(NamedTuple):
    """Ziggurats of log Ga(shape, 1) and log Ga(shape + 1/2, 1): `_stack_layers` describes their contents."""

    # Shape, its logarithm, share of the left tail in both
    levels: Annotated[np.ndarray, Array("float64", "2 3", infinite=True)]
    edges: Annotated[np.ndarray, Array("float64", f"2 {N_LAYERS + 1} 2", nan=True, infinite=True)]
    heights: Annotated[np.ndarray, Array("float64", f"2 {N_LAYERS + 1}", nan=True, infinite=True)]


# Tables


@njit(cache=True, nogil=True)
def _edges_at(shape, log_height):
    """Points left and right where the density has a given height: roots of expm1(z) - z = q, by Newton from outside."""
    q = -log_height / shape
    reach = q + math.sqrt(2.0 * q)
    return _root(-reach, q), _root(math.log1p(reach), q)


@njit(cache=True, nogil=True)
def _root(z, q):
    for _ in range(_MAX_NEWTON):
        step = (math.expm1(z) - z - q) / math.expm1(z)
        z -= step
        if abs(step) <= 1e-15 * abs(z):
            break
    return z


@njit(cache=True, nogil=True)
def _stack_layers(shape, log_lowest, area, edges, heights):
    """Stack layers of equal area on the lowest; returns their total height, inf if they reach the mode before the last.

    Row i of `edges`: left and right edge of layer i; the lowest includes the tails. Points within the edges of the next
    layer are always under the density.
    """
    left, right = _edges_at(shape, log_lowest)
    height = math.exp(log_lowest)
    edges[0, 0], edges[0, 1] = left, left + area / height
    heights[0] = 0.0
    for layer in range(1, N_LAYERS):
        edges[layer, 0], edges[layer, 1] = left, right
        heights[layer] = height
        height += area / (right - left)
        if height < 1.0:
            left, right = _edges_at(shape, math.log(height))
        elif layer < N_LAYERS - 1:
            return np.inf
    edges[N_LAYERS, 0], edges[N_LAYERS, 1] = 1.0, -1.0  # the top layer always needs the rejection test
    heights[N_LAYERS] = height
    return height


@lru_cache(maxsize=8)
def gamma_tables(shape: float) -> GammaTables:
    """Ziggurats for a shape and for that shape plus 1/2."""
    levels = np.empty((2, 3))
    edges, heights = np.empty((2, N_LAYERS + 1, 2)), np.empty((2, N_LAYERS + 1))
    for level in (0, 1):
        a = shape + 0.5 * level
        low, high = -16.0, -3.0  # logarithm of the lowest height: the smallest one from which the layers reach the mode
        while high - low > 1e-4:
            middle = 0.5 * (low + high)
            if _stack_layers(a, middle, _lowest_area(a, middle)[0], edges[level], heights[level]) < 1.0:
                low = middle
            else:
                high = middle
        area, left_share = _lowest_area(a, high)
        _stack_layers(a, high, area, edges[level], heights[level])
        levels[level] = a, np.log(a), left_share
    return GammaTables(levels, edges, heights)


def _lowest_area(shape: float, log_height: float) -> tuple[float, float]:
    """Area of the lowest layer, tails included, and the left tail's share of both tails."""
    left, right = _edges_at(shape, log_height)
    if shape < 1000:  # from here on, the term of Stirling's series omitted below, 1 / (1260 shape^5), is under 1e-18
        whole = np.exp(shape + gammaln(shape) - shape * np.log(shape))
    else:  # Stirling's series, because the terms above would cancel
        whole = np.sqrt(2 * np.pi / shape) * np.exp((1 / 12 - 1 / (360 * shape**2)) / shape)
    if left > -40:
        left_tail = whole * gammainc(shape, shape * np.exp(left))
    else:  # an exponential, because the argument above would underflow
        left_tail = np.exp(shape * (left + 1.0)) / shape
    tails = left_tail + whole * gammaincc(shape, shape * np.exp(right))
    return np.exp(log_height) * (right - left) + tails, left_tail / tails


# Draws


@njit(cache=True, nogil=True)
def log_height(shape, z):
    """Log density of log(Ga(shape, 1) / shape) at `z`, relative to its mode 0."""
    return shape * (z - math.expm1(z))


@njit(cache=True, nogil=True)
def layer_and_place(bits, edges):
    """A layer from the low bits and a position in it from the high 54: an odd integer, so never an edge."""
    layer = np.int64(bits & _LAYER_MASK)
    fraction = (np.int64(bits >> np.uint64(10)) | np.int64(1)) * 2.0**-54
    return layer, edges[layer, 0] + fraction * (edges[layer, 1] - edges[layer, 0])


@njit(cache=True, nogil=True)
def is_under_density(layer, z, edges):
    return edges[layer + 1, 0] <= z <= edges[layer + 1, 1]


@njit(cache=True, nogil=True)
def draw_by_rejection(bits, key, shape, left_share, edges, heights):
    """A draw of log(Ga(shape, 1) / shape) if that of `bits` needs the rejection test; needs a separate key."""
    counter = 0
    while True:
        layer, z = layer_and_place(bits, edges)
        if is_under_density(layer, z, edges):
            return z
        if layer == 0:
            # Outside of an edge: an exponential with the slope at the edge, which is above the log-concave density.
            edge = edges[1, 0] if open_uniform(key, counter) < left_share else edges[1, 1]
            slope = -shape * math.expm1(edge)
            at_edge = log_height(shape, edge)
            while True:
                beyond = exponential(key, counter + 1)
                spare = exponential(key, counter + 2)
                counter += 2
                z = edge - beyond / slope
                if at_edge - beyond - spare < log_height(shape, z):
                    return z
        low, high = heights[layer], heights[layer + 1]
        if low + open_uniform(key, counter) * (high - low) < math.exp(log_height(shape, z)):
            return z
        bits = random_bits(key, np.uint64(counter + 1))
        counter += 2


@njit(cache=True, nogil=True)
def fill_log_gammas(key, shapes, levels, edges, heights, bits, cells, out):
    """Draws of log Ga(shapes, 1): by the ziggurat for the shape of the tables, the most common one.

    `bits` and `cells` are scratch memory, `cells` longer by one.
    """
    n_columns, shape, log_shape, left_share = len(shapes), levels[0, 0], levels[0, 1], levels[0, 2]
    fill_bits(key, n_columns, bits)
    n_left = 0
    for k in range(n_columns):
        layer, z = layer_and_place(bits[k], edges)
        out[k] = log_shape + z
        cells[n_left] = k
        n_left += not (is_under_density(layer, z, edges) and shapes[k] == shape)
    for i in range(n_left):
        k = cells[i]
        child = fold_in(fold_in(key, k), 0)
        if shapes[k] == shape:
            out[k] = log_shape + draw_by_rejection(bits[k], child, shape, left_share, edges, heights)
        else:
            out[k] = log_gamma_variate(child, shapes[k])


@lru_cache(maxsize=8)
def log_gamma_table(shape: float) -> np.ndarray:
    """Table of a positive shape, (2, 55, 16, 4): polynomials of small probabilities and of small complements."""
    scale = 2.0 ** -np.arange(_N_EXPONENTS)[:, np.newaxis, np.newaxis] / 2
    v = scale * (1 + (np.arange(_N_BINS)[:, np.newaxis] + _NODES) / _N_BINS)
    v = np.minimum(v, 1 - 2.0**-53)  # values above 1/2 are not used
    lower, upper = gammaincinv(shape, v), gammainccinv(shape, v)
    first_term = (np.log(v) + gammaln(shape + 1)) / shape
    with np.errstate(divide="ignore"):
        lower = np.where(lower > _LEAST, np.log(lower), first_term)
        complement = (np.log1p(-v) + gammaln(shape + 1)) / shape  # where the probability is 1 - v
        upper = np.where(upper > _LEAST, np.log(upper), complement)
    inverse = np.linalg.inv(np.vander(_NODES, increasing=True))
    table = np.stack([lower, upper]) @ inverse.T
    table.flags.writeable = False
    return table


@njit_part
def draw_log_gammas(table, key, number, bits, out):
    """Fill `out`, (n,), with logs of gamma variates from a table; `bits` is an int64 view of the scratch `number`."""
    for i in range(len(out)):
        probability = uniform(key, i)
        v = max(min(probability, 1.0 - probability), _LEAST_PROBABILITY)
        number[i] = v if probability < 0.5 else -v  # the sign bit is the index of the half of the table
    for i in range(len(out)):
        read = bits[i]
        exponent = (_BIAS - 1) - ((read >> _MANTISSA_BITS) & _EXPONENT_MASK)
        part = (read >> (_MANTISSA_BITS - _BIN_BITS)) & (_N_BINS - 1)
        x = (read & _POSITION_MASK) * _POSITION_UNIT
        c = table[1 if read < 0 else 0, exponent, part]
        out[i] = c[0] + x * (c[1] + x * (c[2] + x * c[3]))
