"""Step sizes that change with the number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..utils._parameters import LinksToItsPage, PlainNumbers
from ..utils._typing import BaseEstimator

StepSize: TypeAlias = float | Callable[[int], float]  # a schedule is called with the number of each step


class PolynomialDecay(PlainNumbers, LinksToItsPage, BaseEstimator):
    r"""Step size with polynomial decay: :math:`h_t = a (1 + t / b)^{-c}` at step t = 0, 1, 2, ...

    With 1/2 < c <= 1 the sum of the step sizes diverges and the sum of their squares converges. A sampler without
    Metropolis correction is then exact in the limit ([1]_, with the exponent outside of the bracket).

    Parameters
    ----------
    a : float, default=0.01
        The first step size.
    b : float, default=1000
        Number of steps after which the step size begins to decrease.
    c : float, default=0.6
        Exponent.

    References
    ----------
    .. [1] S. Patterson and Y. W. Teh, "Stochastic gradient Riemannian Langevin dynamics on the probability simplex",
       NIPS 2013.

    Examples
    --------
    >>> from skmanifold.samplers import SGLD, PolynomialDecay
    >>> SGLD(step_size=PolynomialDecay(0.01, b=500, c=0.6))
    SGLD(step_size=PolynomialDecay(b=500))
    """

    def __init__(self, a: float = 0.01, b: float = 1000.0, c: float = 0.6) -> None:
        self.a = a
        self.b = b
        self.c = c

    def __call__(self, t: int) -> float:
        """Step size of step `t`, counted from 0."""
        if not (self.a > 0 and self.b > 0 and self.c >= 0):
            raise ValueError(f"PolynomialDecay needs a > 0, b > 0 and c >= 0; got {self.get_params()}.")
        return self.a * (1 + t / self.b) ** -self.c


def step_sizes_at(step_size: Any, first: int, n_steps: int) -> np.ndarray:
    """The sizes of `n_steps` steps, from step `first` on."""
    if not callable(step_size):
        return np.full(n_steps, step_size, np.float64)
    return np.array([step_size_at(step_size, t) for t in range(first, first + n_steps)], np.float64)


def step_size_at(step_size: Any, t: int) -> float:
    """The step size of step `t`: the number itself, or the value of a schedule."""
    if not callable(step_size):
        return step_size
    size = step_size(t)
    try:
        size = float(size)
    except TypeError as error:
        raise TypeError(f"step_size must be a number or a function that returns one; it returned {size!r}.") from error
    if not 0 < size < float("inf"):
        raise ValueError(f"step_size must be positive and finite; the schedule returned {size} at step {t}.")
    return size
