"""Conditions on the draws and traces of fitted estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils._conditions import Array, Condition, Keyed, Lacking, Real, Whole, index

_TRACE = Array("float64", ("n_chains", "n_draws"), nan=True, infinite=True)
_SMALL = {"topic_weights", "concentration"}


def traces(*names: str, needed: tuple[str, ...] = (), **others: Condition) -> dict[str, Condition]:
    """Conditions on the attributes of a fit by chains; draws of only a few numbers must all be present.

    One of `names`, of the log densities, is present, and all of `needed`; `others` are conditions on draws.
    """
    return {
        "log_density_trace_": Lacking(Array("float64", ("n_chains", "n_iter"), nan=True, infinite=True)),
        "n_iter_": Lacking(Whole()),
        "_n_burn_in": Lacking(Whole()),
        "_n_units": Lacking(Real(low=0)),  # not whole if rows have weights
        "_posterior": Lacking(Keyed({*needed, *(_SMALL & others.keys())}, **dict.fromkeys(names, _TRACE), **others)),
        "_component_draws": Lacking(index("n_component_draws", below="n_draws")),
    }


def whole_draws_agree(estimator: Any, has_best: bool = True) -> str | None:
    """Check that the complete draws and the best chain are present."""
    learned = vars(estimator)
    posterior = learned.get("_posterior")
    if has_best and (posterior is not None or learned.get("_stream") is not None) and "best_chain_" not in learned:
        return "lacks best_chain_"
    if posterior is None:
        return None if learned.get("n_batch_iter_", 0) else "lacks its draws"
    if not {"log_likelihood", "log_joint", "objective"} & posterior.keys():
        return "lacks the log density of its draws"
    which = learned.get("_component_draws")
    if which is None or (np.diff(which) <= 0).any():
        return "has draws of components that are not in order"
    if len(which) and "components" not in posterior:
        return "lacks the draws of its components"
    return None
