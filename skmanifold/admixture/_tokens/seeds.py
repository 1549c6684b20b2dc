"""Seed words: columns whose tokens belong to one topic, from the initial topics on and by the prior of the topics."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from ...utils._conditions import Sizes, index

# Prior of a seed word in the other topics: positive, so that the distribution is proper, and so small that no chain
# assigns a token of the word to them.
_ELSEWHERE = 1e-20


class Seeds(NamedTuple):
    """Columns and their topics; a column occurs once."""

    columns: Annotated[np.ndarray, index("n_seeds", below="n_features")]  # int64
    topics: Annotated[np.ndarray, index("n_seeds", below="n_components")]  # int64

    def _disagreement(self, sizes: Sizes) -> str | None:
        return None if len(np.unique(self.columns)) == len(self.columns) else "has the same column twice"

    def topic_of_column(self, n_features: int) -> np.ndarray:
        """The topic of each column, (n_features,) int32, -1 if no seed; ValueError if a column is out of range."""
        if self.columns.max(initial=-1) >= n_features:
            raise ValueError(f"seed_words has the column index {self.columns.max()}, but X has {n_features} columns.")
        out = np.full(n_features, -1, np.int32)
        out[self.columns] = self.topics
        return out

    def restrict(self, prior: np.ndarray, n_components: int, n_features: int) -> np.ndarray:
        """Dirichlet parameters, ``(n_components, n_features)``, with nearly zero for seeds in other topics."""
        out = np.array(np.broadcast_to(prior, (n_components, n_features)))
        own = out[self.topics, self.columns]
        out[:, self.columns] = _ELSEWHERE
        out[self.topics, self.columns] = own
        return out


NO_SEEDS = Seeds(np.empty(0, np.int64), np.empty(0, np.int64))
