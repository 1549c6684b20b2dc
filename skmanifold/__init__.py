"""Bayesian latent-variable estimators on manifolds, with scikit-learn's interface and pluggable samplers."""

from ._version import __version__
from .admixture import StochasticLDA
from .inference import Draws, sample

__all__ = ["Draws", "StochasticLDA", "__version__", "sample"]
