"""What a Dirichlet process mixture needs of the rows and the prior of a family, in Python."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...utils._threads import Workers
from ..kernels import clear_sides
from .counting import count_rows, move_rows
from .statistics import with_labels

_N_SIDES = 3  # two, and a label for scratch
_ROWS_OF_TASK = 5_000  # whose labels change, at least: some tenths of a millisecond


class StartEffort(NamedTuple):
    """How much is done to find initial clusters."""

    most_rows: int = 20_000  # of a random sample
    fewer_seeds: tuple[int, ...] = (30, 10, 3, 1)  # also tried: many small clusters may share a prior that suits them
    n_rounds: int = 3  # of passes, merges and learning of the prior
    least_size: float = 0.0  # relative to the average: a last round is tried with and without smaller clusters; 0: none


class Clusters:
    """Base class of rows with a conjugate prior: statistics, draws and marginal densities of clusters.

    The attribute `data` is the named tuple by whose type `kernels` are chosen.

    Parameters
    ----------
    data : NamedTuple
        Rows and prior, as the kernels read them.
    n_rows : int
        Number of rows.
    """

    prior: Any
    bounds_of_means = -np.inf, np.inf  # of what `cell_attributes` returns

    def __init__(self, data: Any, n_rows: int) -> None:
        self.data = data
        self.n_rows = n_rows

    def among_others(self) -> Clusters:
        """These rows as one of several blocks of columns, whose scores are added.

        Returns
        -------
        family : Clusters
            The same rows.
        """
        return self

    def start_effort(self) -> StartEffort:
        """How much is done to find initial clusters.

        Returns
        -------
        effort : StartEffort
            Numbers of rows, seeds and rounds.
        """
        return StartEffort()

    def with_prior(self, prior: Any) -> Clusters:
        """These rows with another prior, in the same units; only for families with ``with_learned_prior``.

        Parameters
        ----------
        prior : object
            The prior.

        Returns
        -------
        family : Clusters
            The same rows.
        """
        raise NotImplementedError

    def with_learned_prior(self, statistics: Any, free: Any) -> Clusters:
        """These rows with the most probable prior given a partition; `free` are the hyperparameters that are learned.

        Only for families of emissions with ``free_hyperparameters``.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.
        free : tuple of str
            Names of hyperparameters.

        Returns
        -------
        family : Clusters
            The same rows.
        """
        raise NotImplementedError

    def no_statistics(self, capacity: int) -> Any:
        """Statistics of no rows.

        Parameters
        ----------
        capacity : int
            Number of labels.

        Returns
        -------
        statistics : NamedTuple
            Zeros; the first array holds the sizes of the labels.
        """
        raise NotImplementedError

    def new_posterior(self, capacity: int, statistics: Any, key: np.uint64) -> Any:
        """Space for the posteriors of labels; `statistics` and `key` draw parameters that all clusters share.

        Parameters
        ----------
        capacity : int
            Number of labels.
        statistics : NamedTuple
            Sums of the rows of each label.
        key : uint64
            Key of the random numbers.

        Returns
        -------
        posterior : NamedTuple
            Of the type that the kernels of this family read.
        """
        raise NotImplementedError

    def split_merge_space(self, statistics: Any, key: np.uint64) -> tuple[Any, tuple[Any, Any]]:
        """Space for the posteriors of labels, and statistics and posteriors of the sides of a split, without rows.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.
        key : uint64
            Key of the random numbers.

        Returns
        -------
        posterior : NamedTuple
            Space for the labels.
        sides : tuple of NamedTuple
            Statistics and posterior of two sides without rows, and of a label for scratch.
        """
        sides = self.no_statistics(_N_SIDES), self.new_posterior(_N_SIDES, statistics, key)
        clear_sides(self.data, *sides)
        return self.new_posterior(len(statistics.sizes), statistics, key), sides

    def count(self, labels: np.ndarray, statistics: Any, workers: Workers) -> None:
        """Add all rows to the statistics of their labels.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
            Labels of all rows.
        statistics : NamedTuple
            Sums of the rows of each label.
        workers : Workers
            Threads.
        """
        tasks = self._ranges(np.bincount(labels, minlength=len(statistics.sizes)), workers)
        workers.run(count_rows, [(self.data, labels, *task, statistics) for task in tasks])

    def move(
        self, rows: np.ndarray, new_labels: np.ndarray, labels: np.ndarray, statistics: Any, workers: Workers
    ) -> None:
        """Move rows to their new labels in the statistics.

        Each task has a range of labels, so that the order of a sum does not depend on the number of threads.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
            Indices of the rows.
        new_labels : ndarray of shape (n,), int32
            Their new labels.
        labels : ndarray of shape (n_rows,), int32
            Old labels of all rows.
        statistics : NamedTuple
            Sums of the rows of each label.
        workers : Workers
            Threads.
        """
        n_labels, old = len(statistics.sizes), labels[rows]
        moved = old != new_labels
        n_moves = np.bincount(old[moved], minlength=n_labels) + np.bincount(new_labels[moved], minlength=n_labels)
        tasks = self._ranges(n_moves, workers)
        workers.run(move_rows, [(self.data, rows, new_labels, *task, labels, statistics) for task in tasks])

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch in the order in which their scores are computed fastest.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
            Indices of the rows.
        labels : ndarray of shape (n_rows,), int32
            Labels of all rows.

        Returns
        -------
        rows : ndarray of shape (n,), int64
            The same indices in another order.
        """
        return rows

    def redraw_missing(
        self,
        rows: np.ndarray,
        new_labels: np.ndarray,
        labels: np.ndarray,
        statistics: Any,
        components: Any,
        place_of: np.ndarray,
        key: np.uint64,
        workers: Workers,
    ) -> None:
        """Draw the missing cells of rows given their new labels, before these rows move; most families have none.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
            Indices of the rows.
        new_labels : ndarray of shape (n,), int32
            Their new labels.
        labels : ndarray of shape (n_rows,), int32
            Old labels of all rows.
        statistics : NamedTuple
            Sums of the rows of each label.
        components : object
            Drawn parameters.
        place_of : ndarray of int64
            Index of each label among the components.
        key : uint64
            Key of the random numbers.
        workers : Workers
            Threads.
        """

    def relabelled(self, labels: np.ndarray, statistics: Any, new_labels: np.ndarray, workers: Workers) -> Any:
        """Statistics after relabelling; `labels` are the new labels of all rows.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
            Labels of all rows.
        statistics : NamedTuple
            Sums of the rows of each label.
        new_labels : ndarray of int64
            The new name of each old label.
        workers : Workers
            Threads.

        Returns
        -------
        statistics : NamedTuple
            Sums by new label.
        """
        return with_labels(statistics, new_labels)

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components `labels` given the rows of each; labels may be beyond the capacity.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.
        labels : ndarray of shape (K,), int64
            Labels, also of components without rows.
        key : uint64
            Key of the random numbers.
        workers : Workers
            Threads.

        Returns
        -------
        components : object
            Parameters of K components.
        """
        raise NotImplementedError

    def log_marginal(self, statistics: Any) -> float:
        """Log density of all rows given their labels, with the parameters integrated out.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.

        Returns
        -------
        log_density : float
            Of all rows together, in nats.
        """
        raise NotImplementedError

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, K), the log predictive density of these rows given each cluster of `statistics`.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.
        out : ndarray of shape (n_rows, K)
            Log densities are added to this array.
        workers : Workers
            Threads.
        """
        raise NotImplementedError

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, K), the log density of these rows given each component.

        Parameters
        ----------
        components : object
            Parameters of K components.
        out : ndarray of shape (n_rows, K)
            Log densities are added to this array.
        workers : Workers
            Threads.
        """
        raise NotImplementedError

    def add_log_density_of_new(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, 1), the log density of these rows given a new component.

        Its parameters are integrated out, but for those that it shares with `components`.

        Parameters
        ----------
        components : object
            Parameters of K components.
        out : ndarray of shape (n_rows, 1)
            Log densities are added to this array.
        workers : Workers
            Threads.
        """
        self.add_log_predictive(self.no_statistics(1), out, workers)

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn parameters as arrays, for ``posterior_``: ``components``, with a row for each component, and others.

        Parameters
        ----------
        components : object
            Parameters of K components.

        Returns
        -------
        arrays : dict of str to ndarray
            By name.
        """
        raise NotImplementedError

    def expected(self, statistics: Any) -> dict[str, np.ndarray]:
        """Posterior means as fitted attributes: ``components_``, (K, n_features), and others.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.

        Returns
        -------
        attributes : dict of str to ndarray
            By name.
        """
        raise NotImplementedError

    def are_means(self, attributes: dict[str, Any]) -> bool:
        """Whether posterior means of components are possible.

        Parameters
        ----------
        attributes : dict of str to ndarray
            What `cell_attributes` returns.

        Returns
        -------
        are_means : bool
            False if a number is not finite or out of range.
        """
        low, high = self.bounds_of_means
        for values in attributes.values():
            for part in values if isinstance(values, list) else [values]:
                with np.errstate(over="ignore"):
                    squares = np.square(part, dtype=np.float64)  # of which second moments are sums
                if not (np.isfinite(squares).all() and np.all((low <= part) & (part <= high))):
                    return False
        return True

    def cell_attributes(self, statistics: Any) -> dict[str, Any]:
        """Posterior means as attributes for `cell_distribution`; covariances are always finite.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.

        Returns
        -------
        attributes : dict of str to ndarray
            By name.
        """
        return self.expected(statistics)

    def drawn_attributes(self, components: Any) -> dict[str, Any]:
        """Drawn parameters as attributes for `cell_distribution`.

        Parameters
        ----------
        components : object
            Parameters of K components.

        Returns
        -------
        attributes : dict of str to ndarray
            By name.
        """
        return {f"{name}_": array for name, array in self.arrays_of(components).items()}

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Rows drawn from the predictive distributions of clusters; row i depends only on the key and i.

        Parameters
        ----------
        statistics : NamedTuple
            Sums of the rows of each label.
        labels : ndarray of shape (n,), int32
            Clusters of the rows.
        key : uint64
            Key of the random numbers.

        Returns
        -------
        X : ndarray of shape (n, n_features)
            New rows.
        """
        raise NotImplementedError

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels, (n_rows,) int32, from seeds that are spread over the rows.

        Parameters
        ----------
        n_clusters : int
            Number of seeds.
        key : uint64
            Key of the random numbers.

        Returns
        -------
        labels : ndarray of shape (n_rows,), int32
            Clusters.
        """
        raise NotImplementedError

    def part(self, start: int, stop: int) -> Clusters:
        """The clusters of some of the rows.

        Parameters
        ----------
        start : int
            The first row.
        stop : int
            The row after the last.

        Returns
        -------
        family : Clusters
            Bound to these rows.
        """
        raise NotImplementedError

    def subset(self, rows: np.ndarray) -> Clusters:
        """The clusters of the rows with these indices.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
            Indices of the rows.

        Returns
        -------
        family : Clusters
            Bound to these rows.
        """
        raise NotImplementedError

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components.

        Parameters
        ----------
        n_components : float
            Number of components.

        Returns
        -------
        n_bytes : float
            Bytes.
        """
        raise NotImplementedError

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components.

        Returns
        -------
        n_rows : int
            Number of rows.
        """
        raise NotImplementedError

    def _ranges(self, work: np.ndarray, workers: Workers) -> list[tuple[int, int]]:
        """Ranges of labels whose statistics are updated at the same time, with about equal sums of `work`."""
        done = np.cumsum(work)
        n_tasks = min(workers.n_workers, 1 + int(done[-1]) // _ROWS_OF_TASK)
        ends = np.searchsorted(done, done[-1] * np.arange(1, n_tasks) / n_tasks, side="right")
        return list(pairwise([0, *ends.tolist(), len(work)]))
