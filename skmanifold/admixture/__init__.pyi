from ._exponential_family.estimator import ExponentialFamilyAdmixture as ExponentialFamilyAdmixture
from ._hdp.estimator import HDPAdmixture as HDPAdmixture
from ._lda.estimator import StochasticLDA as StochasticLDA
from ._orthogonal.estimator import OrthogonalSphericalAdmixture as OrthogonalSphericalAdmixture
from ._spherical.estimator import SphericalAdmixture as SphericalAdmixture
