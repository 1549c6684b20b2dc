"""Conversion of draws to the data tree of ArviZ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from .._install import install_command

SAMPLE_STATS = ("log_joint", "log_likelihood", "temperature")  # draws of estimators that are statistics of the run
_NAMES = {  # of ArviZ
    "log_joint": "lp",
    "log_density": "lp",
    "acceptance": "acceptance_rate",
    "depth": "tree_depth",
    "n_gradients": "n_steps",
}


def to_tree(
    draws: Mapping[str, np.ndarray],
    axes: Mapping[str, list[str]],
    coords: Mapping[str, Any] | None = None,
    *,
    stats: Collection[str] = SAMPLE_STATS,
    component_draws: np.ndarray | None = None,
) -> Any:
    """Named draws as an `xarray.DataTree` whose variables have named axes; ValueError if shapes do not agree.

    Draws, (n_chains, n_draws, ...), are in the group ``posterior``, padded with NaN if lengths differ between draws;
    variables in `stats` in ``sample_stats``. A group of ArviZ has a single dimension of draws, so those with fewer are
    in ``posterior_thinned``, whose ``draw`` has their indices, `component_draws`. `axes` are names after chain and
    draw, `coords` labels along axes. Variables without entries, and statistics that are all NaN, are omitted.
    """
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError(f"to_arviz needs arviz-base: {install_command('arviz')}") from error
    n_draws = max(np.shape(values)[1] for values in draws.values())
    if n_draws == 0:
        raise ValueError("No draws were kept: increase max_draws_bytes, or decrease burn_in or thin.")
    n_thinned = n_draws if component_draws is None else len(component_draws)
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, values in draws.items():
        if np.ndim(values) != 2 + len(axes.get(name, [])):
            raise ValueError(f"The axes of {name!r}, of shape {np.shape(values)}, have no names.")
        if name in stats:
            group = "sample_stats"
            if np.issubdtype(values.dtype, np.floating) and np.isnan(values).all():
                continue
        else:
            group = "posterior_thinned" if values.shape[1] == n_thinned < n_draws else "posterior"
        if values.size:
            groups.setdefault(group, {})[_NAMES.get(name, name)] = values
    thinned = groups.pop("posterior_thinned", None)
    lengths = {name: values.shape[1] for group in groups.values() for name, values in group.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The numbers of draws differ, {lengths}: pass the indices of kept draws as component_draws.")
    # the check would warn if there are more chains than draws
    tree = from_dict(groups, coords=dict(coords or {}), dims=dict(axes), check_conventions=False)
    if thinned is not None:
        coords = {**(coords or {}), "draw": np.asarray(component_draws)}
        part = from_dict({"posterior_thinned": thinned}, coords=coords, dims=dict(axes), check_conventions=False)
        tree["posterior_thinned"] = part["posterior_thinned"]
    return tree


def falling(values: np.ndarray) -> np.ndarray:
    """`values` sorted in descending order along the last axis with NaN last, so that labels do not matter."""
    return -np.sort(-values, axis=-1)
