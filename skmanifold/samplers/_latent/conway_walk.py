"""Random walk on the Conway sphere: Metropolis moves of subspaces of all dimensions, and draws given a subspace.

In the kernels, the rows of a cluster enter by their number n, their mean and their scatter S about it. Points of the
sphere are stored as directions from its centre I/2, symmetric matrices of Frobenius norm one, so that an eigenvalue
above 1/2 corresponds to one above 0 here. The rows of a *frame* are the eigenvectors of a direction: those with
positive eigenvalues span the subspace, and the others are orthogonal to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...distributions._gamma import draw_ratio
from ...manifolds import log_rank_probabilities
from ...models import SubspaceWalkModel
from ...numerics.special import copy_to
from ...random._keys import Purpose, fold_in, subkey, uniform
from ...random._variates import exponential, normal
from ...utils._njit import njit
from ...utils._sklearn import Interval, StrOptions
from .._base import BaseSampler

_ROTATIONS, _OFFSETS = Purpose.ROTATIONS, Purpose.OFFSETS
_PROPOSAL, _ACCEPTANCE = Purpose.PROPOSAL, Purpose.ACCEPTANCE
_MAX_FEATURES = 50
_ACCEPTED = 0.35  # target acceptance rate of the tuning of step lengths
_LOG_SCALES = -20.0, math.log(4.0)  # a proposal of length four is nearly independent of the current point
_SEARCH_FROM, _SEARCH_TO = 1e4, 1e-8
_SEARCHED = 0.1  # acceptance rate at which the search ends


class Walk(NamedTuple):
    """What walks: a point of the sphere and an offset for each of K clusters, with the tuning of their steps."""

    directions: np.ndarray  # (K, m, m): points of the sphere less its centre, of Frobenius norm one
    offsets: np.ndarray  # (K, m)
    log_scales: np.ndarray  # (K, 2): of steps of directions and of offsets
    acceptance: np.ndarray  # (K, 2): shares of moves accepted in the last step
    temperature: float
    searching: bool  # for the temperature


class ConwayWalkState(NamedTuple):
    """One chain of `ConwayWalk`."""

    position: Any  # the weights, and the subspaces as ``parameters``
    key: np.uint64
    n_steps: int
    log_density: float
    latents: np.ndarray  # (n_rows,): the labels
    walk: Walk


@dataclass(eq=False, repr=False)
class ConwayWalk(BaseSampler):
    r"""Random walk on the Conway sphere: a Gibbs posterior of affine subspaces of unknown dimensions.

    The subspace of a cluster is a point s of `ConwaySphere`, rounded to the nearest projection P, so that no separate
    moves of its dimension d are necessary. With an offset :math:`\beta` the affine subspace contains
    :math:`\theta = (I - P) \beta`. The loss of row x is

    .. math:: g \, \|(I - P) (x - \beta)\|^2 + d,

    where g is the precision of the residuals. Given the labels, the points and offsets of clusters have the density

    .. math:: \exp\Bigl(-\psi \sum_i [g \|(I - P)(x_i - \beta)\|^2 + d]\Bigr) \, N(\beta; 0, \lambda I) \,
        \frac{p(d)}{\rho(d)}

    with respect to the surface area, for a prior with location 0. Here :math:`\rho(d)` is the probability that a
    uniform point rounds to dimension d (`log_rank_probabilities`). Without this factor the surface area would be a
    prior with almost all mass at d close to m / 2. A step makes `n_moves` Metropolis moves of every cluster: of its
    point by a Gaussian step and projection back to the sphere, of the eigenvalues of its point by rotations of pairs,
    and of its offset. The cost does not depend on the number of rows. Then the centres and precisions along the
    subspaces, the residual precisions and the weights are drawn from their conditionals under the normal likelihood.
    Labels are drawn with probabilities proportional to :math:`w_k e^{-\psi (g \|\cdot\|^2 + d)}`.

    This is the sampler of [1]_ with corrections: the embedding, centre and radius of the sphere; points that stay on
    the sphere; an offset whose part orthogonal to the subspace is always that of the current subspace; the prior of the
    offset in its moves; weights; the same loss for labels and subspaces; a dimensionless loss. The moves of eigenvalues
    are new. They keep the eigenvectors, so that the dimension can change when the data only allow short steps.

    .. warning::
        The loss is not a likelihood. So the stationary distribution is *not* the posterior of the mixture, and because
        some updates use the loss and others the likelihood, a joint distribution need not exist. A direction is in the
        subspace if the variance along it exceeds that of the residuals. For directions with equal variance the prior of
        the dimension decides, and dimensions are often too large. The walk also mixes slowly. Without rows it moves
        among all dimensions in hundreds of moves, for up to 30 features. With hundreds of rows about one move in a
        thousand changes the dimension for 3 features, and one in ten thousand for 8 features. Prefer `FrameGibbs`.

    Parameters
    ----------
    temperature : float or "auto", default=0.5
        Factor :math:`\psi` of the loss. With 1/2 the loss is that of the normal likelihood of residuals. "auto" is the
        search of [1]_: in the first half of burn-in it decreases by factors of ten until a tenth of the moves with
        steps of the length of the radius are accepted. This makes the walk move, but it is not inference: it does not
        estimate the weight of the data.
    n_moves : int, default=50
        Number of moves of each type for each cluster in a step.

    References
    ----------
    .. [1] B. St. Thomas, L. Lin, L.-H. Lim and S. Mukherjee, "Learning subspaces of different dimensions",
       arXiv preprint, 2014.

    Examples
    --------
    >>> from skmanifold.samplers import ConwayWalk
    >>> ConwayWalk(n_moves=100)
    ConwayWalk(n_moves=100)
    """

    short_name = "conway"
    state_types = (ConwayWalkState,)
    requires = (SubspaceWalkModel,)
    draws_parameters = True
    averages_passes = False
    _parameter_constraints: ClassVar[dict] = {
        "temperature": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "n_moves": [Interval(Integral, 1, None, closed="left")],
    }

    temperature: float | Literal["auto"] = 0.5
    n_moves: int = 50

    def init(self, model: SubspaceWalkModel, key: np.uint64) -> ConwayWalkState:
        """The initial state: the initial partition of highest likelihood, with points at its projections."""
        if model.n_features > _MAX_FEATURES:
            raise ValueError(
                f"ConwayWalk supports at most {_MAX_FEATURES} features, not {model.n_features}, because the "
                "distribution of ranks would take minutes: reduce the number of features, or use another sampler."
            )
        drawing = subkey(key, Purpose.INITIAL_LATENTS)
        levels = [self._log_likelihood(model, position, drawing) for _, position in model.beginnings]
        labels, position = model.beginnings[int(np.argmax(levels))]
        subspaces = position.parameters
        K, m = subspaces.centres.shape
        directions = np.empty((K, m, m))
        for k in range(K):
            basis = subspaces.basis(k)
            directions[k] = (basis.T @ basis - 0.5 * np.eye(m)) / (0.5 * math.sqrt(m))
        searching = self.temperature == "auto"
        temperature = _SEARCH_FROM if searching else float(self.temperature)
        walk = Walk(directions, subspaces.centres.copy(), np.zeros((K, 2)), np.zeros((K, 2)), temperature, searching)
        return ConwayWalkState(position, key, 0, -np.inf, labels, walk)

    def step(self, model: SubspaceWalkModel, state: ConwayWalkState) -> ConwayWalkState:
        """Move the subspaces, and draw the other parameters and the labels."""
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        before, walk = state.position.parameters, state.walk
        moments = model.moments(state.latents, before.centres)
        counts, means, scatters = moments.counts, moments.means, moments.scatters
        K, m = means.shape
        rows = counts, means, scatters, before.noise
        variance = model.family.centre_variance
        log_ranks = model.family.log_dimension - log_rank_probabilities(m)[: model.family.log_dimension.shape[1]]
        directions, offsets, frames = walk.directions.copy(), walk.offsets.copy(), np.empty((K, m, m))
        settings = walk.temperature, np.exp(walk.log_scales), self.n_moves, subkey(key, Purpose.STEP)
        dims, acceptance = walk_subspaces(directions, offsets, *rows, log_ranks, variance, *settings, frames)

        capacity = log_ranks.shape[1] - 1
        bases, ratios = np.zeros((K, capacity, m)), np.ones((K, capacity))
        centres, squares = before.centres.copy(), np.empty(K)
        priors = model.family.ratio_shape, variance, subkey(key, Purpose.COMPONENTS)
        draw_within(frames, dims, offsets, *rows, *priors, bases, ratios, centres, squares)
        noise = model.draw_noise(counts, squares, subkey(key, Purpose.NOISE_PRECISION))
        subspaces = before._replace(bases=bases, dims=dims, ratios=ratios, centres=centres, noise=noise)
        position = state.position._replace(weights=model.weights.draw(counts, key), parameters=subspaces)

        loss = subspaces._replace(ratios=np.zeros_like(ratios), noise=2.0 * walk.temperature * noise)
        offsets_of_loss = position.log_weights() - walk.temperature * dims
        labels, _ = model.draw_labels(loss, offsets_of_loss, subkey(key, Purpose.LABELS))
        log_likelihood = self._log_likelihood(model, position, subkey(key, Purpose.LABELS))
        walk = walk._replace(directions=directions, offsets=offsets, acceptance=acceptance)
        walk = _tune(walk, counts, state.n_steps, model.n_adapting)
        return ConwayWalkState(position, state.key, state.n_steps + 1, log_likelihood, labels, walk)

    def parameters(self, model: SubspaceWalkModel, state: ConwayWalkState) -> Any:
        """The parameters as drawn."""
        return state.position

    @staticmethod
    def _log_likelihood(model, position, key):
        offsets = position.log_weights() + position.parameters.log_offsets()
        return model.draw_labels(position.parameters, offsets, key)[1]


def _tune(walk: Walk, counts: np.ndarray, n_steps: int, n_adapting: int) -> Walk:
    """Tune the temperature, then the step lengths, towards target acceptance rates."""
    if n_steps >= n_adapting:
        return walk._replace(searching=False) if walk.searching else walk
    if walk.searching:
        held = counts > 0
        rate = walk.acceptance[held, 0].mean() if held.any() else 1.0
        colder = walk.temperature / 10.0
        done = rate >= _SEARCHED or colder < _SEARCH_TO or 2 * (n_steps + 1) >= n_adapting
        return walk._replace(searching=False) if done else walk._replace(temperature=colder)
    gain = 2.0 * (1.0 + n_steps) ** -0.6  # Robbins-Monro step
    log_scales = np.clip(walk.log_scales + gain * (walk.acceptance - _ACCEPTED), *_LOG_SCALES)
    return walk._replace(log_scales=log_scales)


# Moves


@njit(cache=True, nogil=True)
def walk_subspaces(
    directions, offsets, counts, means, scatters, noise, log_ranks, variance, temperature, scales, n_moves, key, frames
):
    """Move the direction, its eigenvalues, and the offset of each cluster in turn, `n_moves` times, in place.

    An affine subspace contains the part of its offset, (K, m), that is orthogonal to it. `counts`, `means` and
    `scatters` are moments of the rows of the clusters. The loss of a row, multiplied by `temperature`, is its squared
    distance times the precision `noise`, (K,), plus the dimension. `log_ranks`, (K, max_dimension + 1), is the log
    prior of each dimension minus the log of its probability under the surface area. `variance` is that of the normal
    prior of offsets, and `scales`, (K, 2), are step lengths of directions and offsets. The final frames are written to
    `frames`, (K, m, m), by ascending eigenvalue: the last d rows span the subspace.

    Returns the dimensions, (K,), and the acceptance rates of directions and offsets, (K, 2).
    """
    K = len(counts)
    dims, acceptance = np.empty(K, np.int64), np.zeros((K, 2))
    for k in range(K):
        child, n = fold_in(key, k), counts[k]
        of_loss = n, means[k], noise[k], log_ranks[k], temperature
        direction, offset, scatter = directions[k], offsets[k], scatters[k]
        values, frame, spreads = _spectrum(direction, scatter)
        for move in range(n_moves):
            step = fold_in(child, move)
            proposed = _propose(direction, scales[k, 0], fold_in(step, _PROPOSAL))
            new_values, new_frame, new_spreads = _spectrum(proposed, scatter)
            log_ratio = _log_density(new_values, new_frame, new_spreads, offset, *of_loss)
            log_ratio -= _log_density(values, frame, spreads, offset, *of_loss)
            if log_ratio > -exponential(step, _ACCEPTANCE):
                copy_to(direction, proposed)
                values, frame, spreads = new_values, new_frame, new_spreads
                acceptance[k, 0] += 1.0 / n_moves
            if _rotate_eigenvalues(values, frame, spreads, offset, *of_loss, fold_in(step, _ROTATIONS)):
                copy_to(direction, np.dot(np.ascontiguousarray(frame.T) * values, frame))
            pull = 2.0 * temperature * noise[k] * n
            if _move_offset(offset, values, frame, means[k], pull, variance, scales[k, 1], fold_in(step, _OFFSETS)):
                acceptance[k, 1] += 1.0 / n_moves
        order = np.argsort(values)
        for j in range(len(order)):
            copy_to(frames[k, j], frame[order[j]])
        dims[k] = (values > 0.0).sum()
    return dims, acceptance


@njit(cache=True, nogil=True)
def _spectrum(direction, scatter):
    """Eigenvalues, eigenvectors as rows, and the scatter along each."""
    values, vectors = np.linalg.eigh(direction)
    frame = np.ascontiguousarray(vectors.T)
    return values, frame, spreads_along(frame, scatter)


@njit(cache=True, nogil=True)
def spreads_along(frame, scatter):
    """The scatter along each row of a frame."""
    turned = np.dot(frame, scatter)
    out = np.zeros(len(frame))
    for j in range(len(frame)):
        for a in range(frame.shape[1]):
            out[j] += turned[j, a] * frame[j, a]
        out[j] = max(out[j], 0.0)
    return out


@njit(cache=True, nogil=True)
def _log_density(values, frame, spreads, offset, n, mean, noise, log_ranks, temperature):
    """Log density of a direction with respect to the surface area, up to a constant."""
    d, squares = 0, 0.0
    gaps = np.dot(frame, mean - offset)
    for j in range(len(values)):
        if values[j] > 0.0:
            d += 1
        else:
            squares += spreads[j] + n * gaps[j] * gaps[j]
    if d >= len(log_ranks):
        return -np.inf
    return log_ranks[d] - temperature * (noise * squares + n * d)


@njit(cache=True, nogil=True)
def _propose(direction, scale, key):
    """The direction plus a Gaussian symmetric matrix of expected squared norm scale^2, normalised to the sphere.

    The density of the proposal depends only on the angle between the two directions, so it is symmetric.
    """
    m = len(direction)
    out = np.empty((m, m))
    step = scale / math.sqrt(0.5 * m * (m + 1))
    counter, squares = 0, 0.0
    for a in range(m):
        for b in range(a):
            out[a, b] = direction[a, b] + step * math.sqrt(0.5) * normal(key, counter)
            squares += 2.0 * out[a, b] * out[a, b]
            counter += 1
        out[a, a] = direction[a, a] + step * normal(key, counter)
        squares += out[a, a] * out[a, a]
        counter += 1
    length = math.sqrt(squares)
    for a in range(m):
        out[a, a] /= length
        for b in range(a):
            out[a, b] /= length
            out[b, a] = out[a, b]
    return out


@njit(cache=True, nogil=True)
def _rotate_eigenvalues(values, frame, spreads, offset, n, mean, noise, log_ranks, temperature, key):
    """Metropolis moves that rotate pairs of eigenvalues by uniform angles, in place; returns whether one was accepted.

    Frame and sum of squares stay. Given the frame, the density under the surface area is proportional to the product of
    all distances between eigenvalues.
    """
    m = len(values)
    if m == 1:
        return False
    d = (values > 0.0).sum()
    gaps = np.dot(frame, mean - offset)
    moved = False
    for t in range(m):
        i = np.int64(m * uniform(key, 4 * t))
        j = (i + 1 + np.int64((m - 1) * uniform(key, 4 * t + 1))) % m
        angle = 2.0 * math.pi * uniform(key, 4 * t + 2)
        old_i, old_j = values[i], values[j]
        new_i = math.cos(angle) * old_i - math.sin(angle) * old_j
        new_j = math.sin(angle) * old_i + math.cos(angle) * old_j
        gain_i, gain_j = int(new_i > 0.0) - int(old_i > 0.0), int(new_j > 0.0) - int(old_j > 0.0)
        new_d = d + gain_i + gain_j
        if new_d >= len(log_ranks) or log_ranks[new_d] == -np.inf:
            continue
        saved = gain_i * (spreads[i] + n * gaps[i] * gaps[i]) + gain_j * (spreads[j] + n * gaps[j] * gaps[j])
        log_ratio = log_ranks[new_d] - log_ranks[d] + temperature * (noise * saved - n * (new_d - d))
        log_ratio += _log_product(new_i, new_j, i, j, values) - _log_product(old_i, old_j, i, j, values)
        if log_ratio > -exponential(key, 4 * t + 3):
            values[i], values[j] = new_i, new_j
            d = new_d
            moved = True
    return moved


@njit(cache=True, nogil=True)
def _log_product(x, y, i, j, values):
    """Log of the product of distances of x and y, at indices i and j, to each other and to all other eigenvalues."""
    total, product = 0.0, max(abs(x - y), 1e-150)
    for other in range(len(values)):
        if other != i and other != j:
            product *= max(abs((x - values[other]) * (y - values[other])), 1e-150)
            if product < 1e-150:  # all distances are below 2
                total += math.log(product)
                product = 1.0
    return total + math.log(product)


@njit(cache=True, nogil=True)
def _move_offset(offset, values, frame, mean, pull, variance, scale, key):
    """One Metropolis step of the offset, in place; returns whether it was accepted.

    The step's covariance is proportional to that of the offset given the subspace, so that steps orthogonal to it are
    shorter for more rows; it depends only on the subspace, so that the proposal is symmetric.
    """
    m = len(offset)
    place = np.dot(frame, offset)
    middle = np.dot(frame, mean)
    proposed = np.empty(m)
    log_ratio = 0.0
    for j in range(m):
        of_rows = 0.0 if values[j] > 0.0 else pull
        proposed[j] = place[j] + scale * normal(key, j) / math.sqrt(m * (of_rows + 1.0 / variance))
        change = proposed[j] - place[j]
        both = proposed[j] + place[j]
        log_ratio -= 0.5 * change * (of_rows * (both - 2.0 * middle[j]) + both / variance)
    if log_ratio > -exponential(key, m):
        copy_to(offset, np.dot(proposed, frame))
        return True
    return False


# Given subspaces


@njit(cache=True, nogil=True)
def draw_within(
    frames, dims, offsets, counts, means, scatters, noise, shape, variance, key, bases, ratios, centres, squares
):
    """Draw ratios of precisions and centres of clusters along their subspaces, each given the other.

    Arguments have the names of `walk_subspaces`. The prior of the ratios is Beta(shape, 1), and that of centres is
    normal with this variance. `centres`, (K, m), are those of the previous step, from which the ratios are drawn, and
    are replaced. Written are `bases`, (K, max_dimension, m), the principal axes of the rows within the subspace;
    `ratios`; and `squares`, (K,), sums over rows of squares about the centre, those along the subspace multiplied by
    their ratios.
    """
    m = offsets.shape[1]
    for k in range(len(dims)):
        n, d = counts[k], dims[k]
        q = m - d
        child = fold_in(key, k)
        before = centres[k].copy()
        # The part of the offset orthogonal to the current subspace.
        copy_to(centres[k], np.dot(np.dot(frames[k], offsets[k])[:q], frames[k][:q]))
        squares[k] = (spreads_along(frames[k], scatters[k])[:q]).sum()
        squares[k] += n * np.square(np.dot(frames[k], means[k] - centres[k])[:q]).sum()
        if d == 0:
            continue
        within = frames[k][q:]
        _, axes = np.linalg.eigh(np.dot(np.dot(within, scatters[k]), np.ascontiguousarray(within.T)))
        copy_to(bases[k, :d], np.dot(np.ascontiguousarray(axes.T), within)[::-1])
        for j in range(d):
            axis, draw = bases[k, j], fold_in(child, j)
            middle = np.dot(axis, means[k])
            spread = max(np.dot(np.dot(scatters[k], axis), axis), 0.0)
            scatter = spread + n * (middle - np.dot(axis, before)) ** 2
            ratio = draw_ratio(fold_in(draw, 0), shape + 0.5 * n, 0.5 * noise[k] * scatter)
            of_rows = n * ratio * noise[k]
            precision = of_rows + 1.0 / variance
            place = of_rows * middle / precision + normal(fold_in(draw, 1), 0) / math.sqrt(precision)
            centres[k] += place * axis
            ratios[k, j] = ratio
            squares[k] += ratio * (spread + n * (middle - place) ** 2)
