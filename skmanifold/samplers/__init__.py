"""Samplers: cloneable values that hold an algorithm's settings and move a state."""

from ._base import BaseSampler, State
from ._sweep import CVB0, ESCA, CollapsedGibbs

__all__ = ["CVB0", "ESCA", "BaseSampler", "CollapsedGibbs", "State"]
