"""Gibbs sweeps over the columns of an orthonormal frame with a matrix von Mises-Fisher distribution."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np

from ...distributions import gibbs_sweep
from ...models import HasLinearLogDensity
from ...random._keys import subkey
from ...utils._sklearn import Interval
from .._states import State, counted
from .base import ManifoldSampler, step_keys


@dataclass(eq=False, repr=False)
class ColumnGibbs(ManifoldSampler):
    r"""Gibbs sampler over the columns of a frame with a matrix von Mises-Fisher distribution.

    The density is proportional to :math:`\exp(\mathrm{tr}(F'X))` on a Stiefel manifold, such as that of the topics of
    `OrthogonalSphericalAdmixture` given the proportions of the documents. A sweep draws

    - each column given the others, from a von Mises-Fisher distribution on the unit sphere of their orthogonal
      complement ([1]_);
    - the frame within its span, :math:`X O` with density :math:`\exp(\mathrm{tr}((X'F)' O))` over orthogonal matrices
      O: the sign of each column, and the rotation angle of each pair of columns from its von Mises distribution.
      Without these draws the frame would rotate very slowly within its span.

    Both draws are exact, have no tuning parameters, and cost :math:`O(V K^2)`.

    Parameters
    ----------
    n_sweeps : int, default=1
        Number of sweeps in one step of the chain.

    References
    ----------
    .. [1] P. D. Hoff, "Simulation of the matrix Bingham-von Mises-Fisher distribution, with applications to
       multivariate and relational data", Journal of Computational and Graphical Statistics 18, 2009.

    Examples
    --------
    >>> from skmanifold.samplers import ColumnGibbs
    >>> ColumnGibbs(n_sweeps=3)
    ColumnGibbs(n_sweeps=3)
    """

    short_name = "gibbs"
    requires = (HasLinearLogDensity,)
    batching = "full"
    _draws_isolated_points = True  # Stiefel(1, 1) consists of the points -1 and 1
    _parameter_constraints: ClassVar[dict] = {"n_sweeps": [Interval(Integral, 1, None, closed="left")]}

    n_sweeps: int = 1

    def _begin(self, model, keys: np.ndarray, position: np.ndarray) -> State:
        return State(position, step_keys(keys), 0, np.nan)

    def step(self, model: HasLinearLogDensity, state: State) -> State:
        """`n_sweeps` Gibbs sweeps over the columns."""
        radius = model.manifold.radius
        parameter = radius * model.linear_parameter()  # of the unit frame
        for frame, key in zip(state.position, state.key, strict=True):
            rng = np.random.default_rng(int(subkey(key, state.n_steps)))
            unit = frame / radius
            for _ in range(self.n_sweeps):
                unit = gibbs_sweep(unit, parameter, rng)
                unit = unit @ gibbs_sweep(np.eye(unit.shape[1]), unit.T @ parameter, rng)
            frame[...] = radius * unit
        return counted(state)
