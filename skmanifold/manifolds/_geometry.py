"""The geometry of manifolds in compiled code: the functions that samplers call for points of all chains.

A geometry is a NamedTuple, whose class determines the kernels. Points and vectors are arrays ``(n_chains, size)``.
"""

from __future__ import annotations

from ..utils._by_type import by_type


@by_type
def project(geometry, x, v):
    """Replace `v` by its tangent part at `x`."""


@by_type
def flow(geometry, x, v, t):
    """Move along the geodesic from `x` with velocity `v` for time `t`."""


@by_type
def retract(geometry, x, v):
    """Correct rounding errors of a point close to the manifold and of its tangent vector."""
