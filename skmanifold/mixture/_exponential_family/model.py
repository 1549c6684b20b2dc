"""The posterior of a finite mixture of an exponential family, with the updates that samplers use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ...emissions._abilities import CompletesRows, DrawsInCells, ExpectsRows, HasDraw, HasLogJoint, HasShares
from ...emissions._base import NoModeError
from ...emissions._estimator import in_words, needs_of_family
from ...emissions._family import rows_for
from ...emissions._seeds import weighted_indicators
from ...inference._distributed_fits.exchange import RowLatents
from ...numerics.block_sums import BLOCK_ROWS, SUM_UNIT, BlockSums, check_block_sums, exact_sum, merge
from ...numerics.row_hash import hash_dense
from ...random._keys import Purpose, subkey, uniform_each
from ...samplers import ESCA
from ...samplers._states import LatentState, run_pilot
from ...utils._declared import check
from ...utils._parameters import missing_names, offers
from ...utils._threads import Workers, split_range
from ...utils._typing import available_if
from .._memberships import DirichletWeights, Position
from .._scores import draw_labels_of_terms, fill_shares, refuse_far_rows

_MAX_TASKS, _MIN_TASKS = 64, 8
_BLOCKS_OF_TASK = 4  # minimum: about a millisecond
_CELLS_OF_TASKS = 1 << 25  # size of the statistics of all tasks
_N_PASSES = 5  # from each of several initial labels, before half of them are left
_MOST_PROPOSALS = 10_000  # of a label and numbers within cells; the last is used in any case
_NEXT_PROPOSAL = 1 << 40  # added to the number of a row, which is smaller
_BLOCKS_AT_ONCE = 4  # blocks of rows for which log densities are stored

# What a method of the model needs of the family; every family here has what a `RowFamily` has.
FAMILY_NEEDS: dict[str, tuple[type, ...]]
FAMILY_NEEDS = {"draw": (HasDraw,), "expect_latents": (HasShares,), "log_joint": (HasLogJoint,)}


class RowWeights(NamedTuple):
    """Positive weights of rows, (n_rows,). Log likelihoods are multiples of `unit`, which all ranges of rows share."""

    values: np.ndarray
    unit: float

    @classmethod
    def of_values(cls, values: np.ndarray) -> RowWeights:
        """Weights of all rows, with a unit in proportion to their mean, a power of two."""
        return cls(values, SUM_UNIT * 2.0 ** math.floor(math.log2(values.mean())))


def _family_offers(method: str) -> Callable[[FamilyModel], bool]:
    return lambda model: model.family_offers(method)


@dataclass(eq=False)
class FamilyModel:
    r"""Rows from a mixture of K components of an exponential family, with conjugate updates.

    .. math:: z_i \sim \mathrm{Cat}(w), \quad x_i \mid z_i = k \sim p(x \mid \eta_k), \quad w \sim \mathrm{Dir}(\alpha)

    Statistics are sums over fixed blocks of rows, and log likelihoods are exact sums. Therefore models of parts of the
    rows, divided at the ends of blocks (`first_row`), draw the same labels and merge to the same bytes as one of all
    rows. `start` has initial labels, or is a function of a key and the number of the start, called `n_init` times, or
    the model of some of the rows, from whose start the labels of all rows are drawn. `row_weights` multiply
    statistics and log likelihoods; a draw gives a row one label.

    If the family completes rows (`CompletesRows`), a pass draws labels given observed cells and then missing cells
    given labels, or uses expectations over both. Initial labels have the statistics that the family gives to incomplete
    rows.
    """

    rows: Any
    first_row: int
    weight_prior: float
    family: Any  # a `RowFamily`, with what `FAMILY_NEEDS` lists, if these methods are there
    start: np.ndarray | FamilyModel | Callable[[np.uint64, int], np.ndarray]
    workers: Workers
    n_init: int = 1
    row_weights: RowWeights | None = None

    def __post_init__(self) -> None:
        if self.first_row % BLOCK_ROWS:
            raise ValueError(f"first_row must be a multiple of {BLOCK_ROWS}; got {self.first_row}.")
        family, row_weights = self.family, self.row_weights
        self.rows = rows = rows_for(family, self.rows)
        self.n_rows, self.n_components = rows.n_rows, family.n_components
        self.weights = DirichletWeights(self.weight_prior)
        self.total_weight = float(rows.n_rows if row_weights is None else row_weights.values.sum())
        self._completes = getattr(rows, "has_missing", False) and offers(family, CompletesRows)
        self._reads_once = getattr(rows, "reads_once", False) and offers(family, ExpectsRows)
        self._offered = {method for method, needs in FAMILY_NEEDS.items() if offers(family, *needs)}
        n_blocks, cells = -(-self.n_rows // BLOCK_ROWS), family.n_cells()
        n_tasks = min(_MAX_TASKS, max(_MIN_TASKS, _CELLS_OF_TASKS // cells))
        n_blocks_of_task = max(_BLOCKS_OF_TASK, -(-n_blocks // n_tasks))
        size = 1 << (n_blocks_of_task - 1).bit_length()  # a power of two: the sums of a task are one node
        self._tasks = split_range(self.n_rows, BLOCK_ROWS * size)

    def missing_in_family(self, protocols: Iterable[type]) -> str:
        """What the family lacks for the model to offer these protocols, in words; empty if nothing."""
        return in_words(missing_names(self.family, *needs_of_family(FAMILY_NEEDS, protocols)))

    def family_offers(self, method: str) -> bool:
        """Whether the family has what this method of the model needs."""
        return method in self._offered

    # Latents

    def init_latents(self, key: np.uint64) -> tuple[np.ndarray, BlockSums]:
        """Initial labels, and their statistics."""
        if isinstance(self.start, FamilyModel):
            position = self.start.mode(self.start.init_latents(key)[1])
            return self.sample_latents(position, None, subkey(key, Purpose.LABELS))[:2]
        if not callable(self.start):
            labels = self.start
        else:
            labels = self.start(key, 0) if self.n_init == 1 else self._best_labels(self.start, key)
        return labels, self.count(labels)

    init_rows = init_latents

    def _best_labels(self, start: Callable[[np.uint64, int], np.ndarray], key: np.uint64) -> np.ndarray:
        """Labels after passes of stochastic EM from the best of several initial labels.

        The better half, those with the highest mean log likelihood in the second half of their passes, continue with
        three times as many passes, until one is left.
        """
        states, n_passes = [], _N_PASSES
        for i in range(self.n_init):
            of_start = subkey(key, Purpose.START, i)
            labels = start(of_start, i)
            with suppress(NoModeError):  # if no initial labels have a mode, the sampler raises the error
                statistics = self.count(labels)
                states.append(LatentState(self.mode(statistics), of_start, 0, -np.inf, statistics, labels))
        while len(states) > 1 or (states and n_passes == _N_PASSES):
            states = self._better_half(states, n_passes)
            n_passes *= 3
        return states[0].latents if states else start(subkey(key, Purpose.START, 0), 0)

    def _better_half(self, states: list[LatentState], n_passes: int) -> list[LatentState]:
        """The states with the highest log likelihoods after more passes."""
        tried = []
        for state in states:
            with suppress(NoModeError):
                tried.append(run_pilot(partial(ESCA().step, self), state, n_passes))
        tried.sort(key=lambda of_start: -of_start[0])
        return [state for _, state in tried[: max(1, len(states) // 2)]]

    def count(self, labels: np.ndarray) -> BlockSums:
        """Statistics of labels, (n_rows,)."""
        return reduce(merge, self.workers.run(self._count, [(*task, labels) for task in self._tasks]))

    def sample_latents(
        self, position: Position, latents: np.ndarray | None, key: np.uint64
    ) -> tuple[np.ndarray, BlockSums, float]:
        """Draw the labels of all rows given `position`; returns labels, statistics and log likelihood."""
        return self._drawn(self._draw_and_count, position, key)

    def sample_rows(self, position: Position, latents: Any, key: np.uint64) -> tuple[np.ndarray, BlockSums, float]:
        """As `sample_latents`; numbers that were rounded are drawn within their cells, together with the labels."""
        draw = self._draw_in_cells if offers(self.family, DrawsInCells) else self._draw_and_count
        return self._drawn(draw, position, key)

    def _drawn(self, draw: Callable[..., BlockSums], position: Position, key: np.uint64) -> Any:
        labels, log_density = np.empty(self.n_rows, np.int32), np.empty(self.n_rows)
        shared = position, position.log_weights(), key, labels, log_density
        sums = self.workers.run(draw, [(*task, *shared) for task in self._tasks])
        return labels, reduce(merge, sums), self._log_likelihood(log_density)

    def impute_rows(self, position: Position, n_sweeps: int, key: np.uint64) -> BlockSums:
        """Statistics of labels drawn given `position`; one sweep draws them from their exact distribution."""
        return self.sample_latents(position, None, key)[1]

    @available_if(_family_offers("expect_latents"))
    def expect_latents(self, position: Position) -> tuple[BlockSums, float]:
        """Expected statistics given `position`, and the log likelihood."""
        log_density = np.empty(self.n_rows)
        shared = position, position.log_weights(), log_density
        sums = self.workers.run(self._share_and_sum, [(*task, *shared) for task in self._tasks])
        return reduce(merge, sums), self._log_likelihood(log_density)

    # Checkpoints

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the rows, their weights and their indices; hashes of ranges add up, modulo 2**64."""
        of_rows = self.rows.hash_rows(key, self.first_row)
        if self.row_weights is None:
            return of_rows
        of_weights = hash_dense(self.row_weights.values[:, None], subkey(key, Purpose.ROWS), self.first_row)
        return (of_rows + of_weights) % 2**64

    def pack_latents(self, latents: np.ndarray) -> Iterator[RowLatents]:
        """Labels for a checkpoint: none, because the next draw does not depend on them."""
        return iter(())

    def unpack_latents(self, read: Any) -> None:
        """Labels from a checkpoint: none."""

    def latent_type(self, drawn: bool) -> None:
        """Type of stored latent variables: none."""

    def check_position(self, position: Any, drawn: bool) -> None:
        """Raise a ValueError unless these can be parameters of the mixture."""
        check(Position, position, "a position", {"n_components": self.n_components})
        self.family.check_parameters(position.parameters)

    def check_statistics(self, statistics: Any) -> None:
        """Raise a ValueError unless these can be sums over the rows."""
        check_block_sums(statistics, self.family.shapes())

    # Parameters

    def mode(self, statistics: BlockSums) -> Position:
        """Posterior mode of the parameters in the natural parametrisation."""
        total = statistics.total()
        return Position(self.weights.mode(total[0]), self.family.mode(total))

    @available_if(_family_offers("draw"))
    def draw(self, statistics: BlockSums, key: np.uint64) -> Position:
        """Draw the parameters from their posterior given the statistics."""
        total = statistics.total()
        parameters = self.family.draw(total, subkey(key, Purpose.COMPONENTS))
        return Position(self.weights.draw(total[0], key), parameters)

    def log_prior(self, position: Position) -> float:
        """Log prior density in the natural parametrisation, up to a constant."""
        return self.weights.log_prior(position.weights) + self.family.log_prior(position.parameters)

    @available_if(_family_offers("log_joint"))
    def log_joint(self, statistics: BlockSums, position: Position) -> float:
        """Log joint density of rows, labels and parameters, which `mode` maximises."""
        total = statistics.total()
        of_rows = float(total[0] @ np.log(position.weights)) + self.family.log_likelihood(total, position.parameters)
        return of_rows + self.log_prior(position)

    def blend(self, old: BlockSums, new: BlockSums, rate: float, scale: float) -> BlockSums:
        """Return ``(1 - rate) * old + rate * scale * new``."""
        pairs = zip(old.total(), new.total(), strict=True)
        return BlockSums.whole(tuple((1.0 - rate) * a + rate * scale * b for a, b in pairs))

    merge = staticmethod(merge)

    # Ranges of rows

    def _block(self, row: int) -> int:
        return (self.first_row + row) // BLOCK_ROWS

    def _count(self, first: int, stop: int, labels: np.ndarray) -> BlockSums:
        return self._sum_labels(self.family, self.rows, first, stop, first, labels[first:stop])

    def _sum_labels(self, family: Any, rows: Any, first: int, stop: int, row: int, labels: np.ndarray) -> BlockSums:
        """Statistics of labels of the rows first to stop of `rows`; the first of them is `row` of the model."""
        if self.row_weights is None:
            return family.sum_labels(rows, first, stop, self._block(row), labels)
        sums, weights = BlockSums(()), self.row_weights.values[row : row + stop - first]
        for a, b in split_range(stop - first, _BLOCKS_AT_ONCE * BLOCK_ROWS):
            shares = weighted_indicators(labels[a:b], weights[a:b], self.n_components)
            sums = merge(sums, family.sum_shares(rows, first + a, first + b, self._block(row + a), shares))
        return sums

    def _draw_and_count(self, first, stop, position, log_weights, key, labels, log_density) -> BlockSums:
        for a, b, terms, scratch in self._terms(first, stop, position, log_weights):
            draw_labels_of_terms(terms, key, self.first_row + a, scratch, labels[a:b], log_density[a:b])
        if not self._completes:
            return self._count(first, stop, labels)
        of_rows = self.rows, first, stop, labels[first:stop], position.parameters
        completed = self.family.draw_missing(*of_rows, subkey(key, Purpose.MISSING_CELLS), self.first_row)
        return self._sum_labels(self.family, completed, 0, stop - first, first, labels[first:stop])

    def _draw_in_cells(self, first, stop, position, log_weights, key, labels, log_density) -> BlockSums:
        """As `_draw_and_count`, with numbers drawn within their cells (`DrawsInCells`).

        The log density of a row is the log of the sum of bounds plus an unbiased estimate of the log of the probability
        p that a proposal is accepted, from log p = -sum_n (1 - p)^n / n and the fact that the first n - 1 proposals are
        rejected with probability (1 - p)^(n - 1).
        """
        family, parameters, sums = self.family, position.parameters, BlockSums(())
        of_cells, of_tests = subkey(key, Purpose.PROPOSAL), subkey(key, Purpose.ACCEPTANCE)
        for a, b, terms, scratch in self._terms(first, stop, position, log_weights, family.add_log_bounds):
            own, waiting, first_row = labels[a:b], np.arange(b - a), self.first_row + a
            numbers = first_row + waiting
            draw_labels_of_terms(terms, key, first_row, scratch, own, log_density[a:b])  # the terms are now cumulated
            for attempt in range(_MOST_PROPOSALS):
                rows, of_rows = self.rows.take(a + waiting), numbers[waiting]
                log_acceptance = family.propose_in_cells(rows, own[waiting], parameters, of_cells, of_rows)
                log_density[a + waiting] += np.expm1(log_acceptance) / (attempt + 1)
                waiting = waiting[np.log1p(-uniform_each(of_tests, of_rows)) > log_acceptance]
                if not len(waiting):
                    break
                numbers[waiting] += _NEXT_PROPOSAL
                at = uniform_each(subkey(key, Purpose.LABELS), numbers[waiting]) * terms[waiting, -1]
                own[waiting] = (terms[waiting, :-1] <= at[:, np.newaxis]).sum(axis=1)
            rows = self.rows.take(np.arange(a, b))
            family.propose_in_cells(rows, own, parameters, of_cells, numbers)  # again those that were accepted
            if self._completes:
                of_missing = subkey(key, Purpose.MISSING_CELLS), first_row
                rows = family.draw_missing(rows, 0, b - a, own, parameters, *of_missing)
            sums = merge(sums, self._sum_labels(family.unrounded, rows, 0, b - a, a, own))
        return sums

    def _share_and_sum(self, first, stop, position, log_weights, log_density) -> BlockSums:
        if self._reads_once:
            row_weights = np.ones(self.n_rows) if self.row_weights is None else self.row_weights.values
            of_mixture = position.parameters, log_weights, row_weights, log_density
            return self.family.expect_rows(self.rows, first, stop, self._block(first), *of_mixture)
        sums = BlockSums(())
        for a, b, terms, scratch in self._terms(first, stop, position, log_weights):
            fill_shares(terms, scratch, log_density[a:b])
            if self.row_weights is not None:
                terms *= self.row_weights.values[a:b, None]
            of_rows = self.rows, a, b, self._block(a), terms
            if self._completes:
                sums = merge(sums, self.family.sum_expected(*of_rows, position.parameters))
            else:
                sums = merge(sums, self.family.sum_shares(*of_rows))
        return sums

    def _terms(self, first: int, stop: int, position: Position, log_weights: np.ndarray, add: Any = None):
        """Iterate over ranges of rows, with scratch memory and logs of weights times densities, or what `add` adds."""
        size = min(_BLOCKS_AT_ONCE * BLOCK_ROWS, stop - first)
        terms, scratch = np.empty((size, self.n_components)), np.empty(2 * size * self.n_components)
        for a, b in split_range(stop - first, size):
            of_piece = terms[: b - a]
            of_piece[:] = log_weights
            (add or self.family.add_log_densities)(self.rows, first + a, first + b, position.parameters, of_piece)
            yield first + a, first + b, of_piece, scratch

    def _log_likelihood(self, log_density: np.ndarray) -> float:
        refuse_far_rows(log_density)
        if self.rows.log_base is not None:
            log_density += self.rows.log_base
        if self.row_weights is None:
            return exact_sum(log_density)
        return exact_sum(self.row_weights.values * log_density, self.row_weights.unit)
