"""Estimators in files that later versions read and that hold no code."""

from ._saving import SavesItself, load

__all__ = ["SavesItself", "load"]
