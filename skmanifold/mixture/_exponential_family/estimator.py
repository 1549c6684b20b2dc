"""Mixture of an exponential family, with a choice of emissions and samplers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from operator import attrgetter
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from sklearn.base import DensityMixin

from ...base import BaseSampledEstimator, FitStrategy, Minibatch, Run, StreamStrategy, takes_minibatches
from ...callbacks._hooks import check_labels_of_all, labels_of_all
from ...datasets import Corpus, RowFiles
from ...emissions import BaseEmission
from ...inference._distributed_fits.sources import is_elsewhere
from ...samplers import EM, ESCA, BaseSampler, Gibbs
from ...utils._sklearn import Interval, NumberOf, StrOptions
from ...utils._typing import ArrayLike, DaskLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .fit_strategies import RowsFit, RowsStream, StoredRowsFit
from .inference import OF_FAMILY, FamilyInference

Rows: TypeAlias = MatrixLike | Corpus | Sequence[Corpus] | RowFiles | DaskLike


@dataclass(eq=False, repr=False)
class ExponentialFamilyMixture(FamilyInference, DensityMixin, BaseSampledEstimator):
    r"""Mixture of an exponential family: Gaussians, latent classes, clusters of documents or of counts.

    .. math:: w \sim \mathrm{Dir}(\alpha), \quad z_i \sim \mathrm{Cat}(w), \quad x_i \mid z_i = k \sim p(x \mid \eta_k),

    with a conjugate prior for the parameters :math:`\eta_k`. The emission sets the distribution within a component and
    its prior.

    Parameters
    ----------
    n_components : int, default=1
        Number of components K.
    emission : str or BaseEmission instance, default="gaussian"
        How rows are distributed given their component: "bernoulli", "categorical", "gaussian", "multinomial",
        "negative_binomial", "poisson" or "von_mises_fisher"; or "auto" for tables with columns of several kinds
        (:class:`~skmanifold.emissions.Columns`). An instance has the prior's hyperparameters:
        :class:`~skmanifold.emissions.Bernoulli`, :class:`~skmanifold.emissions.Categorical`,
        :class:`~skmanifold.emissions.Columns`, :class:`~skmanifold.emissions.Gaussian`,
        :class:`~skmanifold.emissions.Multinomial`, :class:`~skmanifold.emissions.NegativeBinomial`,
        :class:`~skmanifold.emissions.Poisson` or :class:`~skmanifold.emissions.VonMisesFisher`; or a user-defined
        :class:`~skmanifold.emissions.RowEmission`. A name stands for its defaults. The prior of Gaussian
        components is learned from the rows if it is None, see Notes of :class:`~skmanifold.emissions.Gaussian`.
    sampler : {"esca", "em", "gibbs"} or instance, default="esca"
        Inference algorithm:

        - ``"esca"`` (:class:`~skmanifold.samplers.ESCA`): stochastic EM. Each pass draws all labels and sets
          the parameters to their mode. The noise helps to leave plateaus, and the average of the last passes is near a
          mode. It supports `partial_fit`. The name stands for ``ESCA(n_average=10, tol=1e-3)``, which ends burn-in when
          the log likelihood has ceased to rise; an instance of ESCA has no tolerance by default.
        - ``"em"`` (:class:`~skmanifold.samplers.EM`): EM until convergence to a mode.
        - ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`): draws parameters and labels from the posterior.
    weight_prior : float, default=None
        Dirichlet parameter :math:`\alpha` of each weight; None is ``1 / n_components``.
    init : {"auto", "hierarchical", "k-means++", "random"} or array-like of shape (n_samples,), default="auto"
        Initial labels:

        - "k-means++": for Gaussian rows, k-means with features scaled to equal ranges ([3]_); for "negative_binomial"
          of the logs of the counts plus one, and for tables with equal variances of the columns. For other emissions,
          it chooses seeds among the rows as k-means++ does, by likelihood.
        - "hierarchical": at least 30 and at least 3 K clusters of "k-means++" are merged until K are left. Each step
          merges the two clusters with the lowest log Bayes factor, the marginal density of their rows as two clusters
          over that as one. It needs a Gaussian emission with a proper prior.
        - "auto": of the `n_init` initial labels of a chain, the first are "hierarchical" if rows are Gaussian with a
          proper prior and at most 32 columns, and all others "k-means++".
        - "random": random labels, which need more passes: without a tolerance, ``sampler=ESCA()``, the fit may be
          better.

        An array gives the labels, whole numbers from 0 to K - 1.
    max_iter : int, default=200
        Number of passes over the data, including burn-in; the maximum for "em" and for "esca" with a tolerance.
    burn_in : int, default=None
        Number of discarded initial passes; None discards half of them. "esca" with a tolerance discards fewer if all
        chains have settled before, and then makes only the passes that are averaged.
    thin : int, default=2
        After burn-in, every `thin`-th pass is kept in ``posterior_``.
    n_init : int, default=5
        Number of initial labels for each chain. From each there are five passes of stochastic EM. The half with the
        higher log likelihoods continues with three times as many passes, until one is left, from which the chain
        starts. 1 skips these passes. If there are more than 16,384 rows, initial labels are found and compared in a
        random sample of so many, and then drawn for all rows. Ignored if `init` gives the labels. With
        `sample_weight`, these passes draw one label for each row, which counts with the weight of the row.
    n_chains : int, default=1
        Number of independent chains with different initial labels. The estimate comes from the chain with the highest
        mean log likelihood after burn-in, or with the highest final log likelihood for "em".
    n_polish : int, default=0
        Number of final EM passes from the estimate. They lead from the average of "esca" or "gibbs" to a mode.
    n_predictive_draws : int, default=10
        For samplers that draw the parameters ("gibbs"): number of evenly spaced draws over which `score_samples`
        averages.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t has the weight ``(learning_offset + t) ** -learning_decay`` in the statistics.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory limit for draws of parameters. Beyond it, fewer draws are kept, evenly spaced.
    n_stored_rows : int, default=0
        For samplers that draw the parameters ("gibbs"): number of rows, the first ones of X, whose labels are kept in
        ``posterior_`` with each draw of the components.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bitwise the same for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. Chains run in parallel first.
    verbose : int, default=0
        Print the log likelihood every `verbose` passes.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
    components_ : ndarray of shape (n_components, n_features) or list of ndarray
        Expected row of each component: probabilities of ones, probabilities of words, means or rates. For codes of
        categories, their probabilities: an array of shape (n_components, n_categories) for each column. For
        :class:`~skmanifold.emissions.Columns`, a list with an array for each column.
    covariances_ : ndarray of shape (n_components, n_features, n_features)
        Gaussian components only: covariances; of shape (n_features, n_features) if tied, the covariance of all
        components; or variances of shape (n_components, n_features).
    dispersions_ : ndarray of shape (n_features,)
        Negative binomial components only: a count with the mean m has the variance ``m + dispersion * m**2``.
    mean_directions_ : ndarray of shape (n_components, n_features)
        Von Mises-Fisher components only: unit vectors. The rows of ``components_`` are these times mean cosines.
    concentrations_ : ndarray of shape (n_components,)
        Von Mises-Fisher components only: concentrations.
    n_categories_ : ndarray of shape (n_features,)
        Codes of categories only: number of categories of each column.
    named_blocks_ : Bunch
        :class:`~skmanifold.emissions.Columns` only: the fitted attributes of each block, by its name.
    categories_ : list of ndarray or None
        :class:`~skmanifold.emissions.Columns` only: the categories of each column, None for numbers.
    labels_ : ndarray of shape (n_samples,)
        The most probable component of each fitted row. Not set by `partial_fit`.
    typical_rows_ : ndarray of shape (n_components,)
        For each component, the index of the fitted row with the highest density in it among the rows with its label; -1
        if there are none. Not set by `partial_fit`.
    emission_ : BaseEmission
        The emission, with what was learned from the rows.
    sampler_ : BaseSampler
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        After burn-in: ``"log_likelihood"`` of the parameters before each pass, ``"weights"``, and ``"components"`` for
        as many draws as `max_draws_bytes` allows, with the parameters of the emission as in the attributes above:
        ``"covariances"``, ``"dispersions"``, ``"mean_directions"`` and ``"concentrations"``. For "gibbs" they are draws
        from the posterior, for the other samplers the parameters after each pass. The order of the components may
        differ between draws. For codes, the categories of all columns are concatenated. ``"labels"``, the labels of the
        first `n_stored_rows` rows that the parameters of a draw were drawn with.
    best_chain_ : int
        Index of the chain of the estimate.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of every pass, burn-in included. Not set by `partial_fit`.
    converged_ : bool
        "em" only: whether EM converged before `max_iter` passes.
    n_iter_ : int
        Number of passes over the data. Not set by `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches passed to `partial_fit` since the last `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPCategoricalMixture : Infers the number of components.
    sklearn.mixture.GaussianMixture : Gaussian mixtures by EM.

    Notes
    -----
    The estimate is the mode of the parameters given averaged statistics: of the last passes for "esca" (`n_average`),
    of all passes after burn-in for "gibbs". The average of "gibbs" is meaningful only if the components do not change
    their order within the chain, which holds if they are well separated. `score_samples` does not need this.

    The components of Gaussian rows can have any size and orientation, so different initial labels lead to different
    modes. Labels of a hierarchy of clusters are initial labels of model-based clustering since [4]_. Here the marginal
    densities of the emission's own components decide which clusters are merged. The best start is found by successive
    halving ([5]_), since log likelihoods after few passes do not show which start ends highest.

    A component without rows has the mode of its prior as its parameters.

    Missing cells (NaN) are assumed missing at random. Labels, scores and membership probabilities use the distribution
    of the observed cells; a row without observed cells has the weights as its membership probabilities.
    :class:`~skmanifold.emissions.Gaussian` describes the update of its parameters. "multinomial" and
    "von_mises_fisher" refuse NaN.

    References
    ----------
    .. [1] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [2] G. Celeux and J. Diebolt, "The SEM algorithm: a probabilistic teacher algorithm derived from the EM algorithm
       for the mixture problem", Computational Statistics Quarterly 2, 1985.
    .. [3] G. W. Milligan and M. C. Cooper, "A study of standardization of variables in cluster analysis", Journal of
       Classification 5, 1988.
    .. [4] C. Fraley, "Algorithms for model-based Gaussian hierarchical clustering", SIAM Journal on Scientific
       Computing 20, 1998.
    .. [5] K. Jamieson and A. Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
       AISTATS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3.0, 1.0, (300, 2)), rng.normal(3.0, 0.5, (100, 2))])
    >>> mixture = ExponentialFamilyMixture(2, random_state=0).fit(X)
    >>> sorted(mixture.weights_.round(2).tolist())
    [0.25, 0.75]
    >>> mixture.transform(X[:5]).shape  # membership probabilities
    (5, 2)
    >>> counts = rng.poisson(np.where(rng.random((200, 1)) < 0.5, [[1.0, 9.0]], [[9.0, 1.0]]))
    >>> clusters = ExponentialFamilyMixture(2, emission="poisson", sampler="em", random_state=0).fit(counts)
    >>> bool(clusters.converged_)
    True
    """

    _samplers = {sampler.short_name: sampler for sampler in (ESCA, EM, Gibbs)}  # noqa: RUF012
    _settings = {"esca": {"n_average": 10, "tol": 1e-3}}  # noqa: RUF012
    _read_by: ClassVar[dict] = dict.fromkeys(("n_predictive_draws", "n_stored_rows"), attrgetter("draws_parameters"))
    _single_threaded = "all"
    _of_some_fits = ("converged_", "n_categories_", "_layout", *OF_FAMILY)
    _of_no_stream = (*BaseSampledEstimator._of_no_stream, "labels_", "typical_rows_", "converged_")
    _runs_in_shards = True
    _parameter_constraints = {  # noqa: RUF012
        "n_components": [NumberOf("DPMixture infers the number of components")],
        "weight_prior": [None, Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"auto", "hierarchical", "k-means++", "random"}), "array-like"],
        "n_polish": [Interval(Integral, 0, None, closed="left")],
    }

    n_components: int = 1
    _: KW_ONLY
    emission: str | BaseEmission = "gaussian"
    sampler: str | BaseSampler = "esca"
    weight_prior: float | None = None
    init: Literal["auto", "hierarchical", "k-means++", "random"] | ArrayLike = "auto"
    max_iter: int = 200
    burn_in: int | None = None
    thin: int = 2
    n_init: int = 5
    n_chains: int = 1
    n_polish: int = 0
    n_predictive_draws: int = 10
    total_samples: int = 1_000_000
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    max_draws_bytes: int = 2**28
    n_stored_rows: int = 0
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Rows, y: Ignored = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the mixture to rows.

        Inside ``with distributed(client):`` (:func:`~skmanifold.distributed`) the rows are sent to the workers of the
        cluster, or read there.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus, list of Corpus, RowFiles, or Dask \
                collection
            Rows as the emission requires: real numbers, zeros and ones, codes of categories, or counts. Sparse input
            stays sparse; "categorical" and "gaussian" refuse it. For "bernoulli", "categorical", "gaussian",
            "negative_binomial" and "poisson", NaN is a missing cell. A :class:`~skmanifold.datasets.Corpus` and
            :class:`~skmanifold.datasets.RowFiles` are read into memory: of the workers inside
            ``with distributed(client):``, where X can also be a Dask array or data frame. This process then has a
            sample of 16,384 rows, for initial labels and priors that depend on the data.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows, for "em" only. A whole number has the same effect as this number of
            copies of the row, so weights that are all multiplied by a number change the strength of the data compared
            with the prior. Rows of weight zero have an entry in ``labels_``, but no effect on the fit.

        Returns
        -------
        self : ExponentialFamilyMixture

        Raises
        ------
        ValueError
            If X has values that the emission does not allow or fewer rows than components, or a parameter is
            incompatible with X, or the covariance of a Gaussian component becomes singular. If weights are negative,
            not finite or all zero, or fewer rows have a positive weight than there are components.
        IncompatibleError
            If the sampler needs something that this model does not provide, or there are weights and the sampler draws
            one component for each row, as "esca" and "gibbs" do.

        Warns
        -----
        ConvergenceWarning
            If "em" has not converged after `max_iter` passes, and its tolerance is not 0.
        """
        return self._fit(X, sample_weight)

    def fit_predict(self, X: Rows, y: Ignored = None, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Fit, and return the component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus, list of Corpus, RowFiles, or Dask \
                collection
            Rows as in `fit`.
        y : Ignored
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        labels : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            As in `fit`, or if callbacks hold out rows of an X that is not in memory.
        """
        check_labels_of_all(self, X)
        return labels_of_all(self.fit(X, sample_weight=sample_weight), X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Update the fit with a minibatch of rows.

        The labels of minibatch t, which has n rows, are drawn given the current parameters and have the statistics
        T_batch. The statistics become ``(1 - rate) T + rate (total_samples / n) T_batch`` with ``rate =
        (learning_offset + t) ** -learning_decay``. Their initial value comes from `n_first_sweeps` passes of ESCA over
        the first minibatch, which should contain rows of every component. Hyperparameters that depend on the data and
        the categories of codes are also set by the first minibatch. After `fit`, the statistics continue from the
        fitted ones, scaled to `total_samples`.

        The method exists only if the sampler supports minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : ExponentialFamilyMixture

        Raises
        ------
        ValueError
            As in `fit`, or if the number of columns, `n_components`, the emission or the sampler has changed since the
            first call.
        IncompatibleError
            If the sampler needs something that this model does not provide.
        """
        return self._partial_fit(X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        strategy = StoredRowsFit if is_elsewhere(X) else RowsFit
        return strategy(self, X, self._resolve_emission(), run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        emission = self._resolve_emission()
        if not batch.is_first:
            self._check_unchanged(emission)
        return RowsStream(self, X, emission, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        super()._check_continues(sampler)
        self._check_number(self._family.n_components, "components")
