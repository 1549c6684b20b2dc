"""Kernels of mean-field inference for the spherical admixture: updates of documents and of topics.

Topics are word-major, so that the words of a document are rows: ``topics[v, k]`` is an entry of the natural parameter
of topic k, its concentration times its direction. Its expectation is ``gains[k] * topics[:, k]``. A document's factor
is a Dirichlet distribution with parameters ``shapes[row]``. `variational` has the formulas. Each output is written by
one task, and sums are over fixed blocks or in the order of the documents, so that the result does not depend on how
ranges are distributed over threads.
"""

import math

import numpy as np

from ...distributions._bessel import compute_derivative, compute_log_peak, compute_ratio
from ...numerics.block_sums import dot
from ...topics.document_densities import (
    OneConcentration,
    TopicConcentrations,
    concentration_at,
    ratio_slope_terms,
    relative_terms,
)
from ...utils._njit import by_type, njit, njit_part
from .._lda.dirichlet_mle_kernels import _log_gamma

_MAX_MOVE = 3.0  # largest change of the logarithm of a shape in one step
_N_HALVINGS = 30
_SUFFICIENT = 1e-4  # Armijo's constant: least increase relative to the slope times the step
_LEAST_SHAPE = 1e-8
_LARGEST_SHAPE = 1e10


# Documents


@njit(cache=True, nogil=True)
def fit_rows(start, stop, projections, overlaps, prior, density, n_steps, tol, out_shapes, out_weights, out_coupling):
    """Maximise the factors of the documents from `start` to `stop`; returns their terms in the objective.

    These are the sum of concentration * (cosine - 1) - KL, and of `add_spread` if each topic has its own concentration.
    Also written are the weight of each document in each topic, and the sum of couplings between pairs of topics, with a
    zero diagonal, both relative to the reference concentration.
    """
    n_components = len(prior)
    prior_total, prior_constant = _dirichlet_constant(prior)
    scratch = np.empty((12, n_components))
    curvature = np.empty((2, n_components, n_components))
    out_coupling[:] = 0.0
    value = 0.0
    for row in range(start, stop):
        b, shapes = projections[row], out_shapes[row]
        maximum = _maximize_row(b, overlaps, prior, prior_total, density, n_steps, tol, shapes, scratch, curvature)
        value += maximum + prior_constant
        total, along, square = _row_moments(shapes, b, overlaps, scratch[0])
        scale = math.sqrt(1.0 + 1.0 / total) / math.sqrt(square) * relative_terms(density, shapes)[0]
        for k in range(n_components):
            out_weights[row, k] = scale * shapes[k]
        factor = along / square
        for j in range(n_components):
            weight = factor * out_weights[row, j]
            for k in range(n_components):
                out_coupling[j, k] += weight * shapes[k]
    for k in range(n_components):
        out_coupling[k, k] = 0.0
    return value


@njit(cache=True, nogil=True)
def score_rows(start, stop, projections, overlaps, prior, density, shapes):
    """Terms in the objective of the documents from `start` to `stop`, and the sum of their cosines."""
    prior_total, prior_constant = _dirichlet_constant(prior)
    scratch = np.empty((3, len(prior)))
    given = (overlaps, prior, prior_total, density, scratch[0], scratch[1], scratch[2])
    value, cosines = 0.0, 0.0
    for row in range(start, stop):
        part, cosine = _evaluate_row(shapes[row], projections[row], *given)[:2]
        value += part + prior_constant
        cosines += cosine
    return value, cosines


@njit(cache=True, nogil=True)
def _dirichlet_constant(prior):
    """Sum of the prior's parameters, and the part of -KL that depends only on the prior."""
    total = prior.sum()
    constant = _log_gamma(total)[0]
    for k in range(len(prior)):
        constant -= _log_gamma(prior[k])[0]
    return total, constant


@njit(cache=True, nogil=True)
def _row_moments(shapes, b, overlaps, out_slope):
    """Return sum a, a'b and a'Ba + sum a for the shapes a, and write the gradient of the last."""
    total, along, square = 0.0, 0.0, 0.0
    for k in range(len(shapes)):
        mixed = dot(overlaps[k], shapes)
        out_slope[k] = 2.0 * mixed + 1.0
        total += shapes[k]
        along += shapes[k] * b[k]
        square += shapes[k] * mixed
    return total, along, square + total


