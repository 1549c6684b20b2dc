"""The geometry of manifolds in compiled code: the functions that samplers call for points of all chains.

A geometry is a NamedTuple, whose class determines the kernels. Points and vectors are arrays ``(n_chains, size)``.
`MethodsGeometry` has those of any manifold, for moves that Python interprets, with arrays ``(n_chains, *shape)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..utils._njit import by_type


@by_type
def project(geometry, x, v):
    """Replace `v` by its tangent part at `x`."""


@by_type
def flow(geometry, x, v, t):
    """Move along the geodesic from `x` with velocity `v` for time `t`."""


@by_type
def retract(geometry, x, v):
    """Correct rounding errors of a point close to the manifold and of its tangent vector."""


class MethodsGeometry(NamedTuple):
    """The geometry of a manifold by its methods."""

    manifold: Any


@project.of(MethodsGeometry)
def _project(geometry, x, v):
    geometry.manifold.project(x, v)


@flow.of(MethodsGeometry)
def _flow(geometry, x, v, t):
    geometry.manifold.flow(x, v, t)


@retract.of(MethodsGeometry)
def _retract(geometry, x, v):
    geometry.manifold.retract(x, v)
