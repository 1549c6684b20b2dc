"""Random walk on the Conway sphere: Metropolis moves of subspaces of all dimensions."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...manifolds import log_rank_probabilities
from ...models import SubspaceWalkModel
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval, StrOptions
from .._base import BaseSampler
from .conway_kernels import draw_within, walk_subspaces

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

    def __init__(self, temperature: float | Literal["auto"] = 0.5, n_moves: int = 50) -> None:
        self.temperature = temperature
        self.n_moves = n_moves

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
