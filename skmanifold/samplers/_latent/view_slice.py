"""Sampling of views: partitions of columns, and of the rows in each."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Literal

import numpy as np

from ...models import ViewPartitionModel
from ...random._keys import Purpose, subkey
from ...utils._sklearn import Interval
from .._base import BaseSampler
from .._states import LatentState
from .slice import Slice


@dataclass(eq=False, repr=False)
class ViewSlice(BaseSampler):
    r"""Sampler of views of columns: slice sampling of the rows of each view, and moves of columns; exact.

    A pass has these steps, each of which leaves the posterior invariant:

    1. In each view one pass of :class:`~skmanifold.samplers.Slice` over the rows, which also draws the concentration of
       the view, the hyperparameters of its columns, and numbers within the cells of rounded columns.
    2. The view of each column given the partitions of all views. View v with :math:`n_v` other columns has the weight
       :math:`n_v \, p(x_j \mid \pi_v)`. For a random part of the columns there are new views too, the auxiliary
       variables of algorithm 8 of [2]_: m partitions from a proposal q, each with the weight

       .. math:: \frac{\gamma}{m} \, \frac{p(\pi_c) \, p(x_j \mid \pi_c)}{q(\pi_c)}.

       A draw of q is one Gibbs scan of the rows of this column alone, from a partition that was found for it before the
       chain began; one of twenty is from the prior.
    3. `n_view_moves` times, a split of a view or a merge of two views. Merged columns have the common refinement of the
       two partitions of the rows. A split joins the clusters of a view to two coarser partitions with this refinement,
       so that independent groups of columns are separated. Both have launch states as in [3]_.
    4. The concentration :math:`\gamma` of the process of the columns, by a slice update.

    Parameters
    ----------
    n_candidates : int, default=1
        Number m of new views that are proposed for a column; 0 proposes none.
    n_view_moves : int, default=1
        Number of proposed splits and merges of views in each pass.
    n_split_merge : int or "auto", default="auto"
        Number of split-merge moves of the rows in each view and pass, see :class:`~skmanifold.samplers.Slice`.

    References
    ----------
    .. [1] V. Mansinghka, P. Shafto, E. Jonas, C. Petschulat, M. Gasner and J. B. Tenenbaum, "CrossCat: a fully Bayesian
       nonparametric method for analyzing heterogeneous, high dimensional data", Journal of Machine Learning Research
       17, 2016.
    .. [2] R. M. Neal, "Markov chain sampling methods for Dirichlet process mixture models", Journal of Computational
       and Graphical Statistics 9, 2000.
    .. [3] S. Jain and R. M. Neal, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture
       model", Journal of Computational and Graphical Statistics 13, 2004.
    """

    short_name = "view_slice"
    state_types = (LatentState,)
    requires = (ViewPartitionModel,)
    log_density_name = "log_joint"
    draws_parameters = True
    averages_passes = False
    _parameter_constraints: ClassVar[dict] = {
        "n_candidates": [Interval(Integral, 0, None, closed="left")],
        "n_view_moves": [Interval(Integral, 0, None, closed="left")],
        "n_split_merge": Slice._parameter_constraints["n_split_merge"],
    }

    n_candidates: int = 1
    n_view_moves: int = 1
    n_split_merge: int | Literal["auto"] = "auto"

    def init(self, model: ViewPartitionModel, key: np.uint64) -> LatentState:
        """The initial state: views in the statistics, numbers of columns in the latents; the position is gamma."""
        concentration = model.init_concentration()
        numbers, views = model.init_views(subkey(key, Purpose.INITIAL_LATENTS))
        return LatentState(concentration, key, 0, -np.inf, views, numbers)

    def step(self, model: ViewPartitionModel, state: LatentState) -> LatentState:
        """One pass over rows and columns; ``log_density`` is the log joint density given the concentrations."""
        key, concentration = subkey(state.key, Purpose.SWEEP, state.n_steps), state.position
        of_rows = Slice(self.n_split_merge), subkey(key, Purpose.ROWS)
        numbers, views = model.draw_rows(state.latents, state.statistics, *of_rows)
        moves = numbers, concentration
        views = model.move_columns(views, *moves, self.n_candidates, subkey(key, Purpose.SWEEP))
        for move in range(self.n_view_moves):
            views = model.split_or_merge(views, *moves, subkey(key, Purpose.SPLIT_MERGE, move))
        concentration = model.draw_concentration(len(views), concentration, subkey(key, Purpose.CONCENTRATION))
        log_joint = model.log_joint(views, concentration)
        return LatentState(concentration, state.key, state.n_steps + 1, log_joint, views, numbers)
