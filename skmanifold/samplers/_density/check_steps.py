"""A sampler under test with its recipe and points, and comparisons of its steps with the drift and the diffusion."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone

from ...models import HasGradient
from ...numerics.linalg import times
from ...random._keys import Purpose
from ...random._variates import derived_keys, fill_normal
from .recipe import InvalidRecipeError, Recipe, format_point, joint_state

COVARIANCE_BIAS = 0.02  # allowed error of the extrapolation of a covariance, relative to its entries
# Relative step sizes. In the weighted sum of their displacements the noise, of order h^(1/2), and the bias, of order
# h^2, cancel, and the term of order h remains.
_STEPS = np.array([1.0, 4.0, 16.0])
_WEIGHTS = np.array([-4 / 3, 3 / 4, -1 / 24])
_LARGEST_TIME = 5e-4  # time of a displacement, relative to the time scale of changes of the drift
_DRIFT_BIAS = 2e-3  # allowed error of the extrapolation, relative to the terms of the drift
_N_INNER = 4  # number of steps with gradient noise
_N_LONG = 128  # steps of a trajectory, to detect errors that do not occur in every step
_N_LONG_CHAINS = 256
_NEAR_WALL = (1e-5, 1e-1)  # initial distances from the boundary, which a step of 1e-3 may cross
_MOST_TIES = 3  # number of chains that may have the same coordinate after a step because of rounding


Estimate: TypeAlias = tuple[np.ndarray, np.ndarray]  # values and their standard errors


class Case(NamedTuple):
    """A sampler, its recipe and the test points."""

    name: str
    sampler: Any
    recipe: Recipe
    target: Any
    z: np.ndarray  # (n_points, nz)
    positive: np.ndarray  # (nz,)
    keys: np.ndarray  # (n_chains,)
    tolerance: float
    threshold: float

    def gradient(self, z: np.ndarray) -> np.ndarray:
        """Gradient of the log density of the target, from all data, ``(n, size)``."""
        return gradient_at(self.target, z[:, : self.target.manifold.size])

    def drift(self, z: np.ndarray) -> np.ndarray:
        return self.recipe._drift_at(z, self.gradient(z), self.positive)

    def score(self, z: np.ndarray) -> np.ndarray:
        """Gradient of log exp(-H)."""
        return -self.recipe._energy_gradient(z, self.gradient(z), self.positive, "central")

    def scale(self, z: np.ndarray) -> np.ndarray:
        """The length scale for differentiation in each entry of z."""
        return np.where(self.positive, np.abs(z), np.maximum(np.abs(z), 1.0))

    def refuse(self, sentence: str, at: int) -> None:
        raise InvalidRecipeError(f"{self.name}'s {sentence}, at {format_point(self.z[at])}.")


def gradient_at(target: HasGradient, x: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
    position = np.ascontiguousarray(x).reshape(len(x), *target.manifold.shape)
    out = np.empty_like(position)
    target.grad_log_density(position, keys, out)
    return out.reshape(len(x), -1)


def worst_entry(amount: np.ndarray) -> tuple[int, ...]:
    """Indices of the largest entry, or of a NaN."""
    return tuple(int(i) for i in np.unravel_index(np.argmax(np.where(np.isnan(amount), np.inf, amount)), amount.shape))


def compare(case: Case, given: np.ndarray, right: np.ndarray, terms: np.ndarray, what: str, name: str) -> float:
    """The largest residual of numbers and their expected values, ``(n_points, n)``, relative to their terms."""
    residual = np.abs(given - right) / np.maximum(terms + np.abs(given) + np.abs(right), np.finfo(float).tiny)
    k, i = worst_entry(residual)
    if not residual[k, i] <= case.tolerance:
        case.refuse(f"{what}: its entry {i} is {given[k, i]:.6g} where {name} is {right[k, i]:.6g}", k)
    return float(residual[k, i])


def mean_and_error(values: np.ndarray) -> Estimate:
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


def compare_mean(
    case: Case, k: int, estimate: Estimate, right: np.ndarray, allowed: np.ndarray, what: str, name: str
) -> float:
    """The largest score of means and their expected values, at point k."""
    mean, error = estimate
    score = np.abs(mean - right) / (error + allowed / case.threshold)
    (i,) = worst_entry(score)
    if not score[i] <= case.threshold:
        case.refuse(f"{what} {i} is {mean[i]:.4g} where {name} is {right[i]:.4g} (standard error {error[i]:.2g})", k)
    return float(score[i])


def _compare_drift(case: Case, k: int, per_time: np.ndarray, bias: float, steps: str) -> float:
    """The largest score of the mean displacement of chains from point k, per unit of time, and the drift there."""
    z = case.z[k : k + 1]
    (drift,), (terms,) = case.drift(z), drift_terms(case, z)
    allowed = bias * (terms + np.abs(drift)) + 1e-6 * (1 + terms.max())
    what = f"{steps} does not move as declared: the mean, per unit of time, of entry"
    return compare_mean(case, k, mean_and_error(per_time), drift, allowed, what, "-(D + Q) grad H + Gamma")


def drift_terms(case: Case, z: np.ndarray) -> np.ndarray:
    matrices = np.abs(sum(case.recipe._matrices(z)))
    return times(matrices, np.abs(case.score(z)) + 1 / case.scale(z))


def second_moment(a: np.ndarray, b: np.ndarray | None = None) -> Estimate:
    """Covariance of centred displacements divided by the square root of their time, and its standard errors.

    With the displacements `b` after four times the time, terms of the order of time are eliminated.
    """
    n = len(a)
    if b is None:
        moment, square = a.T @ a / n, (a**2).T @ a**2 / n
    else:
        moment = (4 * a.T @ a - b.T @ b) / (3 * n)
        square = (16 * (a**2).T @ a**2 - 8 * (a * b).T @ (a * b) + (b**2).T @ b**2) / (9 * n)
    return moment * n / (n - 1), np.sqrt(np.maximum(square - moment**2, 0.0) / n)


def compare_moment(case: Case, k: int, moment: Estimate, right: np.ndarray, what: str, name: str) -> float:
    """The largest score of the entries of a covariance."""
    estimate, error = moment
    variance = np.abs(np.diagonal(right)) + 1e-3 * np.abs(right).max() + 1e-9 * (1 + case.scale(case.z[k]).max())
    allowed = COVARIANCE_BIAS * np.sqrt(np.outer(variance, variance))
    score = np.abs(estimate - right) / (error + allowed / case.threshold)
    i, j = worst_entry(score)
    if not score[i, j] <= case.threshold:
        case.refuse(
            f"{what} is not as noisy as declared: entry ({i}, {j}) of its covariance is {estimate[i, j]:.4g} where "
            f"{name} is {right[i, j]:.4g} (standard error {error[i, j]:.2g})",
            k,
        )
    return float(score[i, j])


class _TrueGradient:
    """A target with gradients from all data, plus normal noise if its covariance is given."""

    def __init__(self, target: Any, covariance: np.ndarray | None = None):
        self._target = target
        self.manifold = target.manifold
        self.noise_covariance = covariance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        self._target.grad_log_density(position, None, out)
        if keys is not None and self.noise_covariance is not None:
            noise = np.empty((len(position), self.manifold.size))
            fill_normal(keys, Purpose.GRADIENT_NOISE, noise)
            out += (noise @ np.linalg.cholesky(self.noise_covariance).T).reshape(out.shape)


def _moved(keys: np.ndarray, sampler, model, z: np.ndarray, h: float, n_calls: int = 1) -> np.ndarray:
    """Positions of all chains after steps of size h from a common point, ``(nz,)``, or from ``(n_chains, nz)``."""
    manifold, n_chains = model.manifold, len(keys)
    sampler = clone(sampler).set_params(step_size=h)
    start = np.array(np.broadcast_to(z, (n_chains, z.shape[-1])))
    state = sampler.init(model, keys, start[:, : manifold.size].reshape(n_chains, *manifold.shape))
    rest = start[:, manifold.size :]
    if hasattr(state, "thermostat"):
        state, rest = state._replace(thermostat=rest[:, -1].copy()), rest[:, :-1]
    if hasattr(state, "momentum"):
        state = state._replace(momentum=rest.reshape(state.momentum.shape).copy())
    for _ in range(n_calls):
        state = sampler.step(model, state)
    return joint_state(state)


def _time_at(case: Case, k: int) -> float:
    """A time in which the drift is almost constant, and in which at most one in 1e9 chains reaches the boundary."""
    z, step = case.z[k], 1e-5 * case.scale(case.z[k])
    aside = np.diag(step)
    slopes = (case.drift(z + aside) - case.drift(z - aside)) / (2 * step[:, None])
    time = _LARGEST_TIME / (1 + np.linalg.norm(slopes))
    spread = np.diagonal(case.recipe._matrices(z[None])[0][0])
    speed = np.abs(case.drift(z[None])[0])
    for i in np.flatnonzero(case.positive):
        time = min(time, z[i] ** 2 / (2e3 * spread[i] + 1e-300), z[i] / (64 * speed[i] + 1e-300))
    return float(time)


def _plain(sampler, **changes: Any):
    """The sampler without settings for the estimation of gradients, and without new momenta."""
    changes = {"noise_covariance": None, "control_variate": None, "resample_every": None, **changes}
    return clone(sampler).set_params(**{k: v for k, v in changes.items() if k in sampler.get_params(deep=False)})


def check_steps(case: Case) -> dict[str, float]:
    n_inner = min(case.sampler.n_steps, _N_INNER)
    sampler, model = _plain(case.sampler, n_steps=n_inner), _TrueGradient(case.target)
    worst = {"step_mean": 0.0, "step_covariance": 0.0}
    for k, z in enumerate(case.z):
        time = _time_at(case, k)
        keys = derived_keys(case.keys, k)  # the same for all step sizes
        moves = [_moved(keys, sampler, model, z, step * time / n_inner) - z for step in _STEPS]
        per_time = sum(weight / time * move for weight, move in zip(_WEIGHTS, moves, strict=True))
        worst["step_mean"] = max(worst["step_mean"], _compare_drift(case, k, per_time, _DRIFT_BIAS, "step"))
        first, second = (move - move.mean(axis=0) for move in moves[:2])
        moment = second_moment(first / np.sqrt(time), second / np.sqrt(4 * time))
        right = 2 * case.recipe._matrices(z[None])[0][0]
        score = compare_moment(case, k, moment, right, "step", "2 D, per unit of time,")
        worst["step_covariance"] = max(worst["step_covariance"], score)
    return worst


def check_trajectory(case: Case) -> float | None:
    """Check many steps in the time of one, to detect errors that do not occur in every step."""
    if type(case.sampler) is Recipe:
        return None  # all steps of a Recipe are the same, and its functions are slow
    sampler, model, worst = _plain(case.sampler), _TrueGradient(case.target), 0.0
    n_steps = sampler.n_steps
    n_calls = max(2, _N_LONG // n_steps)
    for k, z in enumerate(case.z[:2]):
        time = _time_at(case, k)
        keys = derived_keys(case.keys[:_N_LONG_CHAINS], k)
        moves = _moved(keys, sampler, model, z, time / (n_steps * n_calls), n_calls) - z
        steps = f"trajectory of {n_steps * n_calls} steps"
        worst = max(worst, _compare_drift(case, k, moves / time, 10 * _DRIFT_BIAS, steps))
    return worst


def check_gradient_noise(case: Case) -> float | None:
    """Compare steps with noisy and with exact gradients: the effect of the noise on their covariance."""
    size, worst = case.target.manifold.size, None
    if HasGradient not in case.sampler.requires:
        return None
    taken_off = getattr(case.sampler, "noise_covariance", None) is not None
    n_steps = 1 if type(case.sampler) is Recipe else _N_INNER  # a Recipe is slow, and has no inner loop
    inner = {"n_steps": n_steps} if "n_steps" in case.sampler.get_params() else {}
    sampler = _plain(case.sampler, **inner)
    noisy_sampler = _plain(case.sampler, noise_covariance="model" if taken_off else None, **inner)
    root = np.random.default_rng(int(case.keys[0])).standard_normal((size, size)) / np.sqrt(size)
    shape = root @ root.T + 0.5 * np.eye(size)
    for k, z in enumerate(case.z[:2]):
        diffusion, curl = (matrices[0] for matrices in case.recipe._matrices(z[None]))
        response = (diffusion + curl)[:, :size] @ shape @ (diffusion + curl)[:, :size].T
        ratio = _largest_ratio(response, 2 * diffusion)
        if ratio is None:
            continue
        h = _time_at(case, k) / n_steps
        kick = response / (2 * ratio)  # per unit of time, if each step adds its noise: half of the diffusion
        noisy = _TrueGradient(case.target, shape / (2 * ratio * h))
        moments = []
        for one, model in ((sampler, _TrueGradient(case.target)), (noisy_sampler, noisy)):
            moves = _moved(derived_keys(case.keys, k), one, model, z, h, 1 if inner else n_steps) - z
            moments.append(second_moment((moves - moves.mean(axis=0)) / np.sqrt(n_steps * h)))
        before, after = moments
        compare_moment(case, k, before, 2 * diffusion, "step", f"2 D, per unit of time over {n_steps} steps,")
        excess, due = after[0] - before[0], np.zeros_like(kick) if taken_off else kick
        allowed = COVARIANCE_BIAS * np.abs(2 * diffusion).max()
        score = np.abs(excess - due) / (np.hypot(before[1], after[1]) + allowed / case.threshold)
        i, j = worst_entry(score)
        if not score[i, j] <= case.threshold:
            times = (excess * kick).sum() / (kick * kick).sum()
            case.refuse(
                f"step does not account for gradient noise as declared: noise of covariance V adds {times:.2f} times "
                f"h^2 (D + Q) V (D + Q)' to the covariance for each of {n_steps} steps, instead of "
                f"{0 if taken_off else 1} times",
                k,
            )
        worst = max(worst or 0.0, float(score[i, j]))
    return worst


def _largest_ratio(small: np.ndarray, large: np.ndarray) -> float | None:
    """The smallest r such that r * `large` - `small` is positive semi-definite; None if it is 0 or does not exist."""
    values, vectors = np.linalg.eigh(large)
    positive = values > 1e-9 * max(values.max(), 0.0)
    inside = vectors[:, positive]
    if np.abs(small - inside @ (inside.T @ small)).max() > 1e-9 * np.abs(small).max():
        return None
    inside = inside / np.sqrt(values[positive])
    ratio = float(np.linalg.eigvalsh(inside.T @ small @ inside).max(initial=0.0))
    return ratio if ratio > 0 else None


def check_reflection(case: Case) -> float | None:
    """Check that steps near each boundary reverse a momentum towards it."""
    size = case.target.manifold.size
    if not case.positive.any() or case.recipe.n_auxiliary < size:
        return None
    sampler, model, worst = _plain(case.sampler), _TrueGradient(case.target), None
    h = min(1e-3, _time_at(case, 0))
    for i in np.flatnonzero(case.positive):
        z = case.z[0].copy()
        z[size + i] = -20.0  # large compared with the force and the noise of one step
        for z[i] in 1e-2 * 0.5 ** np.arange(60):
            if h * case.drift(z[None])[0, i] < -10 * z[i]:
                break
        else:
            continue  # the momentum does not move this coordinate
        after = _moved(case.keys[:16], sampler, model, z, h)[:, size + i] / -z[size + i]
        if not after.mean() > 0.5:
            raise InvalidRecipeError(
                f"{case.name}'s step does not reverse the momentum at the boundary: {z[size + i]:.4g}, which moves "
                f"coordinate {i} across it, becomes {after.mean() * -z[size + i]:.4g}, at {format_point(z)}."
            )
        worst = float(after.mean()) if worst is None else min(worst, float(after.mean()))
    return worst


def check_wall(case: Case) -> float | None:
    """Check steps from different positions near each boundary: if positions are clipped, many of them become equal."""
    size = case.target.manifold.size
    if not case.positive.any() or HasGradient not in case.sampler.requires:
        return None  # positions of exact processes may be rounded to zero
    sampler, model = _plain(case.sampler, n_steps=1), _TrueGradient(case.target)
    rng, n_chains = np.random.default_rng(int(case.keys[2])), len(case.keys)
    low, high = np.log(_NEAR_WALL)
    for i in np.flatnonzero(case.positive):
        z = np.tile(case.z[0], (n_chains, 1))
        z[:, i] = np.exp(rng.uniform(low, high, n_chains))
        if case.recipe.n_auxiliary >= size:
            z[:, size + i] = -20 * np.abs(rng.standard_normal(n_chains))
        after = _moved(case.keys, sampler, model, z, 1e-3)[:, i]
        values, numbers = np.unique(after, return_counts=True)
        most = int(np.argmax(numbers))
        if numbers[most] > _MOST_TIES:
            raise InvalidRecipeError(
                f"{case.name}'s step does not reflect the position at the boundary: from different positions near "
                f"coordinate {i} = 0 it moves {numbers[most]} of {n_chains} chains to the same value "
                f"{values[most]:.4g}."
            )
    return 0.0
