"""Displays of fitted estimators and draws, and words of clusters; matplotlib is only imported for plots."""

from ._calibration import CalibrationDisplay
from ._class_words import ClassWords, class_words
from ._co_clustering import CoClusteringDisplay
from ._criteria import CriteriaDisplay
from ._dimensions import DimensionPosteriorDisplay
from ._merges import MergesDisplay
from ._mixture import MixtureDisplay
from ._sphere import SphereDisplay
from ._topics import TopicDisplay
from ._trace import TraceDisplay
from ._views import DependenceDisplay, SurprisalDisplay

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
