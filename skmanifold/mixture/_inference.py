"""Inference with a fitted mixture: memberships, densities, cells and new rows, at the estimate and for draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from sklearn.utils import Bunch, check_scalar
from sklearn.utils.validation import check_is_fitted

from ..callbacks._hooks import labels_of_all
from ..emissions import BaseEmission
from ..emissions._categories import CategoryFamily
from ..emissions._columns.layout import ColumnLayout
from ..emissions._estimator import WithEmission, name_of
from ..emissions._family import Family
from ..emissions._protocols import RowEmission
from ..emissions._registry import EMISSIONS, ROW_FAMILIES
from ..random._keys import Purpose, root_key, subkey
from ..samplers import BaseSampler
from ..utils._conditions import Array, Sizes
from ..utils._declared import Lacking, Saved, check
from ..utils._threads import Workers, limit_threads
from ..utils._typing import (
    ArrayLike,
    ClassNamePrefixFeaturesOutMixin,
    Ignored,
    MatrixLike,
    RandomStateLike,
    TransformerMixin,
    available_if,
)
from ._memberships import draw_labels
from ._scores import FamilyRows, MixtureSummary, log_predictive, refuse_far_rows, shares_and_log_density, used_rows


def _family(value: Any, where: str, sizes: Sizes) -> None:
    """A family; if it is one of categories, it determines their number in draws and states of chains."""
    check(Family, value, where, sizes)
    if isinstance(value, CategoryFamily):
        sizes["n_categories"] = value.n_statistics


class EstimateInference(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of an estimator with an estimate of a mixture; not public.

    When fitted, the estimator has the attributes declared here.
    """

    n_jobs: int | None
    n_features_in_: int
    _family: Any
    _fitted_on_sparse = False

    if TYPE_CHECKING:  # attributes or properties of the estimator

        @property
        def weights_(self) -> np.ndarray: ...

        @property
        def _estimate(self) -> Any:
            """A `Position`, the `PositionDraws` or a `PartitionDraw`."""

        def _read(self, X: MatrixLike) -> Any: ...

        def fit(self, X: Any, y: Ignored = None) -> Any: ...

        def score_samples(self, X: Any) -> np.ndarray: ...

    @property
    def _component_clusters(self) -> np.ndarray:
        """The cluster of each component, (K,): itself."""
        return np.arange(len(self.weights_))

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_)

    def transform(self, X: MatrixLike) -> np.ndarray:
        """Return the membership probabilities of `predict_proba`, for the next step of a pipeline.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to 1. There is one column for each entry of ``weights_``.
        """
        return self.predict_proba(X)

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Posterior probabilities of the components given each row, or of their clusters with a Dirichlet process.

        They are those at the estimate of the parameters; of a mixture of subspaces, those averaged over draws of the
        subspaces; of a Dirichlet process mixture, those given the point partition and that the row belongs to one of
        its components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            Rows sum to 1. There is a column for each entry of ``weights_``.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that are not allowed.
        """
        return self._at_estimate(self._read(X))[0]

    def uncertainty(self, X: MatrixLike) -> np.ndarray:
        """Posterior probability that a row does not belong to its most probable component.

        It is 1 minus the largest of the probabilities of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        uncertainty : ndarray of shape (n_samples,)
            From 0, certain, to ``1 - 1 / n_components``.
        """
        return 1.0 - self.predict_proba(X).max(axis=1)

    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable component of each row, or the most probable cluster with a Dirichlet process.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices into ``weights_``.
        """
        return self.predict_proba(X).argmax(axis=1)

    def sample(self, n_samples: int = 1, random_state: RandomStateLike = None) -> tuple[Any, np.ndarray]:
        """Draw rows from the mixture.

        With a fixed number of components these are rows at the estimate of the parameters; of a mixture of subspaces,
        each is a row of a random draw of the subspaces. With a Dirichlet process they have the predictive distribution
        given the point partition: each row belongs to one of its components or, with the remaining probability, to a
        new one, and the parameters are drawn from the posterior of the component, independently for each row.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        X : ndarray or csr_array of shape (n_samples, n_features)
            Rows. Multinomial rows have the numbers of tokens of random rows of `fit`. No cell is missing.
        labels : ndarray of shape (n_samples,)
            As those of `predict`; -1 is a new component.

        Raises
        ------
        ValueError
            If `n_samples` is less than 1.
        IncompatibleError
            If the emission has no new rows.
        """
        check_is_fitted(self)
        n_samples, key = check_scalar(n_samples, "n_samples", Integral, min_val=1), root_key(random_state)
        labels = draw_labels(self._estimate.weights, n_samples, subkey(key, Purpose.LABELS))
        with limit_threads("blas"):  # other numbers of threads round otherwise
            X = self._new_rows(labels, subkey(key, Purpose.ROWS))
        return X, np.append(self._component_clusters, -1)[labels]

    def _new_rows(self, labels: np.ndarray, key: np.uint64) -> Any:
        return self._as_table(self._estimate.new_rows(self._family, labels, key))

    def _as_table(self, values: np.ndarray) -> Any:
        """New rows in the form of those of `fit`."""
        return values

    def _cells_of(self, column: int, values: np.ndarray) -> np.ndarray:
        """Cells of a column as in the table of `fit`."""
        return values

    def _family_rows(self, rows: Any) -> Any:
        """The rows as the methods of draws take them."""
        return FamilyRows(self._family, rows)

    def _at_estimate(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Memberships of rows, (n, K), and their log densities in these components."""
        with Workers(self.n_jobs) as workers:
            n_components = len(self._component_clusters)
            return shares_and_log_density(self._estimate, self._family_rows(rows), n_components, workers)

    def fit_predict(self, X: MatrixLike, y: Ignored = None) -> np.ndarray:
        """Fit, and return the component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return labels_of_all(self.fit(X), X)

    def score(self, X: MatrixLike, y: Ignored = None, sample_weight: ArrayLike | None = None) -> float:
        """Mean of `score_samples`, weighted by `sample_weight` if it is given: higher is better.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`. Rows without a density, such as rows of zeros in a mixture of directions, are left out.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows. A whole number has the same effect as this number of copies of the row.
            None weights all rows equally, also after a fit with weights.

        Returns
        -------
        score : float
            In nats per row.
        """
        log_densities = self.score_samples(X)
        used, weights = used_rows(log_densities, X, sample_weight)
        return float(np.average(log_densities[used], weights=weights))


class InformationCriteria(EstimateInference):
    """Mixin for estimators whose estimate can be a mode of the posterior or the likelihood; not public."""

    def _n_parameters(self) -> int:
        return self._family.n_parameters() + len(self.weights_) - 1

    def _has_criteria(self) -> bool:
        """Whether the estimate is a mode, for ``available_if``; it may raise an AttributeError with the reason."""
        return True

    @available_if(lambda estimator: estimator._has_criteria())
    def aic(self, X: MatrixLike, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion: lower is better. Available only if the estimate is a mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: those of `fit`, if it had weights. None weights each row by 1, also after a fit with
            weights.

        Returns
        -------
        aic : float
            From the log likelihood at the estimate, with densities as in `score_samples`.
        """
        return self.summary(X, sample_weight).aic

    @available_if(lambda estimator: estimator._has_criteria())
    def bic(self, X: MatrixLike, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion: lower is better. Available only if the estimate is a mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: those of `fit`, if it had weights. None weights each row by 1, also after a fit with
            weights.

        Returns
        -------
        bic : float
            From the log likelihood at the estimate, with densities as in `score_samples`. The number of rows in the
            penalty is the sum of their weights, so that whole weights are copies of rows.
        """
        return self.summary(X, sample_weight).bic

    @available_if(lambda estimator: estimator._has_criteria())
    def icl(self, X: MatrixLike, sample_weight: ArrayLike | None = None) -> float:
        r"""Integrated completed likelihood criterion: lower is better. Available only if the estimate is a mode.

        It is `bic` plus a penalty for components that overlap ([1]_),

        .. math:: \mathrm{ICL} = \mathrm{BIC} - 2 \sum_i \omega_i \log \max_k p(k \mid x_i),

        where :math:`\omega_i` are the weights of the rows, so that it prefers separate clusters to a better density.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: those of `fit`, if it had weights. None weights each row by 1, also after a fit with
            weights.

        Returns
        -------
        icl : float

        References
        ----------
        .. [1] C. Biernacki, G. Celeux and G. Govaert, "Assessing a mixture model for clustering with the integrated
           completed likelihood", IEEE Transactions on Pattern Analysis and Machine Intelligence 22, 2000.
        """
        return self.summary(X, sample_weight).icl

    @available_if(lambda estimator: estimator._has_criteria())
    def summary(self, X: MatrixLike, sample_weight: ArrayLike | None = None) -> MixtureSummary:
        """Log likelihood, number of parameters, information criteria, and sizes of the components.

        Available only if the estimate is a mode. All values need one evaluation of the densities of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows of `fit`. Rows without a density are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows: those of `fit`, if it had weights. None weights each row by 1, also after a fit with
            weights.

        Returns
        -------
        summary : MixtureSummary
            A named tuple, which is printed as a table: ``model``, its name and emission; ``n_rows``;
            ``log_likelihood``, with densities as in `score_samples`; ``n_parameters``; ``aic``, ``bic`` and ``icl``;
            and of each component, ``weights`` as in ``weights_``, and ``sizes``, the numbers of rows of X whose most
            probable component it is. Numbers of rows are sums of their weights.
        """
        check_is_fitted(self)
        n_parameters = self._n_parameters()
        shares, log_densities = self._at_estimate(self._read(X))
        used, weights = used_rows(log_densities, X, sample_weight)
        n_rows, log_likelihood = float(weights.sum()), float((weights * log_densities[used]).sum())
        aic, bic = (penalty * n_parameters - 2.0 * log_likelihood for penalty in (2.0, math.log(n_rows)))
        icl = bic - 2.0 * float((weights * np.log(shares.max(axis=1)[used])).sum())
        numbers = n_rows, log_likelihood, n_parameters, aic, bic, icl
        sizes = np.bincount(shares.argmax(axis=1)[used], weights, len(self.weights_))
        model = type(self).__name__ + (f" of {name_of(self.emission_)}" if hasattr(self, "emission_") else "")
        return MixtureSummary(model, *numbers, self.weights_, sizes)


class MixtureInference(WithEmission, EstimateInference):
    """Methods of an estimator with a fitted mixture of the rows of an emission; not public.

    When fitted, the estimator has the attributes declared here.
    """

    _emissions = EMISSIONS
    _families = ROW_FAMILIES
    _emission_protocol: ClassVar[type] = RowEmission
    _family: Annotated[Any, _family]
    _layout: Lacking[ColumnLayout]
    n_categories_: Lacking[Annotated[np.ndarray, Array("int64", "n_features", low=1)]]  # of columns of codes
    emission_: Saved[BaseEmission]
    n_batch_iter_: Saved[int]
    _key: Saved[np.uint64]  # root of all random streams, set at the start of a fit
    sampler_: BaseSampler
    _estimate: Any  # a `Position` or a `PartitionDraw`

    def _disagreement(self, sizes: Sizes) -> str | None:
        if self._family.n_features != sizes["n_features"]:
            return "has a family of other features"
        problem = self._fitted_emission.disagrees(self._family, self)
        return problem or super()._disagreement(sizes)

    def __sklearn_is_fitted__(self) -> bool:
        return "_estimate" in vars(self)

    @property
    def _fitted_emission(self) -> BaseEmission:
        """An emission of the library whose families are those of the fit."""
        return self.emission_

    def score_samples(self, X: MatrixLike) -> np.ndarray:
        r"""Log density of each row.

        If the sampler draws, this is the log of the mean density over draws, which does not depend on the order of
        the components: all draws of a Dirichlet process mixture, or `n_predictive_draws` of a mixture with a fixed
        number of components. Else it is the log density at the estimate. With a Dirichlet process the density
        includes the components with rows and the remaining weight of those without:

        .. math:: \log \frac{1}{T} \sum_t \Bigl( \sum_j \omega_j^{(t)} f(x \mid \text{rows of } j)
            + \omega_0^{(t)} \int f(x \mid \theta) dG_0(\theta) \Bigr).

        With ``"slice"``, components and weights are integrated out given each drawn partition; with the other samplers
        the drawn components and weights are used. A fitted row that is the only row of its component in some draws
        raises its own density: to find outliers, fit the mixture to other rows than those that are scored.

        The density of a row with missing cells is that of its observed cells. Multinomial rows are scored as their
        tokens in a given order, without multinomial coefficients. Densities of Poisson counts include the factorials,
        and densities of directions are relative to the uniform distribution on the sphere.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats.

        Raises
        ------
        ValueError
            If X has other columns than in `fit`, or values that the emission does not allow.
        """
        return self._log_densities_of(self._read(X))

    def _log_densities_of(self, rows: Any) -> np.ndarray:
        with Workers(self.n_jobs) as workers:
            log_density = log_predictive(self._family_rows(rows), self._predictive, workers)
        refuse_far_rows(log_density)
        return log_density

    @property
    def _predictive(self) -> Sequence[Any]:
        """The draws that predictions average over, or the estimate."""
        raise NotImplementedError

    def _read(self, X: MatrixLike) -> Any:
        check_is_fitted(self)
        return self._read_rows(self.emission_, X, None, reset=False)

    def _read_rows(self, emission: Any, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Any:
        """Rows of the emission; in `fit` there is a key for random choices."""
        return emission.read(self, X, reset=reset)

    @property
    def categories_(self) -> list[np.ndarray | None]:
        """With the emission `Columns`: the categories of each column of X, None for numbers."""
        layout = self._column_layout()
        pairs = zip(layout.kinds, layout.categories, strict=True)
        return [categories if kind == "category" else None for kind, categories in pairs]

    @property
    def named_blocks_(self) -> Bunch:
        """With the emission `Columns`: the fitted attributes of each block, such as ``components_``, by its name."""
        self._column_layout()
        return Bunch(**{name: Bunch(**attributes) for name, attributes in self._attributes_of_blocks().items()})

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        """Fitted attributes of each block of columns."""
        raise NotImplementedError

    def _column_layout(self) -> ColumnLayout:
        check_is_fitted(self)
        if "_layout" not in vars(self):
            raise AttributeError("The emission of this estimator is not Columns.")
        return vars(self)["_layout"]

    def _as_table(self, values: np.ndarray) -> Any:
        """New rows as a table like that of `fit`, if the emission is `Columns`; else as they are."""
        layout = vars(self).get("_layout")
        return values if layout is None else layout.table(values, getattr(self, "feature_names_in_", None))

    def _typical_of(self, column: int, values: np.ndarray) -> np.ndarray:
        """Typical values of a column: means, and categories in place of codes."""
        has_codes = "_layout" in vars(self) and vars(self)["_layout"].kinds[column] == "category"
        return self._cells_of(column, values) if has_codes else values

    def _rows_of_cells(self, values: np.ndarray) -> Any:
        """Rows with these numbers and codes; NaN where missing."""
        return self.emission_.rows_of_values(self, values)

    def _cells_of(self, column: int, values: np.ndarray) -> np.ndarray:
        """Cells of a column as in the table of `fit`."""
        return vars(self)["_layout"].cells(column, values) if "_layout" in vars(self) else values

    def __sklearn_tags__(self) -> Any:
        tags, kind = super().__sklearn_tags__(), self._emission_kind
        tags.input_tags.sparse = kind.allows_sparse
        tags.input_tags.allow_nan = kind.allows_missing
        tags.input_tags.categorical = kind.has_codes
        tags.input_tags.positive_only = kind.positive_only
        return tags
