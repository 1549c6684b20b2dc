"""Families whose log densities are linear in sparse statistics: what Bernoulli, multinomial and Poisson rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from ..numerics.block_sums import BLOCK_ROWS, BlockSums
from ..utils._conditions import Array, Condition, Counted, Sizes, Whole
from ..utils._declared import holds
from ..utils._protocol_check import offers
from ..utils._threads import split_range
from ..utils._typing import available_if
from ._family import Family, check_shapes
from ._linear_kernels import add_labelled, add_linear_scores, add_shared
from ._linear_seeds import seed_labels
from ._protocols import Arrays, HasHighestLogDensities
from ._rows import LinearRows

_CLOSE = 1e-6
PRIOR = Array("float64", ("n_dimensions",), above=0)
_MOST_NATURAL = 1e15  # far beyond what any rows say


@holds(
    offsets=Array("float64", ("n_components",)),
    naturals=Array("float64", (None, "n_components"), low=-_MOST_NATURAL, high=_MOST_NATURAL),
    means=Array("float64", (None, "n_components"), low=0, high=_MOST_NATURAL),
)
class LinearParameters(NamedTuple):
    """Parameters of K components: a row's log density is the offset and its statistics times the naturals."""

    offsets: np.ndarray  # (K,)
    naturals: np.ndarray  # (n_statistics, K)
    means: np.ndarray  # (n_features, K)


class LinearFamily(Family):
    """A family with ``n_statistics`` statistics a row; see the classes derived from it."""

    n_statistics: int

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_statistics, self.n_components)

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of offsets, naturals and means."""
        return (self.n_components,), (self.n_statistics, self.n_components), (self.n_features, self.n_components)

    def check_parameters(self, parameters: LinearParameters) -> None:
        """Refuse parameters, read from a file, that cannot be of this family."""
        check_shapes(parameters, self.parameter_shapes())

    def add_log_densities(
        self, rows: LinearRows, first: int, stop: int, parameters: LinearParameters, out: np.ndarray
    ) -> None:
        """Add log densities of rows, but for their ``log_base``, to `out`, (stop - first, K)."""
        add_linear_scores(first, stop, *rows[:3], parameters.offsets, parameters.naturals, out)

    def sum_labels(self, rows: LinearRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes and sums of statistics by label, exact where they are whole."""
        if rows.counts.dtype.kind == "f":
            return self._sum_in_blocks(add_labelled, rows, first, stop, first_block, labels)
        sizes = np.zeros(self.n_components, np.int64)
        totals = np.zeros((self.n_statistics, self.n_components), np.int64)
        add_labelled(first, stop, *rows[:3], labels, sizes, totals)
        return BlockSums.whole((sizes, totals))

    def sum_shares(self, rows: LinearRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Sums of shares and of statistics by share."""
        return self._sum_in_blocks(add_shared, rows, first, stop, first_block, shares)

    def _sum_in_blocks(self, kernel, rows, first, stop, first_block, labels_or_shares) -> BlockSums:
        """What `kernel` adds for each row, given its label or its shares."""

        def add(start, stop, sizes, totals):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                of_block = labels_or_shares[start + a : start + b]
                kernel(first + start + a, first + start + b, *rows[:3], of_block, sizes[block], totals[block])

        return self.sum_blocks(stop - first, first_block, add)

    def log_likelihood(self, statistics: Arrays, parameters: LinearParameters) -> float:
        """Log density of rows with these statistics, but for their ``log_base``, given whose they are."""
        sizes, totals = statistics
        return float(sizes @ parameters.offsets + (totals * parameters.naturals).sum())

    @available_if(lambda family: offers(family, HasHighestLogDensities))
    def seed_labels(self, rows: LinearRows, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds that are spread by likelihood; there if the family has `highest_log_densities`."""
        return seed_labels(self, rows, key)

    def attributes(self, parameters: LinearParameters) -> dict[str, np.ndarray]:
        """``components_``, the expected rows."""
        return {"components_": np.ascontiguousarray(parameters.means.T)}

    def observed(self, statistics: Arrays) -> np.ndarray:
        """How many cells of each feature each component has seen, (n_features, K), of families with missing cells."""
        sizes, totals = statistics
        return np.maximum(sizes - totals[self.n_features :], 0)


class StoredFamily(Protocol):
    """A linear family whose parameters can be saved, and are checked when they are loaded."""

    n_components: int
    n_features: int
    n_statistics: int

    def parameters_again(self, naturals: np.ndarray) -> LinearParameters:
        """The parameters that have these naturals."""
        ...


def parameters_agree(family: StoredFamily, parameters: LinearParameters) -> str | None:
    """Whether these are parameters of the family; says what is wrong, or None."""
    K, m = family.n_components, family.n_features
    if parameters.naturals.shape != (family.n_statistics, K) or parameters.means.shape != (m, K):
        return "has parameters that are not of its family"
    with np.errstate(over="ignore", invalid="ignore"):
        again = family.parameters_again(parameters.naturals)
        same = (np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE) for a, b in zip(parameters, again, strict=True))
        return None if all(same) else "has parameters that contradict each other"


def linear_family(**priors: Condition) -> dict[str, Condition]:
    """Conditions of a family's attributes, of those of its prior."""
    sizes = {"n_features": Counted("n_dimensions"), "n_components": Counted("n_components")}
    return {**sizes, **priors, "n_statistics": Whole(low=1)}


def statistics_agree(of_feature: int) -> Callable[[LinearFamily, Sizes], str | None]:
    """An agreement: so many statistics a feature."""

    def agree(family: LinearFamily, sizes: Sizes) -> str | None:
        return None if family.n_statistics == of_feature * family.n_features else "has another number of statistics"

    return agree
