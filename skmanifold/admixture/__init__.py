"""Admixture models: each row is a mixture of the same components in its own proportions."""

from ._lda import StochasticLDA

__all__ = ["StochasticLDA"]
