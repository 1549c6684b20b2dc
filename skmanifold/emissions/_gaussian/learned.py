"""The numbers of the prior of Gaussian families: learned from a partition or from components, or drawn by a chain."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from ...random._keys import subkey
from ...utils._declared import Saved
from ...utils._threads import Workers
from .._protocols import Arrays
from .._statistics import occupied
from .hyperparameters import FreeNumbers, Hyperprior, NormalPrior, PriorNumbers
from .rounded import RoundsColumns

_IN_CELLS = 2**41  # children of a key beyond those of all rows
_OF_POWERS = 2**42
_SHARE_OF_POWERS = 0.2  # of the passes, in which one power is drawn and nothing else
_DRAWN = "mean_precision", "covariance", "degrees_of_freedom"  # names of the numbers of a prior
_LEAST_SCATTER = 1e-10  # in prior variances; rounding errors give constant columns a scatter


class LearnsNumbers(RoundsColumns):
    """Base class of families whose prior is learned or drawn."""

    # Each subclass defines these.
    _least_degrees: float  # of freedom, above which covariances have a finite mean
    log_marginal_of: Callable[..., Callable[[PriorNumbers], float]]
    _within: Callable[..., np.ndarray]  # covariance, or variances, within the clusters of a partition
    _is_definite: Callable[[], bool]  # whether the covariance of the prior is
    _of_sums: Callable[..., tuple[Any, Any]]  # the prior and statistics as they are for clusters, without rows
    _data: Callable[..., Any]  # rows and the prior, as the kernels read them
    _n_of_rows: int  # arguments of `_data`, which are the first fields of the data
    total_precision: Callable[..., np.ndarray]
    _drawn_in_cells: Callable[..., dict[str, np.ndarray]]  # parts of statistics, with other numbers within cells
    _least_excess = 1.1  # of degrees of freedom over the least, with which components without rows have a mode
    prior: Saved[NormalPrior]

    @property
    def is_proper(self) -> bool:
        """Whether the prior is proper."""
        are_proper = (self.prior.mean_precision > 0.0) & (self.prior.degrees > self._least_degrees - 2.0)
        return bool(np.all(are_proper)) and self._is_definite()

    def _check_proper(self) -> None:
        if not self.is_proper:
            raise ValueError(
                "Draws of Gaussian components need a proper prior: mean_precision_prior above 0, "
                f"degrees_of_freedom_prior above {self._least_degrees - 2.0:g} and a positive definite "
                "covariance_prior."
            )

    def with_learned_prior(self, statistics: Any, free: Any) -> Any:
        """These rows with the most probable prior given a partition."""
        reference = self._within(statistics) if "covariance" in free else self.prior.covariance
        numbers = self._free_numbers(free).best(self.log_marginal_of(statistics, reference))
        return self.with_prior(self._prior_of(numbers, reference))

    def _free_numbers(self, free: Any) -> FreeNumbers:
        return FreeNumbers(PriorNumbers(1.0, self.prior.degrees, self.prior.mean_precision), free, self._least_degrees)

    def _prior_of(self, numbers: PriorNumbers, reference: np.ndarray) -> NormalPrior:
        return NormalPrior(self.prior.mean, numbers.mean_precision, numbers.factor * reference, numbers.degrees)

    def with_learned_numbers(self, statistics: Arrays, free: Any, is_rough: bool = False) -> Any:
        """The family with the most probable prior given statistics of components, as for clusters without rows."""
        whole, is_learned = self.prior.covariance, "covariance" in free
        if is_learned:  # that of all rows: `_within` divides it by the number of clusters
            whole = whole * self.n_components ** (2.0 / self.n_features)
        clusters, sums = self._with_numbers(self.prior._replace(covariance=whole)).clusters_of_sums(statistics)
        reference = self._varying(clusters._within(sums), statistics) if is_learned else whole
        return self._with_numbers(clusters._learned_prior(sums, free, reference, is_rough))

    def _learned_prior(self, sums: Any, free: Any, reference: np.ndarray, is_rough: bool) -> NormalPrior:
        """The prior given a partition, whose scatter is a multiple of the reference."""
        numbers, least = self._free_numbers(free), self._least_excess
        found = numbers.usual(least) if is_rough else numbers.best(self.log_marginal_of(sums, reference), least)
        return self._prior_of(found, reference)

    def _varying(self, reference: np.ndarray, statistics: Arrays) -> np.ndarray:
        """A reference in which columns that are constant in all rows have the variances of the prior."""
        sizes, sums, products, *_ = statistics
        squares = np.einsum("kvv->v", products) if self.has_matrices else products[..., 0].sum(axis=0)
        scatter, variances = squares - sums.sum(axis=0) ** 2 / sizes.sum(), self.prior.covariance
        if len(variances) != len(scatter):
            return reference
        variances = np.diagonal(variances) if self.has_matrices else variances
        varies = scatter > _LEAST_SCATTER * sizes.sum() * variances
        if not self.has_matrices:
            return np.where(varies, reference, variances)
        return np.where(np.outer(varies, varies), reference, 0.0) + np.diag(np.where(varies, 0.0, variances))

    def clusters_of_sums(self, statistics: Arrays) -> tuple[Any, Any]:
        """The family bound to no rows, and statistics of components as those of clusters."""
        return self._bound(self._no_rows()), self._of_sums(statistics)[1]

    # Hyperparameters that chains draw

    def with_hyperprior(self, free: Any, before: LearnsNumbers) -> Any:
        """The family whose prior is the start of a chain; that `before` learning gives the mean of its shape."""
        other = copy(self)
        free = [name for name in free if name != "transform" or self.transform is not None]
        other.hyperprior = Hyperprior.of_mean(before.prior.covariance, free)
        return other if other.hyperprior.free else self

    @property
    def hyperparameters(self) -> np.ndarray:
        """The prior as a vector; empty if it is fixed."""
        if self.hyperprior is None:
            return np.empty(0)
        if self._vector is not None:
            return self._vector
        return self.hyperprior.start(self.prior, self.powers, self._least_degrees)

    def _with_drawn(self, vector: np.ndarray, values: np.ndarray) -> Any:
        family = self._with_vector(vector) if len(vector) else copy(self)
        if len(values):
            family._set_values(values)
            assert family._bounds is not None
            family._bounds = *family._bounds[:2], values
        return family

    _vector: np.ndarray | None = None  # drawn hyperparameters; None are those of the prior

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Any, key: np.uint64, workers: Workers) -> Any:
        """Statistics with other hyperparameters and numbers within cells, drawn given the partition."""
        if self.hyperprior is not None:
            given = self.given(statistics)
            if self.hyperprior.draws_powers and (given.powers != 1.0).any():
                rng = np.random.default_rng(int(subkey(key, _OF_POWERS)))
                if rng.random() < _SHARE_OF_POWERS:
                    return given.with_drawn_power(labels, statistics, rng, workers)
            vector = self.hyperprior.drawn(given, statistics, self._least_degrees, key)
            statistics = statistics._replace(hyperparameters=vector)
        if not len(statistics.values):
            return statistics
        present, key = occupied(statistics), subkey(key, _IN_CELLS)
        place_of = np.zeros(len(statistics.sizes), np.int64)
        place_of[present] = np.arange(len(present))
        values = self.given(statistics)._drawn_in_cells(place_of[labels], present, statistics, key, workers)
        again = self.no_statistics(len(statistics.sizes))
        again = again._replace(hyperparameters=statistics.hyperparameters, **values)
        self.given(again).count(labels, again, workers)
        return again

    def hyperparameters_of(self, statistics: Any) -> dict[str, np.ndarray]:
        """Drawn hyperparameters, by the names that they have in the emission."""
        if self.hyperprior is None:
            return {}
        _, *numbers = self.given(statistics).prior
        found = {f"{name}_prior": np.array(value) for name, value in zip(_DRAWN, numbers, strict=True)}
        powers = self.hyperprior.powers_of(statistics.hyperparameters)
        return found | ({"transform": powers} if len(powers) else {})

    def log_hyperprior(self, statistics: Any) -> float:
        """Log prior density of the hyperparameters, up to a constant."""
        return self.hyperprior.log_density(statistics.hyperparameters, self._least_degrees) if self.hyperprior else 0.0

    def with_drawn_hyperparameters(self, key: np.uint64) -> Any:
        """The family with hyperparameters drawn from their prior."""
        if self.hyperprior is None:
            return self
        return self._with_vector(self.hyperprior.drawn_from_prior(self.prior, self.powers, self._least_degrees, key))

    def _with_vector(self, vector: np.ndarray) -> Any:
        assert self.hyperprior is not None
        family, powers = self, self.hyperprior.powers_of(vector)
        if len(powers):
            family = self._with_powers(powers)
        family = family._with_numbers(self.hyperprior.prior_of(vector, self.prior.mean, self._least_degrees))
        family._vector = vector
        return family

    def _with_numbers(self, prior: NormalPrior) -> Any:
        """The same family, and rows if it has some, with other numbers of the prior."""
        other = copy(self)
        other.prior = prior
        if hasattr(self, "data"):
            other.data = other._data(*self.data[: self._n_of_rows])
        return other