# numpy's error model does not raise on a division by zero; a check for it would prevent vectorisation of the loops.
@njit(cache=True, nogil=True, error_model="numpy")
def _evaluate_row(shapes, b, overlaps, prior, prior_total, density, out_gradient, out_slope, out_trigamma):
    """A document's term in the objective without the prior's constant, its cosine, and the gradient in the shapes."""
    concentration = concentration_at(density, shapes)
    total, along, square = _row_moments(shapes, b, overlaps, out_slope)
    widening = math.sqrt(1.0 + 1.0 / total)
    root = 1.0 / math.sqrt(square)
    cosine = widening * along * root
    total_gammas = _log_gamma(total)
    total_excess = total - prior_total
    value = concentration * (cosine - 1.0) - total_gammas[0] + total_excess * total_gammas[1]
    shared = total_excess * total_gammas[2] - 0.5 * concentration * cosine / (total * (total + 1.0))
    of_b = concentration * widening * root
    of_slope = -0.5 * concentration * cosine * root * root
    for k in range(len(shapes)):
        log_gamma, digamma, trigamma = _log_gamma(shapes[k])
        excess = shapes[k] - prior[k]
        value += log_gamma - excess * digamma
        out_trigamma[k] = trigamma
        out_gradient[k] = shared + of_b * b[k] + of_slope * out_slope[k] - excess * trigamma
    value += add_spread(density, shapes, total, cosine, out_gradient)
    return value, cosine, total, along, square


@njit(cache=True, nogil=True)
def _maximize_row(b, overlaps, prior, prior_total, density, n_steps, tol, out_shapes, scratch, curvature):
    """Newton's method with line search in the logarithms of a document's shapes.

    Returns the objective without the prior's constant. It stops when the predicted increase of a step is below `tol`.
    """
    n_components = len(prior)
    gradient, slope, trigamma, step, trial = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    new_gradient, new_slope, new_trigamma = scratch[5], scratch[6], scratch[7]
    data = (b, overlaps, prior, prior_total, density)
    value, _, total, along, square = _evaluate_row(out_shapes, *data, gradient, slope, trigamma)
    for _ in range(n_steps):
        _fill_curvature(out_shapes, *data, total, along, square, gradient, slope, trigamma, curvature[0])
        add_spread_curvature(density, out_shapes, b, total, along, square, slope, scratch[9:], curvature[0])
        # The gradient in the logarithms of shapes, in place of the step, for which the damped system is solved.
        for k in range(n_components):
            step[k] = out_shapes[k] * gradient[k]
            scratch[8, k] = step[k]
        _solve_damped(curvature[0], curvature[1], step)
        promised, largest = 0.0, 0.0
        for k in range(n_components):
            promised += step[k] * scratch[8, k]
            largest = max(largest, abs(step[k]))
        # By Newton's model a full step gains half of the product of step and gradient.
        if not promised > 2.0 * tol:
            break
        # Halve the step until the objective increases by a share of what the gradient promises (Armijo's rule).
        length = min(1.0, _MAX_MOVE / largest)
        accepted = False
        for _ in range(_N_HALVINGS):
            for k in range(n_components):
                moved = out_shapes[k] * math.exp(length * step[k])
                trial[k] = min(max(moved, _LEAST_SHAPE), _LARGEST_SHAPE)
            new_value, _, new_total, new_along, new_square = _evaluate_row(
                trial, *data, new_gradient, new_slope, new_trigamma
            )
            accepted = new_value >= value + _SUFFICIENT * length * promised
            if accepted:
                break
            length *= 0.5
        if not accepted:  # the maximum up to rounding
            break
        for k in range(n_components):  # the assignment of a slice would compile numba's errors of shapes
            out_shapes[k] = trial[k]
        value, total, along, square = new_value, new_total, new_along, new_square
        gradient, new_gradient = new_gradient, gradient
        slope, new_slope = new_slope, slope
        trigamma, new_trigamma = new_trigamma, trigamma
    return value


