"""A user-defined target: plain functions of an array, on a manifold."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from .._install import optional_module
from ..manifolds import Manifold
from ..utils._typing import ArrayLike, available_if
from ..utils._vectorize import call_at_all
from ._compiled_functions import CompiledFunctions, compiled_functions
from ._minibatch import CovarianceAt, MinibatchTarget, check_symmetric

_Function = Callable[..., Any]


class Differentiated(NamedTuple):
    """Functions of the points of all chains, with the rows of each chain as a second argument if there are samples."""

    value: _Function
    gradient: _Function


def _differentiated(
    map_over_chains: Callable[[_Function], _Function],
    grad: Callable[[_Function], _Function],
    function: _Function,
    scale_of: Callable[[Any], float] | None = None,
) -> Differentiated:
    """Value and gradient of ``f(x)``, a number, or ``f(x, rows)``, one for each row, for all chains.

    ``scale_of(rows)`` is the factor of the sum over rows in the gradient; None for functions of a point alone.
    """

    def total(*arguments: Any) -> Any:
        values = function(*arguments)
        return values if scale_of is None else values.sum() * scale_of(arguments[1])

    return Differentiated(map_over_chains(function), map_over_chains(grad(total)))


def by_jax() -> Callable[..., Differentiated]:
    """Differentiation in 64-bit floats, compiled by XLA."""
    jax = optional_module("jax", "Density.from_jax", "jax")

    def map_over_chains(each: _Function) -> _Function:
        mapped = jax.jit(jax.vmap(each))

        def call(*arguments: np.ndarray) -> np.ndarray:
            with jax.enable_x64(True):
                return np.asarray(mapped(*arguments), dtype=np.float64)

        return call

    return partial(_differentiated, map_over_chains, jax.grad)


def by_torch() -> Callable[..., Differentiated]:
    """Differentiation in 64-bit floats, by ``torch.func``."""
    torch = optional_module("torch", "Density.from_torch", "torch")

    def map_over_chains(each: _Function) -> _Function:
        mapped = torch.func.vmap(each)

        def call(*arguments: np.ndarray) -> np.ndarray:
            copies = (torch.from_numpy(np.array(argument)) for argument in arguments)  # x itself is read-only
            return mapped(*copies).detach().numpy()

        return call

    return partial(_differentiated, map_over_chains, torch.func.grad)


def _has(name: str) -> Callable[[Any], bool]:
    return lambda self: getattr(self, name) is not None


_OfPoint: TypeAlias = Callable[[np.ndarray], ArrayLike]
_OfRows: TypeAlias = Callable[[np.ndarray, np.ndarray], ArrayLike]


class Density(MinibatchTarget):
    r"""A probability density on a manifold, from plain Python functions of a point.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the density; a point is an array of ``manifold.shape``.
    grad_log_density : callable, optional
        ``f(x)``, the Euclidean gradient of the log density in the coordinates of `x`, with the shape of `x`. (Samplers
        project it onto the tangent space.) All functions receive read-only arrays, because `x` is the state of the
        chain.
    log_density : callable, optional
        ``g(x)``, the log density up to a constant, with respect to the base measure of the manifold: the Lebesgue
        measure on Euclidean spaces and on simplexes (without the last coordinate of each row), the surface measure on
        spheres and Stiefel manifolds.
    noise_covariance : float, array of shape (size,) or (size, size), or callable, optional
        Covariance of the noise of `grad_log_density`, if it is known: a multiple of the identity, a diagonal or a
        matrix, or a function ``V(x)`` that returns one of these. Samplers that compensate for gradient noise use it.
    n_samples : int, optional
        Number N of data points of the density. If it is given, the functions take a second argument ``rows``, an int
        array of n row indices without repetition:

        - ``f(x, rows)`` returns the gradients of the log likelihoods of single samples, ``(n, *shape)``, which are
          summed and multiplied by N / n. Or it returns the estimate of the whole gradient, with the shape of `x`, which
          it must scale itself. Only the former allows estimates of the gradient noise.
        - ``g(x, rows)`` returns the log likelihoods of the samples, ``(n,)``, or their sum, ``()``. It is always called
          with all rows.
    grad_log_prior, log_prior : callable, optional
        Functions of `x` only, which are added once. They require `n_samples`.
    expected_counts : callable, optional
        ``c(x)``, or ``c(x, rows)``, which must scale by N / n itself: shapes of gammas on a positive orthant, or
        concentrations of Dirichlet rows on a simplex, given the latent counts at `x`. `SCIR` requires it.
    vectorized : bool, default=False
        Whether the functions accept all chains at once: `x` is ``(n_chains, *shape)``, `rows` is ``(n_chains, n)``, and
        the returned arrays also have this leading axis. This is faster, especially if numba compiles the functions.

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
        grad_log_density: _OfPoint | _OfRows | None = None,
        log_density: _OfPoint | _OfRows | None = None,
        noise_covariance: ArrayLike | _OfPoint | None = None,
        n_samples: int | None = None,
        *,
        grad_log_prior: _OfPoint | None = None,
        log_prior: _OfPoint | None = None,
        expected_counts: _OfPoint | _OfRows | None = None,
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
            raise ValueError("grad_log_prior and log_prior require n_samples; without it, add them to the density.")
        if n_samples is not None and not (isinstance(n_samples, Integral) and n_samples >= 1):
            raise ValueError(f"n_samples must be an integer of at least 1; got {n_samples!r}.")
        if grad_log_density is None and log_density is None and expected_counts is None:
            raise ValueError("A Density needs grad_log_density, log_density or expected_counts.")
        self.manifold = manifold
        self.noise_covariance = check_noise(noise_covariance, manifold.size, "noise_covariance", vectorized)
        self.n_samples = n_samples
        self.vectorized = vectorized
        self._gradient, self._value, self._grad_prior, self._value_prior, self._counts = functions.values()
        self._linear: np.ndarray | None = None

    @classmethod
    def linear(cls, manifold: Manifold, parameter: ArrayLike) -> Self:
        r"""Make the density proportional to :math:`\exp(\sum_i F_i x_i)`, for a parameter F of the shape of a point.

        On spheres it is the von Mises-Fisher distribution, and on Stiefel manifolds the matrix von Mises-Fisher
        distribution, which :class:`~skmanifold.samplers.ColumnGibbs` draws exactly.

        Parameters
        ----------
        manifold : Manifold
            Manifold of the density.
        parameter : array-like of shape ``manifold.shape``
            F.

        Returns
        -------
        density : Density
            With gradient, log density and linear parameter.

        Raises
        ------
        ValueError
            If the parameter has another shape, or a value is not finite.

        Examples
        --------
        >>> import numpy as np
        >>> from skmanifold import sample
        >>> from skmanifold.manifolds import Stiefel
        >>> from skmanifold.models import Density
        >>> from skmanifold.samplers import ColumnGibbs
        >>> target = Density.linear(Stiefel(5, 2), 10 * np.eye(5, 2))
        >>> sample(target, ColumnGibbs(), n_draws=100, random_state=0).position.shape
        (4, 100, 5, 2)
        """
        values = np.array(parameter, dtype=np.float64)
        if values.shape != manifold.shape or not np.isfinite(values).all():
            raise ValueError(f"parameter must have finite values and shape {manifold.shape}; got {values.shape}.")
        values.setflags(write=False)
        axes = tuple(range(1, 1 + values.ndim))
        gradient, value = lambda x: np.broadcast_to(values, x.shape), lambda x: np.sum(values * x, axis=axes)
        density = cls(manifold, gradient, value, vectorized=True)
        density._linear = values
        return density

    @classmethod
    def from_jax(
        cls,
        manifold: Manifold,
        log_density: Callable[..., Any],
        n_samples: int | None = None,
        *,
        log_prior: Callable[..., Any] | None = None,
    ) -> Self:
        """Make a density from a log density in JAX, which computes the gradient.

        Parameters
        ----------
        manifold : Manifold
            Manifold of the density.
        log_density : callable
            ``g(x)``, a number, for an array `x` of ``manifold.shape``, with 64-bit floats. With `n_samples` it
            is ``g(x, rows)``, the log likelihoods of the samples `rows`, an array of n integers, of shape (n,). Convert
            data within the function, ``jnp.asarray(data)[rows]``, because arrays of JAX have 32-bit floats elsewhere.
        n_samples : int, optional
            Number N of data points. In minibatches the gradient of the sum over rows is multiplied by N / n.
        log_prior : callable, optional
            Function of `x` only, a number, which is added once. It requires `n_samples`.

        Returns
        -------
        density : Density
            The functions are evaluated for all chains at once, and compiled.

        Raises
        ------
        ValueError
            If there is a `log_prior` and no `n_samples`.
        """
        return cls._of_values(by_jax(), manifold, log_density, n_samples, log_prior)

    @classmethod
    def from_torch(
        cls,
        manifold: Manifold,
        log_density: Callable[..., Any],
        n_samples: int | None = None,
        *,
        log_prior: Callable[..., Any] | None = None,
    ) -> Self:
        """Make a density from a log density in PyTorch, which computes the gradient.

        Parameters
        ----------
        manifold : Manifold
            Manifold of the density.
        log_density : callable
            ``g(x)``, a number, for a tensor `x` of ``manifold.shape``, with 64-bit floats. With `n_samples` it
            is ``g(x, rows)``, the log likelihoods of the samples `rows`, an array of n integers, of shape (n,).
        n_samples : int, optional
            Number N of data points. In minibatches the gradient of the sum over rows is multiplied by N / n.
        log_prior : callable, optional
            Function of `x` only, a number, which is added once. It requires `n_samples`.

        Returns
        -------
        density : Density
            The functions are evaluated for all chains at once.

        Raises
        ------
        ValueError
            If there is a `log_prior` and no `n_samples`.
        """
        return cls._of_values(by_torch(), manifold, log_density, n_samples, log_prior)

    @classmethod
    def _of_values(
        cls,
        differentiate: Callable[..., Differentiated],
        manifold: Manifold,
        log_density: Any,
        n_samples: int | None,
        log_prior: Any,
    ) -> Self:
        prior = None if log_prior is None else differentiate(log_prior)
        total = None if n_samples is None else float(n_samples)
        of_rows = differentiate(log_density, None if total is None else lambda rows: total / len(rows))
        return cls(
            manifold,
            of_rows.gradient,
            of_rows.value,
            n_samples=n_samples,
            grad_log_prior=None if prior is None else prior.gradient,
            log_prior=None if prior is None else prior.value,
            vectorized=True,
        )

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
                "grad_log_density(x, rows) must return one gradient for each row, shape (len(rows), *shape), to "
                "estimate the noise of the gradient; it returned their sum."
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
        self._check_shape(
            "log_density(x, rows)", values, {rows.shape: ", a value for each row", out.shape: ", their sum"}
        )
        out[:] = values.sum(axis=1) if values.ndim == 2 else values
        self._add_prior(self._value_prior, "log_prior", position, out)
        return out

    @available_if(_has("_linear"))
    def linear_parameter(self) -> np.ndarray:
        """The parameter of a density that `linear` has made."""
        assert self._linear is not None
        return self._linear

    @available_if(_has("_counts"))
    def expected_counts(self, position: np.ndarray, keys: np.ndarray | None, out: np.ndarray) -> None:
        """Prior + counts, from all rows or from a minibatch, written to `out`."""
        self._evaluate(self._counts, "expected_counts", position, self._rows(position, keys), out)

    def compiled_functions(self) -> CompiledFunctions | None:
        """The functions for compiled samplers, if numba has compiled all of them."""
        if self.n_samples is not None and self.vectorized:
            return None
        functions = self._gradient, self._value, self._grad_prior, self._value_prior
        rows = self.n_samples, self.batch_size
        return compiled_functions(*functions, self.manifold.shape, *rows, self.vectorized)

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
        if values.size == len(out) == out.size:  # one number per chain, in any shape
            values = values.reshape(out.shape)
        self._check_shape(name, values, {out.shape: ""})
        out[...] = values

    def _gradient_of_rows(self, position: np.ndarray, rows: np.ndarray) -> np.ndarray:
        gradients = self._call(self._gradient, "grad_log_density", position, rows)
        each = (*rows.shape, *self.manifold.shape)
        meanings = {each: ", one gradient for each row", position.shape: ", the estimate of the whole"}
        self._check_shape("grad_log_density(x, rows)", gradients, meanings)
        return gradients

    def _check_shape(self, call: str, values: np.ndarray, meanings: dict[tuple[int, ...], str]) -> None:
        """Raise a ValueError unless a function of the user returned one of these shapes."""
        if values.shape not in meanings:
            axis = 0 if self.vectorized else 1
            right = ", or ".join(f"{shape[axis:]}{meaning}" for shape, meaning in meanings.items())
            raise ValueError(f"{call} must return shape {right}; it returned {values.shape[axis:]}.")

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
    """Raise a TypeError if the signature of a function shows that it does not accept its arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # None, or a function without a signature
        return
    try:
        signature.bind(*range(n_arguments))
    except TypeError as error:
        called = "(x, rows), because of n_samples" if n_arguments == 2 else "(x)"
        raise TypeError(f"{name} is called as {name}{called}, but does not accept these arguments: {error}.") from error


def check_noise(covariance: Any, size: int, name: str, vectorized: bool) -> Any:
    """As `check_covariance`, or a `CovarianceAt` of a function."""
    if callable(covariance):
        _check_arguments(covariance, name, 1)
        return CovarianceAt(covariance, size, name, vectorized)
    return check_covariance(covariance, size, name)


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
        check_symmetric(covariance, name, "semi-definite")
    elif covariance.min() < 0:
        raise ValueError(f"{name} must be non-negative; its least entry is {covariance.min():.3g}.")
    return float(covariance) if covariance.ndim == 0 else covariance
