"""Admixture models: each row is a mixture of the same components in its own proportions."""

from ._lda import StochasticLDA
from ._orthogonal import OrthogonalSphericalAdmixture
from ._spherical import SphericalAdmixture

__all__ = ["OrthogonalSphericalAdmixture", "SphericalAdmixture", "StochasticLDA"]