@njit(cache=True, nogil=True)
def _tetragamma(x):
    """Second derivative of the digamma function at x > 0, by Stirling's series for x >= 10."""
    value = 0.0
    while x < 10.0:
        value -= 2.0 / (x * x * x)
        x += 1.0
    r = 1.0 / x
    q = r * r
    series = 1 / 6 - q * (1 / 6 - q * (3 / 10 - q * (5 / 6 - q * (691 / 210 - q * 35 / 2))))
    return value - q * (1.0 + r + q * (0.5 - q * series))


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_curvature(
    shapes, b, overlaps, prior, prior_total, density, total, along, square, gradient, slope, trigamma, out
):
    """Write minus the second derivatives in the logarithms of the shapes: the lower triangle."""
    concentration = concentration_at(density, shapes)
    widening = math.sqrt(1.0 + 1.0 / total)
    first = -0.5 / (total * total * widening)
    second = 1.0 / (total**3 * widening) - 0.25 / (total**4 * widening**3)
    root = 1.0 / math.sqrt(square)
    cube = root / square
    of_total = _log_gamma(total)[2] + (total - prior_total) * _tetragamma(total)
    of_none = concentration * second * along * root + of_total
    of_b = concentration * first * root
    of_slope = -0.5 * concentration * first * along * cube
    of_both = -0.5 * concentration * widening * cube
    of_slopes = 0.75 * concentration * widening * along * cube / square
    of_overlap = -concentration * widening * along * cube
    for j in range(len(shapes)):
        none = of_none + of_b * b[j] + of_slope * slope[j]
        with_b = of_b + of_both * slope[j]
        with_slope = of_slope + of_both * b[j] + of_slopes * slope[j]
        for k in range(j + 1):
            second_derivative = none + with_b * b[k] + with_slope * slope[k] + of_overlap * overlaps[j, k]
            out[j, k] = -shapes[j] * shapes[k] * second_derivative
        diagonal = shapes[j] * (trigamma[j] + (shapes[j] - prior[j]) * _tetragamma(shapes[j]))
        out[j, j] += shapes[j] * (diagonal - gradient[j])


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_damped(matrix, factor, out):
    """Solve a linear system with a symmetric matrix (lower triangle), damped until it is positive definite."""
    n = len(out)
    largest = 0.0
    for j in range(n):
        largest = max(largest, abs(matrix[j, j]))
    damping = 0.0
    # An infinite damping means that the matrix has NaN.
    while damping < np.inf and not _factorize(matrix, damping, 1e-10 * largest + 1e-12, factor):
        damping = max(10.0 * damping, 1e-3 * largest, 1e-6)
    for j in range(n - 1, -1, -1):
        out[j] /= factor[j, j]
        for k in range(j):
            out[k] -= factor[j, k] * out[j]
    for j in range(n):
        for k in range(j):
            out[j] -= factor[j, k] * out[k]
        out[j] /= factor[j, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _factorize(matrix, damping, least, out):
    """Write the lower triangle L with L'L = matrix + damping * I; return False if a pivot is not above `least`.

    The last row is eliminated first, so that all inner loops begin at 0 and are vectorised.
    """
    n = len(matrix)
    for j in range(n):
        for k in range(j + 1):
            out[j, k] = matrix[j, k]
        out[j, j] += damping
    for j in range(n - 1, -1, -1):
        pivot = out[j, j]
        if not pivot > least:
            return False
        inverse = 1.0 / math.sqrt(pivot)
        for k in range(j + 1):
            out[j, k] *= inverse
        for i in range(j):
            factor = out[j, i]
            for k in range(i + 1):
                out[i, k] -= factor * out[j, k]
    return True


# With a concentration for each topic, that of a document has under its factor Dir(a), s = sum_k a_k, the mean
# m = a'kappa / s and the variance v = sum_k a_k (kappa_k - m)^2 / (s (s + 1)). Its terms in the objective are m cosine,
# and here log c(m) - psi(m) v / 2, an expansion of E log c(kappa(theta)) to second order.


@by_type
def add_spread(density, shapes, total, cosine, out):
    """The terms that depend on the document's concentration alone; its derivatives are added to the gradient `out`."""


@by_type
def add_spread_curvature(density, shapes, b, total, along, square, slope, scratch, out):
    """Add minus the second derivatives that the document's concentration causes: the lower triangle."""


@add_spread.of(OneConcentration)
@njit_part
def _add_no_spread(density, shapes, total, cosine, out):
    return 0.0


@add_spread_curvature.of(OneConcentration)
@njit_part
def _add_no_curvature(density, shapes, b, total, along, square, slope, scratch, out):
    pass


@njit_part
def _spread(density, shapes, total, mean):
    """Variance of the concentrations of the topics, weighted by their mean proportions."""
    squares = 0.0
    for k in range(len(shapes)):
        squares += shapes[k] * (density.concentrations[k] - mean) ** 2
    return squares / total


@add_spread.of(TopicConcentrations)
@njit_part
def _add_spread_of_topics(density, shapes, total, cosine, out):
    mean, order = concentration_at(density, shapes), density.order
    spread, (value, first, _) = _spread(density, shapes, total, mean), ratio_slope_terms(order, mean)
    variance = spread / (total + 1.0)
    gap = (cosine - compute_ratio(order, mean) - 0.5 * first * variance) / total
    for k in range(len(out)):
        deviation = density.concentrations[k] - mean
        of_variance = ((deviation * deviation - spread) / total - variance) / (total + 1.0)
        out[k] += gap * deviation - 0.5 * value * of_variance
    return compute_log_peak(order, mean) - 0.5 * value * variance


@add_spread_curvature.of(TopicConcentrations)
@njit_part
def _add_curvature_of_topics(density, shapes, b, total, along, square, slope, scratch, out):
    mean, order, inverse = concentration_at(density, shapes), density.order, 1.0 / (total + 1.0)
    spread, (value, first, second) = _spread(density, shapes, total, mean), ratio_slope_terms(order, mean)
    variance, ratio = spread * inverse, compute_ratio(order, mean)
    factor = math.sqrt((1.0 + 1.0 / total) / square)
    cosine = factor * along
    gap = (cosine - ratio - 0.5 * first * variance) / total
    bend = 0.5 * (value * inverse - compute_derivative(order, mean, ratio) - 0.5 * second * variance)
    # A second derivative is x_j p_k + p_j x_k + y_j + y_k, where p is the gradient of the mean.
    p, x, y = scratch[0], scratch[1], scratch[2]
    for k in range(len(shapes)):
        deviation = density.concentrations[k] - mean
        of_spread = (deviation * deviation - spread) / total
        of_cosine = factor * b[k] - 0.5 * cosine * (slope[k] / square + inverse / total)
        p[k] = deviation / total
        x[k] = of_cosine - 0.5 * first * (of_spread - variance) * inverse + bend * p[k]
        y[k] = 0.5 * value * inverse * (of_spread * (1.0 / total + inverse) - variance * inverse) - gap * p[k]
    for j in range(len(shapes)):
        for k in range(j + 1):
            out[j, k] -= shapes[j] * shapes[k] * (x[j] * p[k] + p[j] * x[k] + y[j] + y[k])


# Topics


@njit(cache=True, nogil=True)
def solve_topics(products, coupling, strength, mean_strength, rate, dim, n_sweeps, tol, out):
    """Solve eta_k = (1 - rate) old_k + strength * (weighted_k - coupled topics) + mean_strength * mean for all topics.

    All vectors combine the 2 K + 1 vectors old, weighted and mean with Gram matrix `products`: row k of `out` has the
    coefficients of topic k. Gauss-Seidel, until none changes by more than `tol` relative to its length; each solution
    increases the objective for fixed document sums.
    """
    n_topics = len(coupling)
    gains = np.empty(n_topics)
    new = np.empty(out.shape[1])
    out[:] = 0.0
    for k in range(n_topics):
        out[k, k] = 1.0
        gains[k] = _gain(dim, math.sqrt(products[k, k]))
    for _ in range(n_sweeps):
        largest = 0.0
        for k in range(n_topics):
            new[:] = 0.0
            for j in range(n_topics):
                factor = strength * coupling[j, k] * gains[j]
                for i in range(len(new)):
                    new[i] -= factor * out[j, i]
            new[k] += 1.0 - rate
            new[n_topics + k] += strength
            new[2 * n_topics] += mean_strength
            square = _square(products, new)
            for i in range(len(new)):
                out[k, i] -= new[i]
            change = _square(products, out[k])
            for i in range(len(new)):
                out[k, i] = new[i]
            gains[k] = _gain(dim, math.sqrt(max(square, 0.0)))
            if square > 0.0:
                largest = max(largest, change / square)
        if largest <= tol * tol:
            break


@njit(cache=True, nogil=True)
def _square(products, coefficients):
    total = 0.0
    for j in range(len(coefficients)):
        total += coefficients[j] * dot(products[j], coefficients)
    return total


@njit(cache=True, nogil=True)
def _gain(dim, concentration):
    """A_V(x) / x, with its limit 1 / V at 0."""
    if concentration == 0.0:
        return 1.0 / dim
    return compute_ratio(0.5 * dim - 1.0, concentration) / concentration


@njit(cache=True, nogil=True)
def expectation_gains(dim, concentrations):
    """The factors that turn natural parameters of these lengths into expectations."""
    out = np.empty(len(concentrations))
    for k in range(len(out)):
        out[k] = _gain(dim, concentrations[k])
    return out
