"""Emission of category codes: each cell is the code of one of the categories of its column."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

from ..utils._sklearn import Interval
from ._base import BaseEmission


class Categorical(BaseEmission):
    r"""Columns of category codes, independent given the component: for `DPCategoricalMixture`.

    .. math:: p(x_i \mid z_i = k) = \prod_{c \text{ observed}} \theta_{k c x_{ic}}, \qquad
        \theta_{kc} \sim \mathrm{Dir}(a, \dots, a).

    Codes are integers from 0; NaN marks a missing cell. Other estimators do not accept this emission.

    Parameters
    ----------
    prior : float, default=0.5
        Positive pseudo-count a of each category.

    Examples
    --------
    >>> from skmanifold.emissions import Categorical
    >>> Categorical(prior=1.0)
    Categorical(prior=1.0)
    """

    short_name = "categorical"
    allows_missing = True
    allows_sparse = False
    has_codes = True
    _parameter_constraints: ClassVar[dict] = {"prior": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, prior: float = 0.5) -> None:
        self.prior = prior
