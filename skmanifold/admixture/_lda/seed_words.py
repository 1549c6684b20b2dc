"""The parameter `seed_words` of `StochasticLDA`: words that belong to chosen topics."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from ...base import samples_density
from ...inference._distributed_fits.sources import column_names, corpora_of, is_elsewhere
from ...samplers import BaseSampler
from .._tokens.sampler_types import assigns_tokens
from .._tokens.seeds import NO_SEEDS, Seeds

_MOST_LISTED = 10  # words in a message


def seeds_of(lda: Any, X: Any) -> Seeds:
    """The columns of the seed words in X, and their topics.

    TypeError for another structure of `seed_words`. ValueError if a word is not in the vocabulary or in two topics, a
    topic has no words, there are more lists than topics, or the prior does not allow seed words.
    """
    lists = _lists_of(lda.seed_words)
    if len(lists) > lda.n_components:
        raise ValueError(f"seed_words has {len(lists)} topics, but n_components={lda.n_components}.")
    if lists and isinstance(lda.topic_word_prior, str):
        raise ValueError("topic_word_prior='auto' cannot be combined with seed_words: give a number.")
    column_of = _Columns(lda, X)
    column_of.refuse_unknown(lists)
    topic_of: dict[int, int] = {}
    for topic, (name, words) in enumerate(lists):
        for word in words:
            column = column_of(word, name)
            if topic_of.setdefault(column, topic) != topic:
                raise ValueError(f"seed_words has {word!r} in two topics, {lists[topic_of[column]][0]!r} and {name!r}.")
    if not topic_of:
        return NO_SEEDS
    return Seeds(np.array(list(topic_of), np.int64), np.array(list(topic_of.values()), np.int64))


def warn_of_absent(lda: Any, X: Any, occurs: np.ndarray) -> None:
    """Warn about seed words that do not occur in X; `occurs` states for each column whether it has tokens."""
    column_of, lists = _Columns(lda, X), _lists_of(lda.seed_words)
    every = dict.fromkeys(word for _, words in lists for word in words)
    absent = [word for word in every if not occurs[column_of(word, None)]]
    if not absent:
        return
    empty = [name for name, words in lists if not any(occurs[column_of(word, name)] for word in words)]
    left = f"; no seed words are left for {'topics' if len(empty) > 1 else 'topic'} {_listed(empty)}" if empty else ""
    warnings.warn(
        f"seed_words has words that do not occur in X and have no effect: {_listed(absent)}{left}.", stacklevel=7
    )


def _listed(words: list[Any]) -> str:
    """Words for a sentence, at most `_MOST_LISTED`."""
    more = len(words) - _MOST_LISTED
    return ", ".join(map(repr, words[:_MOST_LISTED])) + (f" and {more} more" if more > 0 else "")


def check_seeded(seeds: Seeds, sampler: BaseSampler) -> None:
    """Raise a ValueError if there are seed words and the sampler cannot keep them in their topics."""
    keeps = assigns_tokens(sampler) or (samples_density(sampler) and not sampler.is_biased_near_zero)
    if len(seeds.columns) and not keeps:
        raise ValueError(
            "seed_words need a sampler that keeps them in their topics: 'esca', 'gibbs', 'collapsed_gibbs', 'cvb0' or "
            f"'scir', not {type(sampler).__name__}."
        )


def _lists_of(seed_words: Any) -> list[tuple[Any, list[Any]]]:
    """Names, or indices, of the seeded topics, and their words."""
    if seed_words is None:
        return []
    pairs = seed_words.items() if isinstance(seed_words, Mapping) else enumerate(seed_words)
    lists = [(name, words) for name, words in pairs]
    for name, words in lists:
        if isinstance(seed_words, Mapping) and not isinstance(name, str):
            raise TypeError(f"The keys of seed_words must be names of topics, which are strings; got {name!r}.")
        if isinstance(words, str | bytes) or not isinstance(words, Collection):
            raise TypeError(f"seed_words must have a list of words for each topic; topic {name!r} has {words!r}.")
        if len(words) == 0:
            raise ValueError(f"seed_words has no words for topic {name!r}.")
    return [(name, list(words)) for name, words in lists]


class _Columns:
    """Function that returns the column of a word in X, which is the word itself or its index."""

    def __init__(self, lda: Any, X: Any) -> None:
        corpora = corpora_of(X)
        names: Any = None
        self.n_columns: int | None = None  # unknown until the documents are read
        if corpora:
            names, self.n_columns = corpora[0].vocabulary, corpora[0].shape[1]
        elif is_elsewhere(X):
            names = column_names(X)
            self.n_columns = None if names is None else len(names)
        else:
            names, self.n_columns = getattr(lda, "feature_names_in_", None), lda.n_features_in_
        self.index = None if names is None else {word: column for column, word in enumerate(names)}

    def refuse_unknown(self, lists: list[tuple[Any, list[Any]]]) -> None:
        """Raise a ValueError with all words that are not names of columns, if columns have names."""
        if self.index is None:
            return
        unknown = [word for _, words in lists for word in words if isinstance(word, str) and word not in self.index]
        if len(unknown) == 1:
            raise ValueError(f"seed_words has the word {unknown[0]!r}, which is not the name of a column of X.")
        if unknown:
            raise ValueError(f"seed_words has words that are not names of columns of X: {_listed(unknown)}.")

    def __call__(self, word: Any, topic: Any) -> int:
        if isinstance(word, str):
            if self.index is None:
                raise ValueError(
                    f"seed_words has the word {word!r}, but the columns of X have no names: give column indices, such "
                    "as vectorizer.vocabulary_[word] of a CountVectorizer."
                )
            return self.index[word]
        if not isinstance(word, Integral) or isinstance(word, bool | np.bool_):
            raise TypeError(f"seed_words must have words or column indices; topic {topic!r} has {word!r}.")
        column = int(word)
        if column < 0 or (self.n_columns is not None and column >= self.n_columns):
            raise ValueError(f"seed_words has the column index {column}, but X has {self.n_columns} columns.")
        return column
