"""A target written by a user: plain functions of an array, on a manifold."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from ..manifolds import Manifold
from ..utils._typing import ArrayLike, available_if
from ..utils._vectorize import call_at_all
from ._minibatch import MinibatchTarget


def _has(name: str) -> Callable[[Any], bool]:
    return lambda self: getattr(self, name) is not None


class Density(MinibatchTarget):
    r"""A probability density on a manifold, from plain Python functions of a point.

    Parameters
    ----------
    manifold : Manifold
        Where it lives; a point is an array of ``manifold.shape``.
    grad_log_density : callable, optional
        ``f(x)``, the Euclidean gradient of the log density in the coordinates of `x`, shaped like `x`. (What points
        off the manifold is projected away by the samplers.) All functions get read-only arrays, since `x` is the
        chain itself.
    log_density : callable, optional
        ``g(x)``, the log density up to a constant, with respect to the manifold's base measure: Lebesgue on flat spaces
        and on simplexes (without the last coordinate of a row), surface measure on spheres and Stiefel manifolds.
    noise_covariance : float, array of shape (size,) or (size, size), optional
        Covariance of the noise in what `grad_log_density` returns, where it is known: a multiple of the identity, a
        diagonal or a matrix. Samplers that compensate for gradient noise take it from here.
    n_samples : int, optional
        Number N of data points behind the density. Then the functions take a second argument ``rows``, an int array of
        n row indices without repetition, and

        - ``f(x, rows)`` returns the gradients of single samples' log likelihoods, ``(n, *shape)``, which are summed and
          multiplied by N / n; or the estimate of the whole gradient, shaped like `x`, scaled by yourself. Only the
          former tells how noisy a minibatch is.
        - ``g(x, rows)`` returns the samples' log likelihoods, ``(n,)``, or their sum, ``()``. Always of all rows.
    grad_log_prior, log_prior : callable, optional
        Functions of `x` alone, added once. With `n_samples` only.
    expected_counts : callable, optional
        ``c(x)``, or ``c(x, rows)`` scaled by N / n by yourself: shapes of gammas on a positive orthant, concentrations
        of Dirichlet rows on a simplex, given the latent counts at `x`. What `SCIR` asks.
    vectorized : bool, default=False
        The functions take all chains at once: `x` is ``(n_chains, *shape)``, `rows` is ``(n_chains, n)``, and what they
        return has the leading axis too. The fastest way, and faster still if they are compiled by numba.

    Examples
    --------
    The von Mises-Fisher density with mean direction (0, 0, 1) and concentration 5:

    >>> import numpy as np
    >>> from skmanifold.manifolds import Sphere
    >>> from skmanifold.models import Density
    >>> direction = np.array([0.0, 0.0, 1.0])
    >>> target = Density(Sphere(3), grad_log_density=lambda x: 5 * direction, log_density=lambda x: 5 * x @ direction)
    """

    def __init__(
        self,
        manifold: Manifold,
        grad_log_density: Callable[..., ArrayLike] | None = None,
        log_density: Callable[..., ArrayLike] | None = None,
        noise_covariance: ArrayLike | None = None,
        n_samples: int | None = None,
        *,
        grad_log_prior: Callable[..., ArrayLike] | None = None,
        log_prior: Callable[..., ArrayLike] | None = None,
        expected_counts: Callable[..., ArrayLike] | None = None,
        vectorized: bool = False,
    ) -> None:
        if not isinstance(manifold, Manifold):
            raise TypeError(f"manifold must be an instance of a Manifold such as Sphere(3); got {manifold!r}.")
        functions = {
            "grad_log_density": grad_log_density,
            "log_density": log_density,
            "grad_log_prior": grad_log_prior,
            "log_prior": log_prior,
            "expected_counts": expected_counts,
        }
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be a function of a point; got {function!r}.")
            _check_arguments(function, name, 1 if n_samples is None or "prior" in name else 2)
        if n_samples is None and (grad_log_prior is not None or log_prior is not None):
            raise ValueError("grad_log_prior and log_prior go with n_samples; without it, add them to the density.")
        if n_samples is not None and not (isinstance(n_samples, Integral) and n_samples >= 1):
            raise ValueError(f"n_samples must be an integer of at least 1; got {n_samples!r}.")
        if grad_log_density is None and log_density is None and expected_counts is None:
            raise ValueError("A Density needs grad_log_density, log_density or expected_counts.")
        self.manifold = manifold
        self.noise_covariance = check_covariance(noise_covariance, manifold.size, "noise_covariance")
        self.n_samples = n_samples
        self.vectorized = vectorized
        self._gradient = grad_log_density
        self._value = log_density
        self._grad_prior = grad_log_prior
        self._value_prior = log_prior
        self._counts = expected_counts

    @available_if(_has("_gradient"))
    def grad_log_density(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Gradient at each chain's position, of all rows or (with `keys`) of a minibatch, written to `out`."""
        rows = self._rows(position, keys)
        if rows is None:
            self._evaluate(self._gradient, "grad_log_density", position, None, out)
        else:
            self._add_up(self._gradient_of_rows(position, rows), position, out)

    @available_if(lambda self: self._gradient is not None and self.n_samples is not None)
    def grad_with_deviations(self, position: np.ndarray, keys: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Gradient of a minibatch, and the deviations of its samples that estimate its covariance."""
        rows = self._rows(position, keys)
        gradients = self._gradient_of_rows(position, rows)
        if gradients.ndim == position.ndim:
            raise ValueError(
                "grad_log_density(x, rows) must return one gradient for each row, shape (len(rows), *shape), for the "
                "noise of the gradient to be estimated; it returned their sum."
            )
        deviations = self._centre(gradients)
        self._add_up(gradients, position, out)
        return deviations

    @available_if(_has("_value"))
    def log_density(self, position: np.ndarray) -> np.ndarray:
        """Log density at each chain's position, of all rows."""
        out = np.empty(len(position))
        if self.n_samples is None:
            self._evaluate(self._value, "log_density", position, None, out)
            return out
        rows = self._rows(position, None)
        values = self._call(self._value, "log_density", position, rows)
        if values.shape not in (out.shape, rows.shape):
            axis = 0 if self.vectorized else 1
            raise ValueError(
                f"log_density(x, rows) must return shape {rows.shape[axis:]}, a value for each row, or "
                f"{out.shape[axis:]}, their sum; it returned {values.shape[axis:]}."
            )
        out[:] = values.sum(axis=1) if values.ndim == 2 else values
        self._add_prior(self._value_prior, "log_prior", position, out)
        return out

    @available_if(_has("_counts"))
    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Prior + counts at each chain's position, of all rows or (with `keys`) of a minibatch, written to `out`."""
        self._evaluate(self._counts, "expected_counts", position, self._rows(position, keys), out)

    def _rows(self, position: np.ndarray, keys: np.ndarray | None) -> Any:
        if self.n_samples is None:
            return None
        rows = self._chosen_rows(keys)
        if rows is None:
            rows = np.broadcast_to(np.arange(self.n_samples), (len(position), self.n_samples))
        return rows

    def _call(self, function: Any, name: str, position: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        values = call_at_all(function, name, self.vectorized, *((position,) if rows is None else (position, rows)))
        try:
            values = np.array(values) if isinstance(values, list) else np.asarray(values)
        except ValueError as error:
            raise ValueError(f"{name} must return an array of the same shape for every point.") from error
        if values.dtype.kind not in "fiub":
            raise TypeError(f"{name} must return real numbers; it returned {values.dtype.name}.")
        return values

    def _evaluate(self, function: Any, name: str, position: np.ndarray, rows: np.ndarray | None, out: np.ndarray):
        values = self._call(function, name, position, rows)
        if values.size == len(out) == out.size:  # one number each, however wrapped
            values = values.reshape(out.shape)
        if values.shape != out.shape:
            axis = 0 if self.vectorized else 1
            raise ValueError(f"{name} must return shape {out.shape[axis:]}; it returned {values.shape[axis:]}.")
        out[...] = values

    def _gradient_of_rows(self, position: np.ndarray, rows: np.ndarray) -> np.ndarray:
        gradients = self._call(self._gradient, "grad_log_density", position, rows)
        each = (*rows.shape, *self.manifold.shape)
        if gradients.shape != each and gradients.shape != position.shape:
            axis = 0 if self.vectorized else 1
            raise ValueError(
                f"grad_log_density(x, rows) must return shape {each[axis:]}, one gradient for each row, or "
                f"{position.shape[axis:]}, the estimate of the whole; it returned {gradients.shape[axis:]}."
            )
        return gradients

    def _add_up(self, gradients: np.ndarray, position: np.ndarray, out: np.ndarray) -> None:
        if gradients.ndim == position.ndim:
            out[...] = gradients
        else:
            np.sum(gradients, axis=1, out=out)
            out *= self.n_samples / gradients.shape[1]
        self._add_prior(self._grad_prior, "grad_log_prior", position, out)

    def _add_prior(self, function: Any, name: str, position: np.ndarray, out: np.ndarray) -> None:
        if function is not None:
            prior = np.empty_like(out)
            self._evaluate(function, name, position, None, prior)
            out += prior

    def __repr__(self) -> str:
        data = "" if self.n_samples is None else f", n_samples={self.n_samples}"
        return f"Density({self.manifold!r}{data})"


def _check_arguments(function: Any, name: str, n_arguments: int) -> None:
    """Raise a TypeError unless a function can be called as it will be, where that can be told beforehand."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # None, or a function that does not tell
        return
    try:
        signature.bind(*range(n_arguments))
    except TypeError as error:
        called = "(x, rows), because of n_samples" if n_arguments == 2 else "(x)"
        raise TypeError(f"{name} will be called as {name}{called}, which it does not take: {error}.") from error


def check_covariance(covariance: Any, size: int, name: str) -> Any:
    """A positive semi-definite covariance as None, a float, a diagonal ``(size,)`` or a matrix ``(size, size)``."""
    if covariance is None:
        return None
    covariance = np.array(covariance, dtype=np.float64)
    if covariance.ndim == 0 and size == 1:
        covariance = covariance.reshape(1)
    if covariance.shape not in ((), (size,), (size, size)):
        raise ValueError(f"{name} must be a number, or of shape ({size},) or ({size}, {size}); got {covariance.shape}.")
    if not np.isfinite(covariance).all():
        raise ValueError(f"{name} must be finite.")
    if covariance.ndim == 2:
        if not np.allclose(covariance, covariance.T):
            raise ValueError(f"{name} must be symmetric.")
        least = np.linalg.eigvalsh(covariance)[0]
        if least < -1e-8 * np.abs(covariance).max():
            raise ValueError(f"{name} must be positive semi-definite; its least eigenvalue is {least:.3g}.")
    elif covariance.min() < 0:
        raise ValueError(f"{name} must be non-negative; its least entry is {covariance.min():.3g}.")
    return float(covariance) if covariance.ndim == 0 else covariance
