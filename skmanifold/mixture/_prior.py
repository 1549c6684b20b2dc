"""Draws from the prior of a mixture: labels, parameters of components, and rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_scalar

from ..emissions._abilities import HasDraw, HasNewRows
from ..emissions._protocols import HasPriorFamily
from ..random._discrete_variates import draw_partition
from ..random._keys import Purpose, root_key, subkey
from ..samplers._latent.stick_breaking import check_concentration_prior, concentration_or_draw
from ..utils._threads import Workers, limit_threads
from ..utils._typing import BaseEstimator, RandomStateLike
from ..utils._validation import check_prior_sizes
from ._inference import EstimateInference, MixtureInference
from ._memberships import DirichletWeights, Position, draw_labels
from ._scores import FamilyRows, log_predictive


class PriorLabels(NamedTuple):
    """Labels that were drawn from the prior of a membership."""

    labels: np.ndarray  # (n_rows,) int32
    n_components: int
    parameters: dict[str, np.ndarray]  # of the membership, by the names of ``posterior_``


def partition_from_prior(estimator: Any, n_rows: int, key: np.uint64) -> PriorLabels:
    """Labels of a Dirichlet process with the concentration of an estimator, or one drawn from its prior."""
    shape, rate = check_concentration_prior(estimator.concentration_prior, "concentration_prior")
    rng = np.random.default_rng(int(subkey(key, Purpose.PRIOR)))
    concentration = concentration_or_draw(rng, estimator.concentration, shape, rate)
    labels = draw_partition(rng, n_rows, concentration)
    sizes = np.bincount(labels)
    numbers = {"n_components": np.array(len(sizes)), "concentration": np.array(concentration)}
    weights = rng.dirichlet(np.append(sizes, concentration))[:-1]
    return PriorLabels(labels, len(sizes), {**numbers, "weights": weights})


class DrawsFromPrior(EstimateInference):
    """The method `sample_prior` of a mixture, by default with a fixed number of components; not public."""

    n_components: int | None
    weight_prior: float | None

    def _draw_prior_labels(self, n_rows: int, n_features: int | None, key: np.uint64) -> PriorLabels:
        """Labels from the prior of the membership."""
        K = len(self.weights_) if n_features is None else self.n_components
        assert K is not None
        prior = DirichletWeights.of_parameter(self.weight_prior, K)
        weights = prior.draw(np.zeros(K), subkey(key, Purpose.PRIOR))
        return PriorLabels(draw_labels(weights, n_rows, subkey(key, Purpose.LABELS)), K, {"weights": weights})

    def _log_density_of_prior(
        self, family: Any, rows: Any, drawn: PriorLabels, parameters: Any, workers: Workers
    ) -> dict[str, Any]:
        """The log density of drawn rows that a fit records, by its name, and drawn hyperparameters."""
        position = Position(drawn.parameters["weights"], parameters)
        return {"log_likelihood": log_predictive(FamilyRows(family, rows), [position], workers).sum()}

    def _with_drawn_hyperparameters(self, family: Any, key: np.uint64) -> Any:
        """The family with hyperparameters drawn from their prior, if it has one."""
        return family

    def _prior_parts(self, n_features: int | None, n_tokens: int | None) -> tuple[Any, Any]:
        """What reads rows, and a family with the hyperparameters of the constructor or of the fit."""
        raise NotImplementedError

    def _rows_of_prior(self, reader: Any, X: Any, fitted: bool) -> Any:
        """Drawn rows as the family takes them, without an effect on the estimator."""
        raise NotImplementedError

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: int | None = None,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw labels and parameters from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
        n_features : int, default=None
            Number of columns. Hyperparameters are then those of the constructor, and none may depend on data. None
            means a fitted estimator: its columns and the hyperparameters of the fit, and its number of components if
            that is fixed.
        n_tokens : int, default=None
            Multinomial rows only: number of tokens of each row, 100 if it is None. Without `n_features`, the numbers
            are those of random rows of `fit`.
        random_state : int, RandomState instance or None, default=None
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : ndarray or csr_array of shape (n_samples, n_features)
            Rows without missing cells; without `n_features`, in the form of those of `fit`.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: ``"labels"``, the component of each row, ``"weights"``, and the
            parameters of the components, such as ``"components"``, with names and shapes as in ``posterior_``.
            With a fixed number of components also the log likelihood of X as ``"log_likelihood"``. With a Dirichlet
            process also ``"n_components"``, ``"concentration"`` and the log joint density of X and the partition as
            ``"log_joint"``; components without rows are left out, and the largest is first.

        Raises
        ------
        ValueError
            If a number is less than 1, or a hyperparameter that depends on data is None.
        IncompatibleError
            If the emission does not draw parameters and rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        (n_samples, n_features), key = check_prior_sizes(self, n_samples, n_features), root_key(random_state)
        reader, family = self._prior_parts(n_features, n_tokens)
        family = self._with_drawn_hyperparameters(family, subkey(key, Purpose.HYPERPARAMETERS))
        drawn = self._draw_prior_labels(n_samples, n_features, key)
        if drawn.n_components != family.n_components:
            family = family.with_components(drawn.n_components)
        with limit_threads("blas"):  # other numbers of threads round otherwise
            parameters = family.draw(tuple(map(np.zeros, family.shapes())), subkey(key, Purpose.COMPONENTS))
            X = family.sample(parameters, drawn.labels, subkey(key, Purpose.ROWS))
        table = self._as_table(X) if n_features is None else X
        if not return_parameters:
            return table
        rows = self._rows_of_prior(reader, X, fitted=n_features is None)
        with Workers(self.n_jobs) as workers:
            log_density = self._log_density_of_prior(family, rows, drawn, parameters, workers)
        arrays = named_as_draws(family.attributes(parameters)) | drawn.parameters
        return table, {**arrays, "labels": drawn.labels, **{name: np.array(of) for name, of in log_density.items()}}


class DrawsFromEmission(DrawsFromPrior, MixtureInference):
    """The method `sample_prior` of a mixture of the rows of an emission; not public."""

    def _rows_of_prior(self, reader: Any, X: Any, fitted: bool) -> Any:
        return reader.rows_of_values(self, X) if fitted else reader.read(BaseEstimator(), X, reset=True)

    def _prior_parts(self, n_features: int | None, n_tokens: int | None) -> tuple[Any, Any]:
        if n_features is None:
            emission = self.emission_
        else:
            emission, caller = self._resolve_emission(), f"{type(self).__name__}.sample_prior with n_features"
            self._check_offers(emission, emission, [HasPriorFamily], caller, "; or fit first")
        return emission, self._prior_family(emission, n_features, n_tokens)

    def _prior_family(self, emission: Any, n_features: int | None, n_tokens: int | None) -> Any:
        """The family of the fit, or with `n_features` that of the emission."""
        if n_features is None:
            family = self._family
        else:
            n_tokens = check_scalar(100 if n_tokens is None else n_tokens, "n_tokens", Integral, min_val=1)
            family = emission.prior_family(n_features, 1, n_tokens)
        self._check_offers(emission, family, [HasDraw, HasNewRows], f"{type(self).__name__}.sample_prior")
        return family


def named_as_draws(attributes: dict[str, Any]) -> dict[str, Any]:
    """Fitted attributes by the names that they have in ``posterior_``, where the categories of columns are joined."""
    return {name.removesuffix("_"): side_by_side(of) for name, of in attributes.items() if name != "n_categories_"}


def side_by_side(components: np.ndarray | list[np.ndarray]) -> np.ndarray:
    """``components_`` as one array with a row for each component: the categories of all columns are concatenated."""
    return np.concatenate(components, axis=1) if isinstance(components, list) else components
