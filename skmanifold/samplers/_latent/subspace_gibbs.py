"""Gibbs sampling of mixtures of affine subspaces of unknown dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ...models import SubspaceMixtureModel
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval
from .._base import BaseSampler
from .._states import LatentState, run_pilot


@dataclass(eq=False, repr=False)
class FrameGibbs(BaseSampler):
    r"""Gibbs sampler of a mixture of affine subspaces of unknown dimensions: exact, without tuning of proposals.

    Each step updates the subspaces given the labels of the rows, and then draws the labels, :math:`P(z_i = k)
    \propto w_k N(x_i \mid c_k, \Sigma_k)`. Let S be the scatter of its n rows about its centre c, g the precision
    of the noise, and :math:`r_j` the ratio of the precision along direction :math:`u_j` to g, which is 1 orthogonal
    to the subspace:

    .. math::

        u_j' c &\sim N\left(\frac{n g r_j \lambda \, u_j' \bar x}{1 + n g r_j \lambda},
            \frac{\lambda}{1 + n g r_j \lambda}\right), \\
        (u_i, u_j) &\leftarrow (u_i \cos t + u_j \sin t, \; u_j \cos t - u_i \sin t), \quad
            2 t \sim \mathrm{vM}\left(\mathrm{atan2}(k_2, k_1), \sqrt{k_1^2 + k_2^2}\right), \\
        k_1 &= -\tfrac{g}{4} (r_i - r_j)(u_i' S u_i - u_j' S u_j), \quad
            k_2 = -\tfrac{g}{2} (r_i - r_j) \, u_i' S u_j, \\
        \frac{P(u_j \text{ in})}{P(u_j \text{ out})} &= \frac{p(d + 1)}{p(d)} \frac{d + 1}{D - d}
            \frac{a \int_0^1 r^{a + n/2 - 1} e^{-g r R_j / 2} dr}{e^{-g R_j / 2}}, \quad R_j = u_j' S u_j, \\
        r_j &\sim \mathrm{Ga}(a + n/2, g R_j / 2) \text{ on } (0, 1), \\
        g &\sim \mathrm{Ga}\left(a_g + \tfrac{n m}{2},
            b_g + \tfrac12 \operatorname{tr} S - \tfrac12 \sum_j (1 - r_j) R_j\right),

    Each pair of directions whose precisions differ is rotated, and each of D directions is added to the subspace or
    removed from it with its ratio integrated out. The model is that of [1]_, whose own moves are those of
    :class:`ConwayWalk`. The D directions are those of the subspace and random ones orthogonal to it: all m if m is at
    most 32, otherwise enough to double d. The subspace and the noise are identified because all ratios are below 1.
    Once per step the birth or death of a direction is also proposed: the first principal axis of the residuals of the
    rows, tilted towards the other axes by t-distributed amounts. The tilts are nearly normal if the axis is clear.
    Otherwise they have one degree of freedom, and the proposal is an angular central Gaussian distribution ([2]_). In
    high dimensions random directions would hardly be accepted.

    A component without rows follows its prior. Missing cells of rows are drawn after the labels, given the observed
    cells :math:`x_O`: with :math:`x = c + (A s + e) / \sqrt g`, :math:`A = U' \mathrm{diag}(\sqrt{1 / r - 1})` and
    standard normal s and e, the coordinates s have the precision :math:`M = I + A_O' A_O` and the mean
    :math:`M^{-1} A_O' (x_O - c_O) \sqrt g`.

    Parameters
    ----------
    n_sweeps : int, default=1
        Number of scans of rotations and dimension changes in a step. Their cost does not depend on the number of rows.
    n_pilot : int, default=20
        Number of steps from each of several initial partitions. The one with the highest mean log likelihood in the
        second half of these steps is continued. The dimensions are limited in these steps.

    References
    ----------
    .. [1] B. St. Thomas, L. Lin, L.-H. Lim and S. Mukherjee, "Learning subspaces of different dimensions", 2014.
    .. [2] J. T. Kent, A. M. Ganeiber and K. V. Mardia, "A new unified approach for the simulation of a wide class of
       directional distributions", Journal of Computational and Graphical Statistics 27, 2018.

    Examples
    --------
    >>> from skmanifold.samplers import FrameGibbs
    >>> FrameGibbs(n_pilot=50)
    FrameGibbs(n_pilot=50)
    """

    short_name = "gibbs"
    state_types = (LatentState,)
    requires = (SubspaceMixtureModel,)
    batching = "either"
    draws_parameters = True
    averages_passes = False
    _parameter_constraints: ClassVar[dict] = {
        "n_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_pilot": [Interval(Integral, 1, None, closed="left")],
    }

    n_sweeps: int = 1
    n_pilot: int = 20

    def init(self, model: SubspaceMixtureModel, key: np.uint64) -> LatentState:
        """The initial state: the best initial partition, after pilot runs if there are several."""
        trial = model.start_model
        begun = [
            LatentState(position, subkey(key, Purpose.START, i), 0, -np.inf, None, labels)
            for i, (labels, position) in enumerate(trial.beginnings)
        ]
        best = begun[0]
        if len(begun) > 1:
            tried = [run_pilot(partial(self.step, trial), state, self.n_pilot) for state in begun]
            best = tried[int(np.argmax([level for level, _ in tried]))][1]
        if trial.n_rows < model.n_rows:
            best = best._replace(latents=self._draw_labels(model, best.position, subkey(key, Purpose.START))[0])
        return best._replace(key=key)

    def step(self, model: SubspaceMixtureModel, state: LatentState) -> LatentState:
        """One sweep; ``log_density`` is log p(data | parameters)."""
        key = subkey(state.key, Purpose.SWEEP, state.n_steps)
        of_components = subkey(key, Purpose.COMPONENTS)
        position = model.draw_subspaces(state.position, state.latents, self.n_sweeps, of_components)
        labels, log_likelihood = self._draw_labels(model, position, subkey(key, Purpose.LABELS))
        return LatentState(position, state.key, state.n_steps + 1, log_likelihood, None, labels)

    @staticmethod
    def _draw_labels(model: SubspaceMixtureModel, position: Any, key: np.uint64) -> tuple[Any, float]:
        offsets = position.log_weights() + position.parameters.log_offsets()
        return model.draw_labels(position.parameters, offsets, key)

    def init_stream(self, model: SubspaceMixtureModel, key: np.uint64, scale: float) -> LatentState:
        """Initialise a stream by `n_pilot` steps on the first minibatch; each row represents `scale` rows."""
        state = self.init(model, key)
        for _ in range(self.n_pilot):
            state = self.step(model, state)
        moments = model.blend(None, state.position, state.latents, 1.0, scale)
        return self.resume_stream(model, (moments, state.position), key, 1)

    def resume_stream(self, model: SubspaceMixtureModel, statistics: Any, key: np.uint64, n_steps: int) -> LatentState:
        """The state of a stream after `n_steps` minibatches, from its moments and parameters."""
        return LatentState(statistics[1], key, n_steps, np.nan, statistics, None)

    def step_stream(self, model: SubspaceMixtureModel, state: LatentState, rate: float, scale: float) -> LatentState:
        """Draw the labels of a minibatch, add its moments, and update the subspaces given the moments."""
        key, (before, position) = subkey(state.key, Purpose.MINIBATCH, state.n_steps), state.statistics
        labels, _ = self._draw_labels(model, position, subkey(key, Purpose.LABELS))
        moments = model.blend(before, position, labels, rate, scale)
        position = model.draw_given_moments(position, moments, self.n_sweeps, subkey(key, Purpose.COMPONENTS))
        return self.resume_stream(model, (moments, position), state.key, state.n_steps + 1)

    def parameters(self, model: SubspaceMixtureModel, state: LatentState) -> Any:
        """The parameters as drawn."""
        return state.position
