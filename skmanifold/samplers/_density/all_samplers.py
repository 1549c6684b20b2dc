"""The samplers of densities on manifolds; all others need a latent-variable model."""

from .._cir.scir import SCIR, GeometricBrownian
from .base import ManifoldSampler
from .fisher_scoring import SGFS
from .geodesic import GSGNHT, SGGMC
from .hamiltonian import SGHMC, SGNHT
from .langevin import SGLD, SGRLD
from .metropolis import GMC, HMC
from .nuts import NUTS
from .riemannian import SGRHMC

ON_DENSITIES: tuple[type[ManifoldSampler], ...] = (
    HMC,
    NUTS,
    SGLD,
    SGFS,
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
