"""A sampler under test with its recipe and test points, and comparisons with expected values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...models import HasGradient
from ...numerics.linalg import times
from ...random._variates import fold_keys
from .._density.recipe import InvalidRecipeError, Recipe, format_point

COVARIANCE_BIAS = 0.02  # allowed error of the extrapolation of a covariance, relative to its entries


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


def fold(keys: np.ndarray, value: Any) -> np.ndarray:
    out = np.empty_like(keys)
    fold_keys(keys, value, out)
    return out


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


def compare_mean(
    case: Case,
    k: int,
    mean: np.ndarray,
    error: np.ndarray,
    right: np.ndarray,
    allowed: np.ndarray,
    what: str,
    name: str,
) -> float:
    """The largest score of means and their expected values, at point k."""
    score = np.abs(mean - right) / (error + allowed / case.threshold)
    (i,) = worst_entry(score)
    if not score[i] <= case.threshold:
        case.refuse(f"{what} {i} is {mean[i]:.4g} where {name} is {right[i]:.4g} (standard error {error[i]:.2g})", k)
    return float(score[i])


def drift_terms(case: Case, z: np.ndarray) -> np.ndarray:
    matrices = np.abs(sum(case.recipe._matrices(z)))
    return times(matrices, np.abs(case.score(z)) + 1 / case.scale(z))


def second_moment(a: np.ndarray, b: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
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


def compare_moment(
    case: Case, k: int, moment: tuple[np.ndarray, np.ndarray], right: np.ndarray, what: str, name: str
) -> float:
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
