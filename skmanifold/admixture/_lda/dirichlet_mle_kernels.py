"""Kernels for learning Dirichlet priors from counts: histograms of the counts, and maximisation of their likelihood.

For a Dirichlet with parameters alpha and sum A, documents only enter through the number of them with n tokens of
topic k: log p(topics of the tokens | alpha) = sum_mk log (alpha_k)_D_mk - sum_m log (A)_N_m with
(x)_n = Gamma(x + n) / Gamma(x), the probability of the tokens in their order.
"""

import math

import numpy as np

from ...utils._njit import njit
from .._tokens.layout import entry_count, entry_topic

# Real numbers are distributed over the two nearest points of a grid: the float64 numbers from 1 on without this many
# last bits, which are 64 per octave and include the whole numbers up to 128.
CUT_BITS = 46
FIRST_CELL = 1023 << 6  # 1.0 without these bits
_CUT = np.uint64(CUT_BITS)
_CUT_MASK = np.uint64((1 << CUT_BITS) - 1)
_CUT_UNIT = 2.0**-CUT_BITS
_NEVER_TWICE = 1e-6  # below this an expected count is the probability of one

_MAX_FACTOR = 8.0  # maximum factor by which one step changes a parameter
_TOTAL_FACTORS = (8.0, 2.0, 1.0)
_TOLERANCE = 1e-8


@njit(cache=True, nogil=True)
def _list_entries(first_row, stop_row, entries, starts, stops, n_components):
    """The pairs (topic, count) of a range of rows, and for each row one more, (n_components, length), unless it is 0.

    The entries of a row are from `starts` to `stops`; several may have the same topic.
    """
    capacity = 0
    for row in range(first_row, stop_row):
        capacity += stops[row] - starts[row] + 1
    topics = np.empty(capacity + 1, np.uint16)
    numbers = np.empty(capacity, np.int64)
    scratch = np.zeros(n_components, np.int64)
    end = 0
    for row in range(first_row, stop_row):
        begin, length = end, 0
        for j in range(starts[row], stops[row]):
            topic = entry_topic(entries[j])
            count = np.int64(entry_count(entries[j]))
            topics[end] = topic  # overwritten unless new, without a branch
            end += (scratch[topic] == 0) & (count > 0)
            scratch[topic] += count
        for j in range(begin, end):
            topic = np.uint64(topics[j])
            numbers[j] = scratch[topic]
            length += scratch[topic]
            scratch[topic] = 0
        if length > 0:
            topics[end] = n_components
            numbers[end] = length
            end += 1
    return topics[:end], numbers[:end]


@njit(cache=True, nogil=True)
def _tabulate(topics, numbers, n_lists):
    """Frequency of each number, from 1 on, for each topic: consecutive tables up to the largest number."""
    start = np.zeros(n_lists + 1, np.int64)
    for j in range(len(topics)):
        topic = np.uint64(topics[j])
        start[topic + np.uint64(1)] = max(start[topic + np.uint64(1)], numbers[j])
    for k in range(n_lists):
        start[k + 1] += start[k]
    table = np.zeros(start[n_lists], np.int32)
    for j in range(len(topics)):
        table[start[np.uint64(topics[j])] + numbers[j] - 1] += np.int32(1)
    return start, table


@njit(cache=True, nogil=True)
def _expect_positive(first, stop, indptr, pairs, gamma, counts, out_values, out_weights):
    """For each topic of rows or words `first` to `stop`: the mean of a count if not zero, and the probability of that.

    Row or word i has the `pairs` from ``indptr[i]`` to ``indptr[i + 1]``; their tokens are independent.
    """
    for i in range(first, stop):
        out_values[i] = 0.0
        out_weights[i] = 1.0  # the probability of zero, until the end
        for j in range(indptr[i], indptr[i + 1]):
            pair = pairs[j]
            count = np.float64(counts[pair])
            for k in range(gamma.shape[1]):
                probability = np.float64(gamma[pair, k])
                out_values[i, k] += count * probability
                absent = max(1.0 - probability, 0.0)
                out_weights[i, k] *= absent if count == 1.0 else absent**count
        for k in range(gamma.shape[1]):
            mean = out_values[i, k]
            out_weights[i, k] = 1.0 - out_weights[i, k] if mean > _NEVER_TWICE else mean
            out_values[i, k] = max(mean / out_weights[i, k], 1.0) if mean > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _share_out(first, stop, values, bits, weights, out_table):
    """Histograms over the grid of the columns from `first` to `stop` of values >= 1; `bits` are those of `values`.

    A weight is divided between the two neighbours of the value in the grid so that the mean does not change.
    """
    out_table[first:stop] = 0.0
    for i in range(len(values)):
        for k in range(first, stop):
            cell = np.int64(bits[i, k] >> _CUT) - FIRST_CELL
            upper = weights[i, k] * (np.float64(np.int64(bits[i, k] & _CUT_MASK)) * _CUT_UNIT)
            out_table[k, cell] += weights[i, k] - upper
            out_table[k, cell + 1] += upper


@njit(cache=True)
def _log_gamma(x):
    """Log gamma of x > 0, up to a constant, with its first and second derivative, by Stirling's series from 10 on."""
    product, first, second = 1.0, 0.0, 0.0
    while x < 10.0:
        inverse = 1.0 / x
        product *= x
        first -= inverse
        second += inverse * inverse
        x += 1.0
    log_x, r = math.log(x), 1.0 / x
    q = r * r
    value = (x - 0.5) * log_x - x
    value += r * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188 - q * (691 / 360360))))))
    if product != 1.0:
        value -= math.log(product)
    first += log_x - 0.5 * r
    first -= q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132 - q * (691 / 32760))))))
    second += r + 0.5 * q
    second += r * q * (1 / 6 - q * (1 / 30 - q * (1 / 42 - q * (1 / 30 - q * (5 / 66 - q * (691 / 2730))))))
    return value, first, second


