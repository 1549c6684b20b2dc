"""Conversion of the contents of files of earlier versions, such as samplers' states, which had one class for all.

A *node* is a named tuple in a file: a dict with the name of the class and its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_SHARED = ("position", "key", "n_steps", "log_density")
_GRADIENT_STATES = {
    (): "GradientState",
    ("momentum",): "MomentumState",
    ("momentum", "thermostat"): "ThermostatState",
}


def upgraded(node: dict[str, Any]) -> dict[str, Any]:
    """The node of a named tuple in the format of this version; most nodes are returned unchanged."""
    upgrade = _UPGRADES.get(node["class"])
    return node if upgrade is None else upgrade(node)


def _upgrade_state(node: dict[str, Any]) -> dict[str, Any]:
    """The node of the sampler's current state class, which depends on the contents of the old state."""
    fields = node["fields"]
    if "memory" not in fields:
        return node
    memory, statistics, latents = (fields.get(name) for name in ("memory", "statistics", "latents"))
    of_memory, of_position = _class_of(memory), _class_of(fields["position"])
    own: dict[str, Any]
    if of_memory == "GradientMemory":
        more = tuple(name for name in ("momentum", "thermostat") if fields[name] is not None)
        name, own = _GRADIENT_STATES[more], {name: fields[name] for name in ("memory", *more)}
    elif of_memory == "LazyRows":
        name, own = "SCIRRowsState", {"rows": memory, "latents": latents}
    elif of_memory == "DPMixture":
        name, own = "DPStreamState", {"statistics": statistics, "mixture": memory}
    elif of_position == "Blocks":
        name, own = "DPState", {"statistics": statistics, "latents": latents}
    elif memory is not None:
        name, own = "EMState", {"statistics": statistics, "gain": memory}
    elif isinstance(fields["position"], dict) and fields["position"]["type"] == "array" and statistics is None:
        name, own = "LogPositionState", {"log_theta": latents}
    else:
        name, own = "State", {"statistics": statistics, "latents": latents}
    return {**node, "class": name, "fields": {**{each: fields[each] for each in _SHARED}, **own}}


def _upgrade_stream_chain(node: dict[str, Any]) -> dict[str, Any]:
    """The node of a stream's chain with its statistics, which earlier versions had in the sampler's state."""
    fields = node["fields"]
    if "statistics" in fields:
        return node
    return {**node, "fields": {**fields, "statistics": fields["state"]["fields"]["statistics"]}}


def _upgrade_counts(node: dict[str, Any]) -> dict[str, Any]:
    """The node of counts of categories, which had another name."""
    return {**node, "class": "CategoryCounts"}


def _upgrade_counted_draw(node: dict[str, Any]) -> dict[str, Any]:
    """The node of a drawn partition, which had the two arrays of its counts among its own fields."""
    fields = dict(node["fields"])
    counts = {name: fields.pop(name) for name in ("sizes", "categories")}
    statistics = {**node, "class": "CategoryCounts", "fields": counts}
    return {**node, "class": "PartitionDraw", "fields": {"statistics": statistics, **fields}}


def _upgrade_parameter_draw(node: dict[str, Any]) -> dict[str, Any]:
    """The node of drawn parameters, in which earlier versions called the components `log_components`."""
    renamed = {"log_components": "components"}
    return {**node, "fields": {renamed.get(name, name): field for name, field in node["fields"].items()}}


def completed(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The fitted attributes of a class, with parts that earlier versions did not have; most are returned unchanged."""
    complete = _COMPLETIONS.get(name)
    return attributes if complete is None else complete(attributes)


def _count_no_missing_cells(attributes: dict[str, Any]) -> dict[str, Any]:
    """Statistics of Gaussian components with variances also count missing cells; earlier versions refused these."""
    if type(attributes.get("_family")).__name__ != "DiagonalFamily":
        return attributes
    arrays = attributes["_sums"].total()
    if len(arrays) != 3:
        return attributes
    return {**attributes, "_sums": type(attributes["_sums"]).whole((*arrays, np.zeros_like(arrays[1])))}


def _class_of(node: Any) -> str | None:
    return node.get("class") if isinstance(node, dict) else None


_UPGRADES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "CountedDraw": _upgrade_counted_draw,
    "MixtureCounts": _upgrade_counts,
    "ParameterDraw": _upgrade_parameter_draw,
    "State": _upgrade_state,
    "StreamChain": _upgrade_stream_chain,
}
_COMPLETIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "ExponentialFamilyMixture": _count_no_missing_cells,
}
