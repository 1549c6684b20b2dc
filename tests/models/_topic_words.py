"""Topics as sparse weights plus a rank-one part."""

import numpy as np

from skmanifold.topics.topic_word import TopicWord


def sparse_topics(weights, base, inverse):
    """Topics with these weights of words in topics, ``(V, K)``, and ``base[v] * inverse[k]`` beside them."""
    words, topics = np.nonzero(weights)
    indptr = np.searchsorted(words, np.arange(len(weights) + 1))
    return TopicWord(indptr, topics.astype(np.uint16), weights[words, topics].astype(np.float32), base, inverse)
