"""Admixture models: each row is a mixture of the same components in its own proportions."""

from ._family_admixture import ExponentialFamilyAdmixture
from ._lda import StochasticLDA
from ._orthogonal import OrthogonalSphericalAdmixture
from ._spherical import SphericalAdmixture

__all__ = ["ExponentialFamilyAdmixture", "OrthogonalSphericalAdmixture", "SphericalAdmixture", "StochasticLDA"]
