"""Checks of a sampler against its complete recipe, and the converse in the plane: the curl of a given diffusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from ...models import HasCounts, HasGradient, HasLogDensity, HasLogNormalMean, check_compatible
from ...models._minibatch import covariance_matrices
from ...numerics.linalg import times
from ...random._keys import Purpose, root_key, subkey
from ...random._variates import derived_keys
from ...utils._parameters import offers
from ...utils._typing import ArrayLike, RandomStateLike
from .base import ManifoldSampler
from .check_steps import (
    Case,
    check_gradient_noise,
    check_reflection,
    check_steps,
    check_trajectory,
    check_wall,
    compare,
    compare_mean,
    compare_moment,
    drift_terms,
    gradient_at,
    mean_and_error,
    second_moment,
    worst_entry,
)
from .metric import divergence_of, positive_part
from .recipe import HasRecipe, InvalidRecipeError, format_point, invalid_matrices, joint_state

_N_DRAWS = 2000  # number of draws of auxiliary variables, to integrate them out
_FAR = 6.0  # added to the absolute values of the auxiliary variables of one point
_FALSE_ALARMS = 1e-6  # probability that any Monte Carlo comparison fails for a correct sampler


def _line(words: str, missing: str = "") -> Any:
    return field(metadata={"words": words, "missing": missing})


@dataclass(frozen=True, repr=False)
class RecipeReport:
    """The results of `check_recipe`: the worst value of each comparison, or None if it did not apply.

    Residuals are relative to the terms of the compared sums. Scores are deviations in units of standard errors, which
    include a tolerance for bias.

    Attributes
    ----------
    sampler : str
        Class of the sampler.
    n_points : int
        Number of points.
    threshold : float
        Largest score that passes.
    least_eigenvalue : float
        Least eigenvalue of D.
    symmetry : float
        Largest entry of Q + Q'.
    correction : float or None
        Residual of the correction; None if it is computed from D and Q.
    gradient : float or None
        Residual of the gradient of the target; None without a log density.
    estimate : float or None
        Score of the estimated gradient; None if the gradient is exact.
    marginal : float or None
        Score of the integral of exp(-K) over auxiliary variables; None if it does not depend on x.
    fokker_planck : float
        Residual of the stationary Fokker-Planck equation.
    drift : float or None
        Residual of the parameter `drift`; None if it is not given.
    step_mean : float
        Score of the mean of steps.
    step_covariance : float
        Score of the covariance of steps.
    trajectory : float or None
        Score of the mean over many steps; None for a `Recipe`, whose steps are all the same.
    gradient_noise : float or None
        Score of steps with noisy gradients; None without gradients, or if D is too small to compensate for their noise.
    reflection : float or None
        Momentum after reflection relative to the reversed one; None without a boundary or momentum.
    wall : float or None
        Fraction of positions clipped at a boundary; None without a boundary, or for an exact process.
    """

    sampler: str
    n_points: int
    threshold: float
    least_eigenvalue: float = _line("least eigenvalue of D")
    symmetry: float = _line("largest entry of Q + Q'")
    correction: float | None = _line("residual of the correction", "computed from D and Q")
    gradient: float | None = _line("residual of the target's gradient", "no log density")
    estimate: float | None = _line("score of the estimated gradient", "the gradient is exact")
    marginal: float | None = _line("score of the integral over auxiliary variables", "energy does not depend on x")
    fokker_planck: float = _line("residual of the Fokker-Planck equation")
    drift: float | None = _line("residual of the parameter drift", "the parameter is not given")
    step_mean: float = _line("score of the step's mean")
    step_covariance: float = _line("score of the step's covariance")
    trajectory: float | None = _line("score of the mean over many steps", "all steps are the same")
    gradient_noise: float | None = _line("score of steps with noisy gradients", "no gradient, or D is too small")
    reflection: float | None = _line("momentum after reflection, 1 if reversed", "no boundary or no momentum")
    wall: float | None = _line("fraction of positions clipped at a boundary", "no boundary, or an exact process")

    def __repr__(self) -> str:
        passed = f"passed at {self.n_points} points (scores accepted up to {self.threshold:.2f})"
        lines = [f"RecipeReport: {self.sampler} {passed}"]
        for name, info in self.__dataclass_fields__.items():
            if words := info.metadata.get("words"):
                value = getattr(self, name)
                lines.append(f"  {words}: {info.metadata['missing'] if value is None else format(value, '.2g')}")
        return "\n".join(lines)


def check_recipe(
    sampler: ManifoldSampler,
    target: HasGradient | HasCounts | HasLogNormalMean,
    *,
    points: ArrayLike | None = None,
    n_points: int = 5,
    n_chains: int = 4096,
    tolerance: float = 1e-6,
    random_state: RandomStateLike = 0,
) -> RecipeReport:
    r"""Check that a sampler leaves its target invariant, and that its steps agree with its recipe.

    It checks these conditions in this order, at some points z = (position, auxiliary variables):

    1. D is positive semi-definite and Q is skew-symmetric.
    2. The parameter `correction`, if given, is :math:`\Gamma_i = \sum_j \partial_j (D_{ij} + Q_{ij})`.
    3. The gradient of the target is that of its log density, and estimates of it have the correct mean and the
       covariance `noise_covariance`.
    4. :math:`\int \exp(-K) da` over the auxiliary variables does not depend on x.
    5. The drift f solves the stationary Fokker-Planck equation ([1]_, eq. 4),
       :math:`\sum_i \partial_i (f_i p) = \sum_{ij} \partial_i \partial_j (D_{ij} p)` with :math:`p = \exp(-H)`. The
       parameter `drift`, if given, is :math:`-(D + Q) \nabla H + \Gamma`.
    6. Steps of the sampler from z have this drift as their mean and 2 D as their covariance, per unit of time.
    7. The mean over many steps, as many as in a trajectory, also agrees, so that all steps are correct.
    8. The sampler compensates for gradient noise if and only if ``noise_covariance="model"``, and each inner step
       evaluates a new gradient.
    9. A step across the boundary of the space reverses the momentum and reflects the position: chains from different
       initial positions near the boundary do not end at the same position.

    The steps have much smaller step sizes than that of the sampler, exact gradients (in 8., with normal noise) and no
    control variates. The mean is estimated from three step sizes with the same keys, so that noise proportional to the
    square root of the step size cancels. (Random numbers that do not depend on the keys would hide small errors.)

    Errors of less than 0.2% of the terms of the drift are not detected. How small an error of the noise is detected
    depends on `n_chains`. With the default, an excess of its variance by 10% was never detected in six runs with
    different seeds, 12% once and 15% always; with 65,536 chains 5% was always detected and 3% never. Errors that only
    occur at large step sizes are not detected either: this function does not test the integrator. One of the random
    points has large auxiliary variables (6 and more), so a velocity that is clipped below this value is detected. The
    function does not detect errors outside of the region of the points, such as a gradient that is clipped at larger
    values (pass `points` there); errors that occur less often than every 128 steps; and wrong boundaries that neither
    keep the momentum nor clip the position. For a sampler without a momentum only clipped positions are detected.
    Therefore also compare the moments of a long run with known ones.

    Parameters
    ----------
    sampler : Recipe or BaseSampler
        A sampler on a flat space or a positive orthant, with a method ``recipe(model)`` that declares D, Q and the
        energy of z: the ``position`` of its state, its ``momentum`` and its ``thermostat``, if it has them, flattened.
    target : HasGradient
        A density, preferably with a log density, whose coordinates are of the order of one.
    points : array-like of shape (n_points, nz), optional
        Points z. By default random points of the manifold (not close to the boundary) with standard normal auxiliary
        variables; those of the last point are larger by 6.
    n_points : int, default=5
        Number of random points.
    n_chains : int, default=4096
        Number of chains, which start at each point.
    tolerance : float, default=1e-6
        Maximum of residuals, relative to the terms of their sums.
    random_state : None, int or RandomState, default=0
        Seed of points and chains.

    Returns
    -------
    RecipeReport
        The worst value of each comparison.

    Raises
    ------
    InvalidRecipeError
        If a condition fails. The message states the first one, the point and the deviation.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.

    Examples
    --------
    >>> from skmanifold.manifolds import Euclidean
    >>> from skmanifold.models import Density
    >>> from skmanifold.samplers import SGLD, check_recipe
    >>> target = Density(Euclidean(2), lambda x: -x, lambda x: -0.5 * (x * x).sum(axis=1), vectorized=True)
    >>> report = check_recipe(SGLD(), target)
    >>> report.fokker_planck < 1e-6
    True
    """
    if not offers(sampler, HasRecipe):
        raise TypeError(f"check_recipe needs a sampler with a method recipe(model); {type(sampler).__name__} has none.")
    check_compatible(sampler, target)
    sampler = clone(sampler)
    recipe = sampler.recipe(target)
    recipe._validate_params()
    key = root_key(random_state)
    nz = target.manifold.size + recipe.n_auxiliary
    positive = positive_part(target.manifold, nz)
    z = _random_points(target.manifold, positive, n_points, key) if points is None else _given_points(points, positive)
    keys = derived_keys(np.arange(n_chains, dtype=np.uint64), subkey(key, Purpose.CHAIN))
    threshold = float(-ndtri(_FALSE_ALARMS / 2 / (len(z) * 4 * (nz + nz**2))))
    case = Case(type(sampler).__name__, sampler, recipe, target, z, positive, keys, tolerance, threshold)
    diffusion, curl = recipe._matrices(z)
    if wrong := invalid_matrices(diffusion, curl, z):
        raise InvalidRecipeError(f"{case.name}'s {wrong}.")
    length = joint_state(sampler.init(target, keys[:1])).shape[1]
    if length != nz:
        raise InvalidRecipeError(f"{case.name}'s recipe has {nz} variables, but its state has {length}.")
    return RecipeReport(
        sampler=case.name,
        n_points=len(z),
        threshold=threshold,
        least_eigenvalue=float(np.linalg.eigvalsh(diffusion).min()),
        symmetry=float(np.abs(curl + curl.mT).max()),
        correction=_check_correction(case),
        gradient=_check_gradient(case),
        estimate=_check_estimate(case),
        marginal=_check_marginal(case),
        fokker_planck=_check_fokker_planck(case),
        drift=_check_drift(case),
        **check_steps(case),
        trajectory=check_trajectory(case),
        gradient_noise=check_gradient_noise(case),
        reflection=check_reflection(case),
        wall=check_wall(case),
    )


def _random_points(manifold, positive: np.ndarray, n_points: int, key: np.uint64) -> np.ndarray:
    rng = np.random.default_rng(int(key))
    z = rng.standard_normal((n_points, len(positive)))
    for point in z:
        point[: manifold.size] = manifold.random_point(rng).reshape(-1)
    far = z[-1, manifold.size :]
    far += np.copysign(_FAR, far)
    z[:, positive] += 0.1  # functions are not smooth at the boundary
    return z


def _given_points(points: Any, positive: np.ndarray) -> np.ndarray:
    z = np.array(points, dtype=np.float64)
    if z.ndim != 2 or z.shape[1] != len(positive) or not len(z):
        raise ValueError(f"points must be of shape (n_points, {len(positive)}); got {z.shape}.")
    if not np.isfinite(z).all() or not (z[:, positive] > 0).all():
        raise ValueError("points must be finite, and inside the space.")
    return z


def _check_correction(case: Case) -> float | None:
    recipe, z = case.recipe, case.z
    if recipe.correction is None and recipe.derivative == "central":
        return None
    right = recipe._derived_correction(z, case.positive, "central")
    used = np.broadcast_to(recipe._correction_at(z, case.positive), right.shape)
    terms = times(np.abs(sum(recipe._matrices(z))), 1 / case.scale(z))
    what = "correction is not the divergence of D + Q"
    return compare(case, used, right, terms, what, "sum_j d_j (D_ij + Q_ij)")


def _check_gradient(case: Case) -> float | None:
    target, size = case.target, case.target.manifold.size
    if not offers(target, HasLogDensity):
        return None
    x, scale = case.z[:, :size].copy(), case.scale(case.z)[:, :size]

    def value(points: np.ndarray) -> np.ndarray:
        return np.repeat(target.log_density(points.reshape(-1, *target.manifold.shape))[:, None], size, axis=1)

    right = divergence_of(value, x, case.positive[:size])
    terms = (1 + 1e-3 * np.abs(value(x))) / scale  # rounding errors grow with log p
    what = "target has a wrong gradient"
    return compare(case, case.gradient(case.z), right, terms, what, "the derivative of its log density")


def _check_estimate(case: Case) -> float | None:
    """Check the mean of gradient estimates from many keys, and their covariance if the target declares one."""
    target, size, worst = case.target, case.target.manifold.size, 0.0
    true, declared = case.gradient(case.z), target.noise_covariance
    for k, point in enumerate(case.z[:, :size]):
        estimates = gradient_at(target, np.tile(point, (len(case.keys), 1)), derived_keys(case.keys, k))
        if declared is None and (estimates == estimates[0]).all() and np.allclose(estimates[0], true[k], rtol=1e-9):
            return None
        estimate = mean, _ = mean_and_error(estimates)
        allowed = case.tolerance * (np.abs(true[k]) + np.abs(mean) + 1)
        what = "target has a biased estimate of its gradient: the mean of entry"
        worst = max(worst, compare_mean(case, k, estimate, true[k], allowed, what, "the gradient"))
        if declared is not None:
            right = covariance_matrices(declared, point.reshape(1, *target.manifold.shape))[0]
            moment = second_moment(estimates - mean)
            worst = max(worst, compare_moment(case, k, moment, right, "target's gradient noise", "noise_covariance"))
    return worst


def _check_marginal(case: Case) -> float | None:
    """Check the gradient in x of log int exp(-K) da, by importance sampling from a multivariate t distribution."""
    recipe, size, worst = case.recipe, case.target.manifold.size, None
    if recipe.hamiltonian is None or not recipe.n_auxiliary:
        return None
    rng = np.random.default_rng(int(case.keys[1]))
    a = rng.standard_normal((_N_DRAWS, recipe.n_auxiliary)) / np.sqrt(rng.chisquare(3, (_N_DRAWS, 1)) / 3)
    log_proposal = -(3 + recipe.n_auxiliary) / 2 * np.log1p((a**2).sum(axis=1) / 3)

    def energy(x: np.ndarray) -> np.ndarray:
        return np.repeat(recipe._at("hamiltonian", (), np.hstack([x, a]))[:, None], size, axis=1)

    for k, z in enumerate(case.z[:2]):
        x = np.tile(z[:size], (_N_DRAWS, 1))
        weight = -energy(x)[:, 0] - log_proposal
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        if (weight**2).sum() > 20 / _N_DRAWS:
            continue  # the proposal does not cover the distribution of a
        slopes = divergence_of(energy, x, case.positive[:size])
        mean = weight @ slopes
        error = np.sqrt(weight**2 @ (slopes - mean) ** 2)
        allowed = 1e-3 * (weight @ np.abs(slopes)) + 1e-9
        what = "energy changes the distribution of the position: -d log int exp(-K) da / dx of entry"
        score = compare_mean(case, k, (mean, error), np.zeros(size), allowed, what, "the right value")
        worst = max(worst or 0.0, score)
    return worst


def _flux(case: Case, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The flux f - div D - D grad log p, of probability divided by p; grad log p; and the size of the flux's terms."""
    recipe, score = case.recipe, case.score(z)
    drift, diffusion = case.drift(z), recipe._matrices(z)[0]
    spread = np.zeros_like(z)
    if callable(recipe.diffusion):
        spread = divergence_of(lambda points: recipe._matrices(points)[0], z, case.positive)
    inward = times(diffusion, score)
    return drift - spread - inward, score, np.abs(drift) + np.abs(spread) + np.abs(inward)


