"""Samplers: cloneable values that hold an algorithm's settings and move a state."""

from ._base import BaseSampler, State
from ._check_recipe import RecipeReport, check_recipe
from ._column_gibbs import ColumnGibbs
from ._conway import ConwayWalk
from ._em import EM
from ._frame_gibbs import FrameGibbs
from ._geodesic import GSGNHT, SGGMC
from ._gradient import SVRG
from ._hamiltonian import SGHMC, SGNHT
from ._langevin import SGLD, SGRLD
from ._manifold_sampler import ManifoldSampler, NonFiniteError
from ._metropolis import GMC, HMC, BlockwiseGMC
from ._recipe import InvalidRecipeError, Recipe
from ._recover_curl import recover_curl
from ._riemannian import SGRHMC
from ._schedule import PolynomialDecay
from ._scir import SCIR, GeometricBrownian
from ._slice import Slice
from ._sweep import CVB0, ESCA, CollapsedGibbs, Gibbs
from ._variational import MeanField, StochasticMeanField

# Samplers of any density on a manifold; the others belong to models with statistics of their own.
ON_DENSITIES: tuple[type[ManifoldSampler], ...] = (
    HMC,
    SGLD,
    SGHMC,
    SGNHT,
    SGRLD,
    SGRHMC,
    GMC,
    SGGMC,
    GSGNHT,
    SCIR,
    GeometricBrownian,
)

__all__ = [
    "CVB0",
    "EM",
    "ESCA",
    "GMC",
    "GSGNHT",
    "HMC",
    "ON_DENSITIES",
    "SCIR",
    "SGGMC",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRHMC",
    "SGRLD",
    "SVRG",
    "BaseSampler",
    "BlockwiseGMC",
    "CollapsedGibbs",
    "ColumnGibbs",
    "ConwayWalk",
    "FrameGibbs",
    "GeometricBrownian",
    "Gibbs",
    "InvalidRecipeError",
    "ManifoldSampler",
    "MeanField",
    "NonFiniteError",
    "PolynomialDecay",
    "Recipe",
    "RecipeReport",
    "Slice",
    "State",
    "StochasticMeanField",
    "check_recipe",
    "recover_curl",
]
