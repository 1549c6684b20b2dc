"""Mixture models: each row belongs to one component."""

from ._dp_categorical import DPCategoricalMixture
from ._family_mixture import ExponentialFamilyMixture
from ._subspace_classifier import SubspaceClassifier
from ._subspace_mixture import SubspaceMixture
from ._von_mises_fisher_mixture import VonMisesFisherMixture

__all__ = [
    "DPCategoricalMixture",
    "ExponentialFamilyMixture",
    "SubspaceClassifier",
    "SubspaceMixture",
    "VonMisesFisherMixture",
]
