"""Judging a fitted model: held-out likelihood, topic coherence, matching of topics."""

from ._coherence import topic_coherence
from ._held_out import HeldOutScore, document_completion
from ._left_to_right import LeftToRightScore, left_to_right
from ._matching import TopicMatch, match_topics

__all__ = [
    "HeldOutScore",
    "LeftToRightScore",
    "TopicMatch",
    "document_completion",
    "left_to_right",
    "match_topics",
    "topic_coherence",
]
