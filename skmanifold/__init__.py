"""Bayesian latent-variable estimators on manifolds, with scikit-learn's interface and pluggable samplers."""

from ._version import __version__
from .admixture import StochasticLDA
from .inference import Draws, sample
from .mixture import DPCategoricalMixture

__all__ = ["DPCategoricalMixture", "Draws", "StochasticLDA", "__version__", "sample"]
