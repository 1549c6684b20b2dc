"""Mixture models: each row belongs to one component."""

from ._dp_categorical import DPCategoricalMixture

__all__ = ["DPCategoricalMixture"]
