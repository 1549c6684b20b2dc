"""Saving and loading of estimators, in files that contain no code and that later releases can read."""

from ._saving import SavesItself, load

__all__ = ["SavesItself", "load"]
