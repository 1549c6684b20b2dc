"""The samplers of any density on a manifold; the others belong to models with statistics of their own."""

from ._geodesic import GSGNHT, SGGMC
from ._hamiltonian import SGHMC, SGNHT
from ._langevin import SGLD, SGRLD
from ._manifold_sampler import ManifoldSampler
from ._metropolis import GMC, HMC
from ._riemannian import SGRHMC
from ._scir import SCIR, GeometricBrownian

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