def _check_fokker_planck(case: Case) -> float:
    z = case.z
    flux, score, terms = _flux(case, z)
    divergence = divergence_of(lambda points: _flux(case, points)[0], z, case.positive).sum(axis=1)
    size = (terms * (np.abs(score) + 1 / case.scale(z))).sum(axis=1)
    residual = np.abs(divergence + (flux * score).sum(axis=1)) / np.maximum(size, np.finfo(float).tiny)
    (k,) = worst_entry(residual)
    if not residual[k] <= case.tolerance:
        difference = case.drift(z)[k] - case.recipe._recipe_drift(z, case.gradient(z), case.positive)[k]
        i = int(np.argmax(np.abs(difference)))
        case.refuse(
            f"drift does not leave the target invariant: its Fokker-Planck residual is {residual[k]:.2g} of its terms, "
            f"but at most {case.tolerance:g} is allowed, and its entry {i} differs by {difference[i]:.4g} from "
            "-(D + Q) grad H + Gamma",
            k,
        )
    return float(residual[k])


def _check_drift(case: Case) -> float | None:
    if case.recipe.drift is None:
        return None
    z = case.z
    right = case.recipe._recipe_drift(z, case.gradient(z), case.positive)
    what = "drift leaves the target invariant, but with a different curl matrix than Q"
    return compare(case, case.drift(z), right, drift_terms(case, z), what, "-(D + Q) grad H + Gamma")


