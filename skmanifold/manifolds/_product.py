"""Products of manifolds, for posteriors with several blocks of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ..utils._parameters import offers
from ..utils._typing import available_if
from ._base import DiffusionMetric, Flat, GeodesicFlow, Manifold, finite_array


def _all_factors(protocol: type) -> Callable[[Product], bool]:
    return lambda product: all(offers(factor, protocol) for factor in product.factors)


class Product(Manifold):
    """The product of manifolds.

    A point is one flat array that concatenates the flattened points of the factors; `split` returns views of the parts
    in their shapes. The base measure is the product of the base measures of the factors.

    The methods of a product depend on its factors. `project`, `flow` and `retract` exist if all factors are geodesic
    flows; `inverse_metric`, `divergence` and `reflect` exist if all factors have a diffusion metric. ``is_flat`` is
    True if all factors are flat. ``hasattr`` is False for a method that one of the factors lacks.

    The constructor takes the factors as positional arguments, ``Product(Sphere(3), Euclidean(2))``. As a parameter
    (`get_params`, `set_params`) they are the tuple ``factors``.

    Parameters
    ----------
    *factors : Manifold
        The factors, at least one.

    Raises
    ------
    TypeError, ValueError
        If a factor is not a manifold, or there is none.

    Examples
    --------
    A direction x, with the density exp(5 x[2]), and a positive number in x[3], with the density exp(-x[3]):

    >>> import numpy as np
    >>> from skmanifold import sample
    >>> from skmanifold.manifolds import PositiveOrthant, Product, Sphere
    >>> from skmanifold.models import Density
    >>> manifold = Product(Sphere(3), PositiveOrthant(1))
    >>> target = Density(manifold, lambda x: np.array([0, 0, 5, -1]), lambda x: 5 * x[2] - x[3])
    >>> draws = sample(target, "gmc", n_draws=20, n_chains=2, random_state=0)
    >>> draws.position.shape
    (2, 20, 4)
    >>> direction, number = manifold.split(draws.position)
    >>> direction.shape, number.shape
    ((2, 20, 3), (2, 20, 1))
    """

    def __init__(self, *factors: Manifold) -> None:
        self.factors = factors
        self._set_up()

    def _set_up(self) -> None:
        if not self.factors:
            raise ValueError("Product needs at least one factor.")
        for factor in self.factors:
            if not isinstance(factor, Manifold):
                raise TypeError(f"Product needs factors that are manifolds, got {factor!r}.")
        self._stops = np.cumsum([factor.size for factor in self.factors]).tolist()

    @property
    def shape(self) -> tuple[int, ...]:
        """``(sum of the factors' sizes,)``."""
        return (self._stops[-1],)

    @property
    def dim(self) -> int:
        """Intrinsic dimension: the sum of the dimensions of the factors."""
        return sum(factor.dim for factor in self.factors)

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        r"""Split points into the parts of the factors.

        Parameters
        ----------
        x : array of shape (..., size)
            Points, or tangent vectors.

        Returns
        -------
        parts : list of arrays of shape (..., \*factor.shape)
            Views into `x`, one for each factor.
        """
        starts = [0, *self._stops]
        return [
            x[..., start:stop].reshape(*x.shape[:-1], *factor.shape)
            for factor, start, stop in zip(self.factors, starts, self._stops, strict=False)
        ]

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a random point of each factor, in order."""
        return np.concatenate([factor.random_point(rng).ravel() for factor in self.factors])

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError, naming the factor, unless every part is on its factor within `atol`."""
        for i, (factor, part) in enumerate(zip(self.factors, self.split(finite_array(x, self.shape)), strict=True)):
            try:
                factor.check_point(part, atol)
            except ValueError as error:
                raise ValueError(f"In factor {i}, {factor!r}: {error}") from error

    @property
    def is_flat(self) -> bool:
        """Whether all factors are flat."""
        return all(offers(factor, Flat) for factor in self.factors)

    @available_if(_all_factors(GeodesicFlow))
    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Replace `v` by its tangent part at `x`, in place."""
        self._call_factors("project", [x], [v])

    @available_if(_all_factors(GeodesicFlow))
    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along the geodesic from `x` with velocity `v` for time `t`; both are updated in place."""
        self._call_factors("flow", [], [x, v], t)

    @available_if(_all_factors(GeodesicFlow))
    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Remove rounding errors from `x` and from its tangent vector `v`, in place."""
        self._call_factors("retract", [], [x, v])

    @available_if(_all_factors(DiffusionMetric))
    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Diagonal of the inverse metric at `x`, written to `out`."""
        self._call_factors("inverse_metric", [x], [out])

    @available_if(_all_factors(DiffusionMetric))
    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        """Divergence of the inverse metric at `x`, written to `out`."""
        self._call_factors("divergence", [x], [out])

    @available_if(_all_factors(DiffusionMetric))
    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Reflect coordinates that left the space back into it and reverse their momenta, in place."""
        self._call_factors("reflect", [], [x] if momentum is None else [x, momentum])

    def _call_factors(self, method: str, read: list, written: list, *arguments) -> None:
        """Call `method` of every factor with contiguous copies or views of its parts of the arrays."""
        start = 0
        for factor, stop in zip(self.factors, self._stops, strict=True):
            inputs = [np.ascontiguousarray(array[:, start:stop]) for array in read]
            views = [array[:, start:stop] for array in written]
            outputs = [np.ascontiguousarray(view) for view in views]
            parts = [part.reshape(-1, *factor.shape) for part in inputs + outputs]
            getattr(factor, method)(*parts, *arguments)
            for view, output in zip(views, outputs, strict=True):
                if output is not view:  # with several chains the part is not contiguous, so `output` is a copy
                    view[...] = output
            start = stop

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Ignored, because factors have no names.

        Returns
        -------
        params : dict
            The tuple of factors, named ``factors``.
        """
        return {"factors": self.factors}

    def set_params(self, **params: Any) -> Self:
        """Set the parameters."""
        if unknown := sorted(params.keys() - {"factors"}):
            raise ValueError(f"Product has no parameter {unknown[0]!r}, only 'factors'.")
        if params:
            self.factors = tuple(params["factors"])
            self._set_up()
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Product({', '.join(repr(factor) for factor in self.factors)})"

    def __sklearn_clone__(self) -> Self:
        return type(self)(*[clone(factor) for factor in self.factors])

    def __reduce__(self) -> tuple[type[Product], tuple[Manifold, ...]]:
        return type(self), self.factors
