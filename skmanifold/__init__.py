"""Bayesian latent-variable estimators on manifolds, with scikit-learn's interface and pluggable samplers."""

from ._version import __version__
from .admixture import StochasticLDA

__all__ = ["StochasticLDA", "__version__"]
