"""What a family of an emission can do: two protocols, for rows and for tokens, and what is optional beside them.

A family has the methods of a protocol or it has not: there are no methods that only raise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BlockSums
from ..sparse.counts import Counts
from ..utils._protocol_check import members
from ..utils._typing import ArrayLike, MatrixLike

Parameters = Any  # of all components, as the family's own methods read them
Arrays = tuple[np.ndarray, ...]


class TokenCounts(Protocol):
    """How often each component took each token."""

    @property
    def totals(self) -> np.ndarray:
        """Tokens of each component, (K,)."""
        ...

    def tocsr(self) -> Any:
        """The counts as a sparse array, (n_tokens, K)."""
        ...


@runtime_checkable
class RowEmission(Protocol):
    """An emission for mixtures: it reads rows, and has a family of them."""

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> Any:
        """A user's X as the rows of this emission, validated as scikit-learn does."""
        ...

    def bind(self, rows: Any, n_components: int) -> Any:
        """The family of rows, a `RowFamily`, with hyperparameters that depend on the data resolved."""
        ...


@runtime_checkable
class TokenEmission(Protocol):
    """An emission for admixtures: it reads counts of tokens, and has a family of them."""

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """A user's X as counts of tokens: whole ones, rounded with `key`, to be fitted; as they are without it."""
        ...

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> Any:
        """The family of tokens, a `TokenFamily` or a `DirichletFamily`."""
        ...


@runtime_checkable
class HasParts(Protocol):
    """Rows that can be cut and hashed, as shards on a cluster are."""

    def part(self, start: int, stop: int) -> Any:
        """The rows `start` to `stop`, or to the last."""
        ...

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows, of which the first is number `first_row`; those of ranges add up, modulo 2**64."""
        ...


@runtime_checkable
class HasStatistics(Protocol):
    """Parameters of K components from statistics, and the fitted attributes that show them."""

    n_components: int
    n_features: int

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics, a tuple of arrays of which the first are the components' sizes, (K,)."""
        ...

    def n_cells(self) -> int:
        """Numbers in the statistics."""
        ...

    def mode(self, statistics: Arrays) -> Parameters:
        """The parameters that statistics and prior make most probable, in the natural parametrisation."""
        ...

    def attributes(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Fitted attributes by their names, ``components_`` among them, with a row for each component."""
        ...

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these, from a file, cannot be parameters of this family."""
        ...


@runtime_checkable
class RowFamily(HasStatistics, Protocol):
    """Rows of a mixture given their component: log densities and statistics."""

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add log densities of rows first to stop to `out`, (stop - first, K), without their ``log_base``."""
        ...

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of rows first to stop, which begin with block `first_block`, given their labels."""
        ...


@runtime_checkable
class TokenFamily(HasStatistics, Protocol):
    """Tokens of an admixture given their component, by a table of all tokens' log densities."""

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics of how often each component took each token."""
        ...

    def token_table(self, parameters: Parameters) -> np.ndarray:
        """Log densities of each token given each component, (n_tokens, K)."""
        ...

    def start_of_tokens(self, key: np.uint64) -> np.ndarray | None:
        """Initial components, (n_tokens,), the same for all equal tokens; None: random ones."""
        ...


@runtime_checkable
class DirichletFamily(Protocol):
    """Tokens with any probabilities under a Dirichlet prior, so that sparse counts take the place of a table.

    The log marginal of tokens and the prediction of further ones are known in closed form from these parameters.
    """

    n_components: int
    n_features: int

    @property
    def token_prior(self) -> np.ndarray:
        """Dirichlet parameters of the tokens' probabilities, (n_tokens,)."""
        ...


@runtime_checkable
class HasDraw(Protocol):
    """Parameters can be drawn from their posterior."""

    def draw(self, statistics: Arrays, key: np.uint64) -> Parameters:
        """Draw the parameters from their posterior given statistics."""
        ...


@runtime_checkable
class HasParametersOf(Protocol):
    """Parameters can be computed from fitted attributes, as stored draws of an admixture are."""

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> Parameters:
        """The parameters that have these attributes."""
        ...


@runtime_checkable
class HasShares(Protocol):
    """Expected statistics of rows, given their membership probabilities."""

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of rows first to stop given their membership probabilities, (stop - first, K)."""
        ...


@runtime_checkable
class HasLogJoint(Protocol):
    """The function that `mode` maximises."""

    def log_prior(self, parameters: Parameters) -> float:
        """Log of the prior's density in the natural parametrisation, up to a constant."""
        ...

    def log_likelihood(self, statistics: Arrays, parameters: Parameters) -> float:
        """Log density of rows with these statistics, without their ``log_base``, given their components."""
        ...


@runtime_checkable
class HasHighestLogDensities(Protocol):
    """How well any parameters could explain a row."""

    def highest_log_densities(self, rows: Any) -> np.ndarray:
        """The highest log density that any parameters give each row, without ``log_base``, (n_rows,)."""
        ...


@runtime_checkable
class HasSeeds(Protocol):
    """Initial labels from seeds that are spread over the rows: ``init="k-means++"``."""

    def seed_labels(self, rows: Any, key: np.uint64) -> np.ndarray:
        """Initial labels, (n_rows,) int32."""
        ...


@runtime_checkable
class HasNewRows(Protocol):
    """New rows can be drawn."""

    def sample(self, parameters: Parameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw rows of components `labels`."""
        ...


@runtime_checkable
class HasParameterCount(Protocol):
    """The number of free parameters is known: information criteria."""

    def n_parameters(self) -> int:
        """Number of free parameters of all components."""
        ...


_WORDS = {
    "mode": "a mode of the parameters",
    "attributes": "fitted attributes",
    "check_parameters": "a check of stored parameters",
    "shapes": "shapes of its statistics",
    "n_cells": "the size of its statistics",
    "n_components": "a number of components",
    "n_features": "a number of features",
    "add_log_densities": "log densities of rows",
    "sum_labels": "statistics of labelled rows",
    "sum_shares": "statistics of rows with membership probabilities",
    "statistics_of_tokens": "statistics of tokens",
    "token_table": "log densities of tokens",
    "token_prior": "a Dirichlet prior of tokens",
    "start_of_tokens": "initial components of tokens",
    "draw": "draws of the parameters",
    "parameters_of": "parameters from fitted attributes",
    "log_prior": "a log prior density",
    "log_likelihood": "a log likelihood of statistics",
    "seed_labels": "initial labels from seeds",
    "sample": "new rows",
    "n_parameters": "a number of free parameters",
    "part": "ranges of rows",
    "hash_rows": "a hash of rows",
    "read": "a reader of rows",
    "bind": "a family of rows",
    "read_tokens": "a reader of tokens",
    "bind_tokens": "a family of tokens",
}


def missing_members(thing: Any, protocols: Iterable[type]) -> list[str]:
    """Names that these protocols ask for, and that an emission or its family, or the class of one, lacks."""
    names = dict.fromkeys(name for protocol in protocols for name in members(protocol))
    return [name for name in names if getattr(thing, name, False) is False]


def in_words(names: Iterable[str]) -> str:
    """Members of protocols in words, each with its name."""
    return " and ".join(f"{_WORDS.get(name, name)} ({name})" for name in names)
