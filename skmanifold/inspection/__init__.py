"""Displays of fitted estimators and draws; matplotlib is only imported when something is plotted."""

from ._co_clustering import CoClusteringDisplay
from ._dimensions import DimensionPosteriorDisplay
from ._sphere import SphereDisplay
from ._topics import TopicDisplay
from ._trace import TraceDisplay

__all__ = [
    "CoClusteringDisplay",
    "DimensionPosteriorDisplay",
    "SphereDisplay",
    "TopicDisplay",
    "TraceDisplay",
]