@njit(cache=True, nogil=True)
def _log_rising_sum(x, values, weights, start, stop):
    """Sum of w_j log (x)_n_j over the values n_j from `start` to `stop`; its first and second derivative in x."""
    zero = _log_gamma(x)
    value, first, second = 0.0, 0.0, 0.0
    for j in range(start, stop):
        at = _log_gamma(x + values[j])
        value += weights[j] * (at[0] - zero[0])
        first += weights[j] * (at[1] - zero[1])
        second += weights[j] * (at[2] - zero[2])
    return value, first, second


@njit(cache=True, nogil=True)
def _evaluate(prior, copies, histogram, out_first, out_second):
    """The log likelihood, and the derivatives of its two parts.

    Each parameter occurs `copies` times. `out_first` and `out_second` are derivatives of the first sum in each
    parameter; those of the second sum in `copies` times the parameters' total are returned with the value.
    """
    indptr, values, weights, lengths, length_weights = histogram
    value = 0.0
    for k in range(len(prior)):
        part, out_first[k], out_second[k] = _log_rising_sum(prior[k], values, weights, indptr[k], indptr[k + 1])
        value += part
    part, first, second = _log_rising_sum(copies * prior.sum(), lengths, length_weights, 0, len(lengths))
    return value - part, first, second


@njit(cache=True, nogil=True)
def _climb(prior, copies, histogram, n_iter, floor, ceiling):
    """Make up to `n_iter` steps towards the maximum of the likelihood within bounds; no step decreases it.

    A step is the first of these that increases it: ``_step_by_newton``; Minka's fixed point (2000, eq. 55) with all
    parameters scaled in the direction of the derivative, because the total converges slowly where Newton's method
    fails; the fixed point itself, which maximises a lower bound.
    """
    first, second = np.empty(len(prior)), np.empty(len(prior))
    new_first, new_second = np.empty(len(prior)), np.empty(len(prior))
    candidate = np.empty(len(prior))
    value, slope, bend = _evaluate(prior, copies, histogram, first, second)
    for _ in range(n_iter):
        accepted = False
        if _step_by_newton(prior, copies, first, second, slope, bend, floor, ceiling, candidate):
            new_value, new_slope, new_bend = _evaluate(candidate, copies, histogram, new_first, new_second)
            accepted = new_value >= value
        rise = -copies * prior.sum() * slope
        for k in range(len(prior)):
            rise += prior[k] * first[k]
        for factor in _TOTAL_FACTORS:
            if not accepted:
                scale = (factor if rise > 0.0 else 1.0 / factor) / (copies * slope)
                for k in range(len(prior)):
                    candidate[k] = min(max(prior[k] * first[k] * scale, floor), ceiling)
                new_value, new_slope, new_bend = _evaluate(candidate, copies, histogram, new_first, new_second)
                accepted = new_value >= value
        if not accepted:  # only rounding is left: this is the maximum
            break
        change = 0.0
        for k in range(len(prior)):
            change = max(change, abs(candidate[k] / prior[k] - 1.0))
        prior, candidate = candidate, prior
        first, new_first = new_first, first
        second, new_second = new_second, second
        value, slope, bend = new_value, new_slope, new_bend
        if change < _TOLERANCE:
            break
    return prior


@njit(cache=True)
def _step_by_newton(prior, copies, first, second, slope, bend, floor, ceiling, out):
    """Newton's step for the reciprocals of the derivatives; False if it leaves the positive numbers.

    The equations are g_k(x_k) = c d(A), A = c sum x, c = `copies`. Both are sums of terms w / (x + i), well modelled by
    one term of the same value and derivative: g_k ~ p_k / (x_k + b_k), d ~ q / (A + r). Then they are linear, diagonal
    plus rank one. Parameters at an active bound do not change.
    """
    total = copies * prior.sum()
    power, shift = 0.0, 0.0
    for k in range(len(prior)):
        presses_down = prior[k] <= floor and first[k] < copies * slope
        presses_up = prior[k] >= ceiling and first[k] > copies * slope
        if presses_down or presses_up or not (first[k] > 0.0 and second[k] < 0.0):
            out[k] = prior[k] if presses_up else max(prior[k] / _MAX_FACTOR, floor)
            shift -= copies * out[k]
        else:
            out[k] = 0.0
            ratio = first[k] / -second[k]
            power += first[k] * ratio
            shift += copies * (ratio - prior[k])
    ratio = slope / -bend
    total_power, total_shift = slope * ratio, ratio - total
    if power == 0.0 or power >= total_power * (1.0 - 1e-9):
        return False
    new_total = (power * total_shift - total_power * shift) / (total_power - power)
    if not 0.0 < new_total < np.inf:
        return False
    scale = (new_total + total_shift) / (copies * total_power)
    for k in range(len(prior)):
        if out[k] == 0.0:
            ratio = first[k] / -second[k]
            raw = first[k] * ratio * scale - (ratio - prior[k])
            raw = min(max(raw, prior[k] / _MAX_FACTOR), prior[k] * _MAX_FACTOR)
            out[k] = min(max(raw, floor), ceiling)
    return True
