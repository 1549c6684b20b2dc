"""Bayesian latent-variable estimators on manifolds, with scikit-learn's interface and pluggable samplers."""

from ._version import __version__
from .admixture import ExponentialFamilyAdmixture, OrthogonalSphericalAdmixture, SphericalAdmixture, StochasticLDA
from .inference import Draws, distributed, sample
from .mixture import (
    DPCategoricalMixture,
    ExponentialFamilyMixture,
    SubspaceClassifier,
    SubspaceMixture,
    VonMisesFisherMixture,
)

__all__ = [
    "DPCategoricalMixture",
    "Draws",
    "ExponentialFamilyAdmixture",
    "ExponentialFamilyMixture",
    "OrthogonalSphericalAdmixture",
    "SphericalAdmixture",
    "StochasticLDA",
    "SubspaceClassifier",
    "SubspaceMixture",
    "VonMisesFisherMixture",
    "__version__",
    "distributed",
    "sample",
]
