"""Draws from the prior of a Dirichlet process mixture: concentration, partition, components and rows."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_scalar

from ...emissions._abilities import LearnsPrior
from ...emissions._prior import no_statistics, with_components
from ...random._keys import Purpose, root_key, subkey
from ...random._partitions import draw_partition
from ...samplers._latent.stick_breaking import check_concentration_prior, concentration_or_draw
from ...utils._threads import Workers, limit_threads
from ...utils._typing import ArrayLike, RandomStateLike
from .._prior import named_as_draws, prior_emission, prior_family, read_rows
from .model import DPModel


class DrawsFromPrior:
    """Mixin of estimators with a Dirichlet process; not public. They have the constructor parameters declared here."""

    concentration: float | None
    concentration_prior: ArrayLike
    n_jobs: int | None

    _as_table: Callable[[np.ndarray], Any]  # new rows in the form of the fitted ones

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: int | None = None,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw a partition and components from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_features : int, default=None
            Number of columns. Hyperparameters are then those of the constructor, and none may depend on data. None
            means a fitted estimator: its columns and the hyperparameters of the fit.
        n_tokens : int, default=None
            Multinomial rows only: number of tokens of each row, 100 if it is None. Without `n_features`, the numbers
            are those of random rows of `fit`.
        random_state : int, RandomState instance or None, default=None
            Seed.
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : ndarray or csr_array of shape (n_samples, n_features)
            Rows without missing cells; without `n_features`, sparse if X was sparse in `fit`.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"labels"``, the component of each row, ``"n_components"``,
            ``"concentration"``, ``"weights"``, ``"components"``, the log joint density of X and the partition as
            ``"log_joint"``, and the other parameters of the emission, with names and shapes as in ``posterior_``.
            Components without rows are left out; the largest is first.

        Raises
        ------
        ValueError
            If a number is less than 1, or a hyperparameter that depends on data is None.
        IncompatibleError
            If the emission does not draw parameters and rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        n_samples = check_scalar(n_samples, "n_samples", Integral, min_val=1)
        shape, rate = check_concentration_prior(self.concentration_prior, "concentration_prior")
        key = root_key(random_state)
        rng = np.random.default_rng(int(subkey(key, Purpose.PRIOR)))
        concentration = concentration_or_draw(rng, self.concentration, shape, rate)
        labels = draw_partition(rng, n_samples, concentration)
        sizes = np.bincount(labels)
        emission, of_one = self._prior_parts(n_features, n_tokens)
        family = with_components(of_one, len(sizes))
        with limit_threads("blas"):
            drawn = family.draw(no_statistics(family), subkey(key, Purpose.COMPONENTS))
            X = family.sample(drawn, labels, subkey(key, Purpose.ROWS))
        table = self._as_table(X) if n_features is None else X
        if not return_parameters:
            return table
        with Workers(self.n_jobs) as workers:
            clusters = of_one.clusters(read_rows(self, emission, n_features, X))
            model = DPModel(clusters, concentration, (shape, rate), init=labels, batch_size=None, workers=workers)
            log_joint = model.log_joint(model.count(labels), concentration)
        parameters = named_as_draws(family.attributes(drawn))
        if isinstance(parameters["components"], list):
            parameters["components"] = np.concatenate(parameters["components"], axis=1)
        return table, {
            **parameters,
            "labels": labels,
            "n_components": np.array(len(sizes)),
            "concentration": np.array(concentration),
            "weights": rng.dirichlet(np.append(sizes, concentration))[:-1],
            "log_joint": np.array(log_joint),
        }

    def _prior_parts(self, n_features: int | None, n_tokens: int | None) -> tuple[Any, Any]:
        """The emission that reads rows, and the family of one component."""
        emission = prior_emission(self, n_features)
        free = emission.free_hyperparameters() if n_features and isinstance(emission, LearnsPrior) else ()
        if free:
            raise ValueError(
                f"{type(self).__name__} learns hyperparameters of {type(emission).__name__} that are None "
                f"({', '.join(free)}): set them, or fit the estimator and omit n_features."
            )
        return emission, prior_family(self, emission, n_features, 1, n_tokens)
