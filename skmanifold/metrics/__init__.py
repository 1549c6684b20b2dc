"""Judging a fitted model: held-out likelihood, topic coherence, matching of topics, distances of subspaces."""

from ._coherence import topic_coherence
from ._held_out import HeldOutScore, document_completion
from ._left_to_right import LeftToRightScore, left_to_right
from ._matching import TopicMatch, match_topics
from ._partitions import (
    co_clustering,
    expected_variation_of_information,
    point_partition,
    variation_of_information,
)
from ._spherical_held_out import SphericalLikelihood, spherical_document_likelihood
from ._subspaces import (
    SubspaceMatch,
    match_subspaces,
    pairwise_subspace_distances,
    principal_angles,
    subspace_distance,
)

__all__ = [
    "HeldOutScore",
    "LeftToRightScore",
    "SphericalLikelihood",
    "SubspaceMatch",
    "TopicMatch",
    "co_clustering",
    "document_completion",
    "expected_variation_of_information",
    "left_to_right",
    "match_subspaces",
    "match_topics",
    "pairwise_subspace_distances",
    "point_partition",
    "principal_angles",
    "spherical_document_likelihood",
    "subspace_distance",
    "topic_coherence",
    "variation_of_information",
]
