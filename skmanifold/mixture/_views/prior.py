"""Draws from the prior of views: partitions of columns and rows, hyperparameters, and rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._abilities import SeparatesColumns
from ...emissions._protocols import HasPriorFamily
from ...random._discrete_variates import draw_partition
from ...random._keys import Purpose, root_key, subkey
from ...samplers._latent.stick_breaking import concentration_or_draw
from ...utils._threads import ONE, limit_threads
from ...utils._typing import BaseEstimator, RandomStateLike
from ...utils._validation import check_prior_sizes
from .._dirichlet_process.model import log_density_of
from .._inference import MixtureInference
from .._memberships import log_partition_prior
from .proposals import ConcentrationPrior


class DrawsViewsFromPrior(MixtureInference):
    """The method `sample_prior` of an estimator with views; not public."""

    view_concentration: float | None
    concentration: float | None
    hyperparameters: str

    @property
    def _view_prior(self) -> tuple[float, float]:
        raise NotImplementedError

    @property
    def _row_prior(self) -> ConcentrationPrior:
        raise NotImplementedError

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw views, hyperparameters and parameters from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
        n_features : int, default=None
            Number of columns. Hyperparameters are then those of the constructor, and none may depend on data. None
            means a fitted estimator: its columns and the hyperparameters of the fit.
        random_state : int, RandomState instance or None, default=None
        return_parameters : bool, default=False
            Whether to return the partitions too.

        Returns
        -------
        X : array-like of shape (n_samples, n_features)
            Rows without missing cells; without `n_features`, in the form of those of `fit`.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: the names of ``posterior_``, and ``"labels"`` of shape (n_samples,
            n_views), the component of each row in each view.

        Raises
        ------
        ValueError
            If a number is less than 1, or a hyperparameter that depends on data is None.
        IncompatibleError
            If the emission makes no family without rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        (n, n_features), key = check_prior_sizes(self, n_samples, n_features), root_key(random_state)
        emission = self.emission_ if n_features is None else self._resolve_emission()
        family = self._family if n_features is None else self._family_of_prior(emission, n_features)
        family = family.with_drawn_hyperparameters(subkey(key, Purpose.HYPERPARAMETERS))
        rng, d = np.random.default_rng(int(subkey(key, Purpose.PRIOR))), family.n_features
        gamma = concentration_or_draw(rng, self.view_concentration, *self._view_prior)
        column_labels = draw_partition(rng, d, gamma)
        X, of_views, log_joint = np.empty((n, d)), [], log_partition_prior(np.bincount(column_labels), gamma)
        for v in range(int(column_labels.max()) + 1):
            concentration = concentration_or_draw(rng, self.concentration, *self._row_prior[1:])
            labels, columns, own = (
                draw_partition(rng, n, concentration),
                np.flatnonzero(column_labels == v),
                subkey(key, v),
            )
            of_view = family.of_columns(columns).with_components(int(labels.max()) + 1)
            with limit_threads("blas"):
                parameters = of_view.draw(tuple(map(np.zeros, of_view.shapes())), subkey(own, Purpose.COMPONENTS))
                X[:, columns] = of_view.sample(parameters, labels, subkey(own, Purpose.ROWS))
            log_joint += log_partition_prior(np.bincount(labels), concentration)
            of_views.append((columns, labels))
        table = self._as_table(X) if n_features is None else X
        if not return_parameters:
            return table
        reader: Any = BaseEstimator()
        rows = emission.rows_of_values(self, X) if n_features is None else emission.read(reader, X, reset=True)
        clusters = family.clusters(rows)
        for columns, labels in of_views:
            of_view = clusters.of_columns(columns)
            statistics = of_view.no_statistics(int(labels.max()) + 1)
            of_view.given(statistics).count(labels, statistics, ONE)
            log_joint += log_density_of(of_view, statistics)
        return table, {
            "log_joint": np.array(log_joint),
            "n_views": np.array(len(of_views)),
            "column_labels": column_labels,
            "view_concentration": np.array(gamma),
            "labels": np.stack([labels for _, labels in of_views], axis=1),
        }

    def _family_of_prior(self, emission: Any, n_features: int) -> Any:
        """The family of the constructor's hyperparameters, with priors of those that chains draw."""
        caller = f"{type(self).__name__}.sample_prior with n_features"
        self._check_offers(emission, emission, [HasPriorFamily], caller, "; or fit first")
        family, free = emission.prior_family(n_features, 1, 100), emission.free_hyperparameters()
        self._check_offers(emission, family, [SeparatesColumns], caller)
        learned = [name for name in free if self.hyperparameters != "draw" or name.endswith("dispersion")]
        if learned:
            raise ValueError(f"{caller}: hyperparameters that are None are learned ({', '.join(learned)}): set them.")
        family = family.separated()
        return family.with_hyperprior(free, family)
