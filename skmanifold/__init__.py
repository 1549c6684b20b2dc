"""Bayesian latent-variable estimators on manifolds, with scikit-learn's interface and pluggable samplers."""

from ._version import __version__
from .admixture import OrthogonalSphericalAdmixture, SphericalAdmixture, StochasticLDA
from .inference import Draws, sample
from .mixture import DPCategoricalMixture, SubspaceClassifier, SubspaceMixture, VonMisesFisherMixture

__all__ = [
    "DPCategoricalMixture",
    "Draws",
    "OrthogonalSphericalAdmixture",
    "SphericalAdmixture",
    "StochasticLDA",
    "SubspaceClassifier",
    "SubspaceMixture",
    "VonMisesFisherMixture",
    "__version__",
    "sample",
]