def recover_curl(
    drift: Callable[[np.ndarray], np.ndarray | Sequence[float]],
    diffusion: Callable[[np.ndarray], ArrayLike] | ArrayLike,
    log_density: Callable[[np.ndarray], float],
    z: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    tolerance: float = 1e-6,
) -> np.ndarray:
    r"""The curl matrix of a diffusion in the plane, from its drift f, its D and its stationary density p.

    By theorem 2 of [1]_ every diffusion with a stationary density is a recipe. In two dimensions its curl is

    .. math:: Q_{21}(z) = -Q_{12}(z) = -\frac{1}{p(z)} \int_{-\infty}^{z_2} \left[ f_1 p - \partial_1 (D_{11} p)
        - \partial_s (D_{12} p) \right] ds

    at :math:`(z_1, s)`: eq. S.11 of [1]_ with the sign corrected, and with all terms divided by p. If p is stationary,
    the integral over the whole line is zero, so the integral is taken from the side where it is smaller.

    In more dimensions a curl exists but is not unique: a matrix R with the divergence of R p zero can be added. One is
    :math:`Q_{ij} p = \partial_j \phi_i - \partial_i \phi_j` with :math:`\Delta \phi = f p - \nabla \cdot (D p)`,
    and each of its values is an integral over the whole space. This function therefore has only the plane.

    Parameters
    ----------
    drift : callable
        f, a function of z, ``(2,)``, that returns ``(2,)``.
    diffusion : array-like of shape (2, 2) or callable
        D, or a function of z that returns it.
    log_density : callable
        log p up to a constant, a function of z. Its length scale should be of the order of one.
    z : array-like of shape (2,) or (n, 2)
        Points at which the curl is computed.
    bounds : tuple of float, default=(-inf, inf)
        Range of the second coordinate.
    tolerance : float, default=1e-6
        Maximum of the integral over the whole line, relative to the integral of the absolute value.

    Returns
    -------
    ndarray of shape (2, 2) or (n, 2, 2)
        The matrix Q at each point.

    Raises
    ------
    InvalidRecipeError
        If the integral over the whole line is not zero, so that p is not stationary.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015, supplement C.

    Examples
    --------
    Hamiltonian dynamics, dx = r dt, dr = -x dt:

    >>> import numpy as np
    >>> from skmanifold.samplers import recover_curl
    >>> Q = recover_curl(lambda z: [z[1], -z[0]], np.zeros((2, 2)), lambda z: -0.5 * (z @ z), [0.3, -0.8])
    >>> np.round(Q, 6) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    from scipy.integrate import quad  # imported here because the import is slow

    z = np.array(z, dtype=np.float64)
    if z.shape[-1:] != (2,) or z.ndim > 2:
        raise ValueError(f"z must be of shape (2,) or (n, 2); got {z.shape}.")
    if z.ndim == 2:
        options: Any = {"bounds": bounds, "tolerance": tolerance}
        return np.array([recover_curl(drift, diffusion, log_density, point, **options) for point in z])
    matrix: Any = diffusion if callable(diffusion) else lambda _: diffusion
    here = log_density(z)

    def first_column(points: np.ndarray) -> np.ndarray:
        """D_11 and log p, which are differentiated with respect to the first coordinate."""
        values = [(np.asarray(matrix(point))[0][0], log_density(point)) for point in points]
        return np.array(values)[:, :, None] * np.array([1.0, 0.0])

    def flux(s: float) -> float:
        """f_1 p - d_1 (D_11 p), divided by p(z)."""
        point = np.array([z[0], s])
        spread, slope = divergence_of(first_column, point[None], np.array([False, True]))[0]
        inward = spread + np.asarray(matrix(point))[0][0] * slope
        return float((drift(point)[0] - inward) * np.exp(log_density(point) - here))

    precision = {"epsabs": 1e-11, "epsrel": 1e-10, "limit": 200}
    below, above = quad(flux, bounds[0], z[1], **precision)[0], quad(flux, z[1], bounds[1], **precision)[0]
    size = sum(quad(lambda s: abs(flux(s)), *sorted((z[1], end)), epsrel=1e-3, limit=200)[0] for end in bounds)
    if not abs(below + above) <= tolerance * (1 + size):
        raise InvalidRecipeError(
            f"The density is not stationary: the net flux across the line through {format_point(z)} is "
            f"{below + above:.4g} times the density there."
        )
    integral = below if abs(below) < abs(above) else -above
    curl = np.asarray(matrix(z))[0][1] - integral
    return np.array([[0.0, -curl], [curl, 0.0]])
