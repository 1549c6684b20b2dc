"""Protocol of models whose posterior is approximated by independent factors."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class MeanFieldModel(Protocol):
    """A model whose posterior is approximated by independent factors: global factors and factors of rows.

    Global *factors* are exponential families whose natural parameters are updated along the natural gradient.
    *Rows* are the factors of rows, with quantities computed from given global factors.
    """

    batch_size: int | None

    @property
    def scale(self) -> float:
        """Rows that each one at hand stands for."""

    def init_factors(self, key: np.uint64) -> tuple[Any, Any]:
        """Initial global factors and factors of the rows.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        factors : object
            Global factors.
        rows : object
            Factors of the rows.
        """

    def init_rows(self, factors: Any) -> Any:
        """Initial factors of new rows, given the global factors.

        Parameters
        ----------
        factors : object
            Global factors.

        Returns
        -------
        rows : object
            Factors of the rows.
        """

    def refresh_rows(self, factors: Any, rows: Any) -> Any:
        """The same factors of rows, with the quantities that depend on the global factors computed again.

        Parameters
        ----------
        factors : object
            Global factors.
        rows : object
            Factors of the rows.

        Returns
        -------
        rows : object
            Factors of the rows.
        """

    def fit_rows(self, rows: Any, n_steps: int, tol: float) -> tuple[Any, Any]:
        """Maximise the objective over the factors of the rows.

        Parameters
        ----------
        rows : object
            Factors of the rows.
        n_steps : int
            Maximum number of steps for each row.
        tol : float
            Minimum expected increase of the objective for another step, in nats.

        Returns
        -------
        rows : object
            The new factors of the rows.
        pull : object
            Statistics of the rows for the update of the global factors, with the attribute ``objective``.
        """

    def move_topics(self, factors: Any, pull: Any, rate: float, scale: float) -> Any:
        """Step of the global factors along the natural gradient.

        Parameters
        ----------
        factors : object
            Global factors.
        pull : object
            Statistics of the rows, from `fit_rows`.
        rate : float
            Length of the step: 1 replaces the global factors, 0 leaves them unchanged.
        scale : float
            Number of rows that each row represents.

        Returns
        -------
        factors : object
            The new global factors.
        """

    def objective(self, factors: Any, rows: Any, scale: float) -> float:
        """The objective that is maximised.

        Parameters
        ----------
        factors : object
            Global factors.
        rows : object
            Factors of the rows.
        scale : float
            Factor of the part of the objective that depends on the rows.

        Returns
        -------
        float
            The objective, in nats.
        """

    def topic_objective(self, factors: Any) -> float:
        """The part of the objective that depends on the global factors only.

        Parameters
        ----------
        factors : object
            Global factors.

        Returns
        -------
        float
            This part of the objective, in nats.
        """

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Divide all rows at random into minibatches.

        Parameters
        ----------
        key : uint64

        Returns
        -------
        batches : list of ndarray of int
            Indices of the rows of each minibatch.
        """

    def batch(self, chosen: np.ndarray) -> MeanFieldModel:
        """The model of some rows.

        Parameters
        ----------
        chosen : ndarray of int
            Indices of the rows.

        Returns
        -------
        model : MeanFieldModel
            The model of these rows.
        """
