"""Displays of fitted estimators and draws, and words of clusters; matplotlib is only imported for plots."""

from ._calibration import CalibrationDisplay
from ._class_words import ClassWords, class_words
from ._heat_maps import CoClusteringDisplay, DependenceDisplay, SurprisalDisplay
from ._mixture import MixtureDisplay
from ._numbers import CriteriaDisplay, DimensionPosteriorDisplay, MergesDisplay
from ._sphere import SphereDisplay
from ._topics import TopicDisplay
from ._trace import TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "ClassWords",
    "CoClusteringDisplay",
    "CriteriaDisplay",
    "DependenceDisplay",
    "DimensionPosteriorDisplay",
    "MergesDisplay",
    "MixtureDisplay",
    "SphereDisplay",
    "SurprisalDisplay",
    "TopicDisplay",
    "TraceDisplay",
    "class_words",
]
