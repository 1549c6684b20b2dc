"""Draws as ArviZ's tree of data, made of named arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

SAMPLE_STATS = ("log_joint", "log_likelihood", "temperature")  # of what estimators call their draws
_NAMES = {"log_joint": "lp", "log_density": "lp"}  # ArviZ's own word


def to_tree(
    draws: Mapping[str, np.ndarray],
    axes: Mapping[str, list[str]],
    coords: Mapping[str, Any] | None = None,
    *,
    stats: Collection[str] = SAMPLE_STATS,
    component_draws: np.ndarray | None = None,
) -> Any:
    """Named draws as a tree whose variables have named axes.

    Draws go to the group ``posterior``; log densities, and what else `stats` names, to ``sample_stats``. A group of
    ArviZ has one dimension of draws: variables of which fewer draws were kept than of the rest are in a group of their
    own, ``posterior_thinned``, whose ``draw`` says which draws of ``posterior`` they belong to. What has no entries,
    and a statistic that is NaN throughout, is left out.

    Parameters
    ----------
    draws : dict of str to ndarray of shape (n_chains, n_draws, ...)
        By name. Where lengths differ from draw to draw they are padded with NaN.
    axes : dict of str to list of str
        The axes of each variable after those of chains and draws; of those that are not named there are none.
    coords : dict of str to array-like, optional
        Labels along an axis, such as names of features; an axis without is numbered.
    stats : collection of str
        Variables that tell of the sampler's run.
    component_draws : sequence of int, optional
        Which draws, counted from 0, the variables with fewer of them were kept at.

    Raises
    ------
    ImportError
        Where arviz-base is not installed.
    ValueError
        If there are no draws, or arrays do not fit what is said of them.
    """
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError('to_arviz needs arviz-base: pip install "skmanifold[arviz]".') from error
    n_draws = max(np.shape(values)[1] for values in draws.values())
    if n_draws == 0:
        raise ValueError("No draws were kept: raise max_draws_bytes, or lower burn_in or thin.")
    n_thinned = n_draws if component_draws is None else len(component_draws)
    groups: dict[str, dict[str, np.ndarray]] = {}
    for name, values in draws.items():
        if np.ndim(values) != 2 + len(axes.get(name, [])):
            raise ValueError(f"The axes of {name!r}, of shape {np.shape(values)}, are not known.")
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
        raise ValueError(f"The numbers of draws differ, {lengths}: component_draws must say which ones were kept.")
    # conventions are kept; the check would warn of more chains than draws
    tree = from_dict(groups, coords=dict(coords or {}), dims=dict(axes), check_conventions=False)
    if thinned is not None:
        coords = {**(coords or {}), "draw": np.asarray(component_draws)}
        part = from_dict({"posterior_thinned": thinned}, coords=coords, dims=dict(axes), check_conventions=False)
        tree["posterior_thinned"] = part["posterior_thinned"]
    return tree


def falling(values: np.ndarray) -> np.ndarray:
    """`values` sorted along the last axis, the largest first and NaN last: what is left of them without labels."""
    return -np.sort(-values, axis=-1)
