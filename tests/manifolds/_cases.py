"""The manifolds that every law is tried on, and the few things that the laws are told with."""

import numpy as np

from skmanifold.manifolds import ConwaySphere, Euclidean, PositiveOrthant, Product, Simplex, Sphere, Stiefel

FLOWS = [
    Euclidean(3),
    Euclidean((2, 3)),
    PositiveOrthant((2, 2)),
    Sphere(2),
    Sphere(3),
    Sphere(19, n_points=4),
    Sphere(3, radius=7.5),
    Sphere(4, n_points=3, radius=(0.5, 1, 20)),
    Stiefel(4, 1),
    Stiefel(5, 2),
    Stiefel(3, 3),
    Stiefel(5, 2, radius=7.5),
    Stiefel(3, 3, radius=0.5),
    ConwaySphere(3),
    Product(Sphere(3), Euclidean(2), Stiefel(4, 2)),
    Product(PositiveOrthant(2), Product(Sphere(2, n_points=3), ConwaySphere(2))),
]
DEGENERATE = [Sphere(1), Stiefel(1, 1), ConwaySphere(1)]  # two points each
METRICS = [
    Euclidean(3),
    Euclidean((2, 3)),
    PositiveOrthant(4),
    PositiveOrthant((2, 2)),
    Product(PositiveOrthant(3), Euclidean((2, 2))),
]
MANIFOLDS = [*FLOWS, *DEGENERATE, Simplex(1), Simplex(4), Simplex(3, n_points=2), Product(Simplex(3), Sphere(3))]


def points(manifold, n_chains, seed=0):
    """`n_chains` random points."""
    rng = np.random.default_rng(seed)
    return np.stack([manifold.random_point(rng) for _ in range(n_chains)])


def vectors(manifold, x, seed=1, scale=1.0):
    """A random tangent vector at each of the points."""
    v = scale * np.random.default_rng(seed).standard_normal(x.shape)
    manifold.project(x, v)
    return v


def moved(manifold, x, v, t):
    """The flow's result, leaving the arguments alone."""
    x, v = x.copy(), v.copy()
    manifold.flow(x, v, t)
    return x, v


def projector(manifold, point):
    """The tangent projection at one point as a matrix, made of one chain for each unit vector."""
    basis = np.eye(manifold.size).reshape(-1, *manifold.shape)
    manifold.project(np.ascontiguousarray(np.broadcast_to(point, basis.shape)), basis)
    return basis.reshape(manifold.size, manifold.size).T
