"""The posterior of views: a partition of the columns, and a Dirichlet process mixture of the rows in each view."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...emissions._statistics import JoinedStatistics
from ...numerics.slice_update import slice_update
from ...random._keys import Purpose, subkey, uniform
from ...samplers._states import LatentState
from ...utils._threads import ONE, Workers
from .._dirichlet_process.model import AUTO_CLUSTERS, DPModel
from .._dirichlet_process.starts import find_clusters, labels_of_all
from .._memberships import log_partition_prior
from .moves import move_columns, split_or_merge
from .proposals import ConcentrationPrior, Launch, compacted

_FEW_ROWS, _MOST_BATCHES = 10_000, 20  # rows that are one minibatch; minibatches of more rows
_MOST_VIEWS = 7  # whose rows are drawn in a pass, on average


class View(NamedTuple):
    """Columns, ascending, with one partition of the rows."""

    columns: np.ndarray
    clusters: Any  # their family, bound to the rows
    labels: np.ndarray  # (n_rows,) int32
    statistics: Any
    concentration: float
    log_joint: float  # of the rows in these columns, their partition and hyperparameters, given the concentration


class ColumnNumbers(NamedTuple):
    """Drawn hyperparameters of all columns, and numbers of all rows within their cells, of each block of columns."""

    hyperparameters: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]


def _parts(statistics: Any) -> Iterator[Any]:
    """Statistics of single blocks."""
    if isinstance(statistics, JoinedStatistics):
        yield from _parts(statistics.first)
        yield from _parts(statistics.rest)
    else:
        yield statistics


def _with_parts(statistics: Any, parts: Iterator[Any]) -> Any:
    """The same nested pairs of other statistics of single blocks."""
    if not isinstance(statistics, JoinedStatistics):
        return next(parts)
    first, rest = (_with_parts(each, parts) for each in statistics[1:])
    return JoinedStatistics(first.sizes, first, rest)


def _places(family: Any, places: np.ndarray) -> Iterator[np.ndarray]:
    """The columns of each single block."""
    if hasattr(family, "blocks"):
        for block, own in zip(family.blocks, family.places, strict=True):
            yield from _places(block, places[own])
    else:
        yield places


@dataclass(eq=False)
class ViewModel:
    """Rows of all columns, with their family `clusters`, in unknown views.

    `launches` has for each column a partition of its own, from which new views are proposed.
    """

    clusters: Any
    view_concentration: float | None  # of the Chinese restaurant process of columns; None is drawn
    view_concentration_prior: tuple[float, float]
    prior: ConcentrationPrior  # of the concentration in a view
    launches: Sequence[Launch]
    searched: np.ndarray | None  # rows in which initial clusters are sought; None: all
    start: Any  # function of a key that returns labels of the columns
    batch_size: int | str | None
    workers: Workers

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.clusters.n_rows

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.clusters.n_features

    # Numbers of columns

    @cached_property
    def _places(self) -> list[np.ndarray]:
        return list(_places(self.clusters, np.arange(self.n_columns)))

    def first_numbers(self) -> ColumnNumbers:
        """Numbers at the start of a chain."""
        return self._numbers_in(self.clusters.no_statistics(1))

    @staticmethod
    def _numbers_in(statistics: Any) -> ColumnNumbers:
        parts, nothing = list(_parts(statistics)), np.empty(0)
        return ColumnNumbers(
            tuple(getattr(part, "hyperparameters", nothing) for part in parts),
            tuple(getattr(part, "values", nothing) for part in parts),
        )

    def with_numbers(self, statistics: Any, numbers: ColumnNumbers, columns: np.ndarray) -> Any:
        """Statistics of these columns with their part of the numbers."""
        parts = []
        for part, own, hyper, values in zip(_parts(statistics), self._places, *numbers, strict=True):
            chosen, changed = np.flatnonzero(np.isin(own, columns)), {}
            if len(hyper):
                changed["hyperparameters"] = hyper[chosen]
            if len(values):
                changed["values"] = np.ascontiguousarray(values[:, chosen])
            parts.append(part._replace(**changed))
        return _with_parts(statistics, iter(parts))

    def numbers_after(self, numbers: ColumnNumbers, view: View) -> ColumnNumbers:
        """All numbers, where those of a view's columns are the ones in its statistics."""
        hypers, all_values = [], []
        pairs = zip(self._places, *numbers, *self._numbers_in(view.statistics), strict=True)
        for own, hyper, values, new_hyper, new_values in pairs:
            chosen = np.isin(own, view.columns)
            if len(hyper) and chosen.any():
                hyper = hyper.copy()
                hyper[chosen] = new_hyper
            if len(values) and chosen.any():
                values = values.copy()
                values[:, chosen] = new_values
            hypers.append(hyper)
            all_values.append(values)
        return ColumnNumbers(tuple(hypers), tuple(all_values))

    def given(self, numbers: ColumnNumbers) -> Any:
        """The family of all columns with these numbers."""
        return self.clusters.given(
            self.with_numbers(self.clusters.no_statistics(1), numbers, np.arange(self.n_columns))
        )

    # Views

    def init_concentration(self) -> float:
        """Initial concentration of the process of columns: the given one, or the mean of its prior."""
        shape, rate = self.view_concentration_prior
        return shape / rate if self.view_concentration is None else float(self.view_concentration)

    def init_views(self, key: np.uint64) -> tuple[ColumnNumbers, list[View]]:
        """Numbers of columns, and views, at the start of a chain."""
        numbers, labels, views = self.first_numbers(), self.start(key), []
        for label in range(int(labels.max()) + 1):
            columns = np.flatnonzero(labels == label)
            own = self.clusters.of_columns(columns)
            found = find_clusters(own, self.searched, AUTO_CLUSTERS, (), subkey(key, Purpose.START, label), ONE)
            of_rows = labels_of_all(own, found, ONE)
            views.append(self.view(columns, of_rows, self.prior.initial(self.n_rows), numbers))
        return numbers, views

    def draw_rows(
        self, numbers: ColumnNumbers, views: Sequence[View], sampler: Any, key: np.uint64
    ) -> tuple[ColumnNumbers, list[View]]:
        """Numbers of columns and views after a pass of a sampler over the rows of some views, if there are many.

        They are chosen at random, more often those with many columns, whose partitions matter for more cells.
        """
        weights, after = np.sqrt([len(view.columns) for view in views]), []
        for view, share in zip(views, _MOST_VIEWS * weights / weights.sum(), strict=True):
            own = subkey(key, Purpose.SWEEP, int(view.columns[0]))
            if uniform(own, 0) < share:
                view = self._with_rows_drawn(view, sampler, own)
                numbers = self.numbers_after(numbers, view)
            after.append(view)
        return numbers, after

    def move_columns(
        self, views: list[View], numbers: ColumnNumbers, concentration: float, n_candidates: int, key: np.uint64
    ) -> list[View]:
        """Views after a draw of the view of each column."""
        return move_columns(self, views, numbers, concentration, n_candidates, key)

    def split_or_merge(
        self, views: list[View], numbers: ColumnNumbers, concentration: float, key: np.uint64
    ) -> list[View]:
        """Views after a proposed split or merge."""
        return split_or_merge(self, views, numbers, concentration, key)

    def view(self, columns: np.ndarray, labels: np.ndarray, concentration: float, numbers: ColumnNumbers) -> View:
        """The view of columns with this partition."""
        own, labels = self.clusters.of_columns(columns), compacted(labels)
        statistics = self.with_numbers(own.no_statistics(int(labels.max()) + 1), numbers, columns)
        own.given(statistics).count(labels, statistics, self.workers)
        log_joint = self.row_model(own).log_joint(statistics, concentration)
        return View(columns, own, labels, statistics, concentration, log_joint)

    def row_model(self, clusters: Any) -> DPModel:
        """The mixture of the rows in some columns."""
        size: Any = self.batch_size
        if size == "auto":
            few = self.n_rows <= _FEW_ROWS
            size = None if few else max(clusters.rows_of_batch(), self.n_rows // _MOST_BATCHES)
        return DPModel(clusters, self.prior.given, self.prior[1:], 1, size, self.workers)

    def _with_rows_drawn(self, view: View, sampler: Any, key: np.uint64) -> View:
        """The view after one pass of a sampler over its rows, which draws its concentration and hyperparameters too."""
        state = LatentState(view.concentration, key, 0, -math.inf, view.statistics, view.labels.copy())
        state = sampler.step(self.row_model(view.clusters), state)
        drawn = {"labels": state.latents, "statistics": state.statistics, "concentration": state.position}
        return view._replace(**drawn, log_joint=state.log_density)

    def log_joint(self, views: Sequence[View], concentration: float) -> float:
        """Log p(data, partitions of columns and rows, hyperparameters | concentrations)."""
        of_columns = log_partition_prior(np.array([len(view.columns) for view in views]), concentration)
        return float(of_columns + sum(view.log_joint for view in views))

    def draw_concentration(self, n_views: int, concentration: float, key: np.uint64) -> float:
        """The concentration of the process of columns given the number of views, by a slice update of its logarithm."""
        if self.view_concentration is not None:
            return float(self.view_concentration)
        shape, rate = self.view_concentration_prior

        def log_density(log_value: float) -> float:
            value = math.exp(log_value)
            of_views = n_views * log_value + gammaln(value) - gammaln(value + self.n_columns)
            return float(shape * log_value - rate * value + of_views)

        rng = np.random.default_rng(int(key))
        return math.exp(slice_update(log_density, math.log(concentration), _LOWEST, _HIGHEST, rng))


_LOWEST, _HIGHEST = math.log(1e-6), math.log(1e6)  # concentrations of the process of columns
