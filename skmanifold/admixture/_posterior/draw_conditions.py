"""Conditions that draws of topics of words must satisfy in a fitted estimator."""

from __future__ import annotations

from typing import Any

from ...inference._draw_conditions import traces
from ...utils._conditions import Array, Condition, Keyed, Real

_WEIGHTS = Array("float64", ("n_chains", "n_draws", "n_components"), low=0, sums_to_one=-1)
_COMPONENTS = Array("float32", ("n_chains", "n_component_draws", "n_components", "n_features"), low=0, sums_to_one=-1)
_DOC_TOPIC = Array("int64", ("n_chains", "n_component_draws", None, "n_components"), low=0)
DRAW = Keyed(  # one draw of a stream
    ("log_likelihood", "topic_weights", "components"),
    log_likelihood=Real(nan=True, infinite=True),
    topic_weights=Array("float64", ("n_components",), low=0, sums_to_one=0),
    components=Array("float32", ("n_components", "n_features"), low=0, sums_to_one=-1),
)


def topic_traces(**others: Condition) -> dict[str, Condition]:
    """Conditions of the traces and draws of a fit, for topics of words."""
    draws: dict[str, Any] = {
        "topic_weights": _WEIGHTS,
        "components": _COMPONENTS,
        "doc_topic_counts": _DOC_TOPIC,
        **others,
    }
    return traces("log_likelihood", "log_joint", "objective", **draws)
