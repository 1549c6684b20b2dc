"""Pictures of what is fitted and drawn; matplotlib is asked for where something is drawn, not before."""

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
