"""Manifolds: values that know shapes, tangents, geodesics and metrics, and no data."""

from ._base import DiffusionMetric, Flat, GeodesicFlow, Manifold
from ._conway_sphere import ConwaySphere, projection_distance
from ._euclidean import Euclidean
from ._positive_orthant import PositiveOrthant
from ._product import Product
from ._projection_ranks import log_rank_probabilities
from ._simplex import Simplex
from ._sphere import Sphere
from ._stiefel import Stiefel

__all__ = [
    "ConwaySphere",
    "DiffusionMetric",
    "Euclidean",
    "Flat",
    "GeodesicFlow",
    "Manifold",
    "PositiveOrthant",
    "Product",
    "Simplex",
    "Sphere",
    "Stiefel",
    "log_rank_probabilities",
    "projection_distance",
]
