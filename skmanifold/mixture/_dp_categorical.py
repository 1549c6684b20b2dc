"""Dirichlet-process mixture of counts or categorical tables: a preset of `DPMixture`."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from ..emissions import BaseEmission, Categorical, LinearRows, Multinomial
from ..emissions._abilities import LearnsPrior
from ..emissions._estimator import in_words
from ..emissions._family import Family
from ..emissions._multinomial import MultinomialFamily
from ..emissions._protocols import DirichletFamily, RowEmission, TokenEmission
from ..models import IncompatibleError
from ..sparse.counts import Counts, as_counts, counts_to_fit, no_rows, validate_counts
from ..utils._conditions import MOST_COUNTED
from ..utils._inputs.tables import is_sparse
from ..utils._sklearn import Interval, StrOptions
from ..utils._typing import ArrayLike, MatrixLike
from ._dirichlet_process.estimator import DPMixture
from ._dirichlet_process.model import Start, initial_labels

_OTHERS = "emission", "hyperparameters"  # parameters of `DPMixture` whose constraints do not hold here
_DEFAULT_PRIOR = 0.5
_HIGHEST_CODE = 30  # dense counts with a larger value do not look like codes
_MAX_DISPERSION = 0.95  # median variance-to-mean ratio of codes; that of counts is at least about 1
_MIN_SHARE, _MIN_ROWS = 0.05, 3  # of the rows with the highest code, in at least half of the columns
_HIGHEST_FREQUENT = 12  # a larger maximum that is frequent is probably a saturated value, as of pixels
_FRACTION_ADVICE = "pass whole counts, or use ExponentialFamilyMixture, which takes fractions as weights"
_CODES_WARNING = (
    "Each column of X holds a few small whole numbers, as codes of categories do, but emission='multinomial' takes "
    "counts: use emission='categorical' for codes, or pass counts as a sparse matrix to silence this."
)


@dataclass(eq=False, repr=False)
class DPCategoricalMixture(DPMixture):
    r"""Dirichlet-process mixture of counts or categorical tables, which infers the number of components.

    Each row belongs to one of infinitely many components, of which finitely many have rows:

    .. math::

        \omega_j = v_j \prod_{l<j} (1 - v_l), \; v_j \sim \mathrm{Beta}(1, \alpha), \quad
        \theta_{jc} \sim \mathrm{Dir}(a, \dots, a), \quad z_i \sim \omega, \quad
        x_{ic} \sim \mathrm{Multi}(n_{ic}, \theta_{z_i c}),

    where c is a column of a categorical table, with one token per row. Counts are treated as a single column.

    Parameters
    ----------
    emission : {"multinomial", "categorical"} or BaseEmission instance, default="multinomial"
        What X holds. "multinomial": counts of things in each row (visits of pages, words), dense or sparse.
        "categorical": a category's code in each cell, whole numbers from 0, NaN where it is missing; names go through
        scikit-learn's ``OrdinalEncoder`` first. Missing cells are integrated out. An instance,
        :class:`~skmanifold.emissions.Multinomial`, :class:`~skmanifold.emissions.Categorical` or a user-defined one
        with a :class:`~skmanifold.emissions.DirichletFamily`, has its own `category_prior`. One of `Categorical` may
        also have `min_categories` and `handle_unknown`.
    sampler : str or BaseSampler instance, default="slice"
        Sampler of the posterior:

        - ``"slice"`` (:class:`~skmanifold.samplers.Slice`): exact slice sampler with minibatches and split-merge moves.
        - ``"scir"`` (:class:`~skmanifold.samplers.SCIR`): the stochastic slice sampler of [1]_. Sticks and components
          are updated by Cox-Ingersoll-Ross steps with scaled counts of a minibatch. It supports `partial_fit`.
        - ``"sgrld"``, ``"sgrhmc"`` (:class:`~skmanifold.samplers.SGRLD`, :class:`~skmanifold.samplers.SGRHMC`): the
          same with Riemannian steps. They are biased if `category_prior` is small, and are offered for comparison. In
          simulations of tiny tables their concentrations are too large and co-clustering too small: 90% intervals
          contain the true value in 23 to 82% of the cases, those of "scir" in 81 to 89%.

        Names use the step sizes of [1]_, table 3.
    weights_sampler : str, BaseSampler instance or None, default=None
        Sampler of the sticks, for samplers other than ``"slice"``. None uses the same sampler as `sampler`.
    concentration : float or None, default=None
        Concentration :math:`\alpha`, at most 1e6. Larger values give more components, and from some thousands on
        passes take a time proportional to it. None learns it.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of the concentration, if it is learned. The mean, shape / rate, is at most
        1e6.
    category_prior : float or None, default=0.5
        Dirichlet parameter a of the category probabilities of each component. None, with ``emission="categorical"`` and
        the sampler ``"slice"``: unknown, see :class:`~skmanifold.emissions.Categorical`; chains start from its median.
    init : {"auto"}, int or array-like of shape (n_samples,), default="auto"
        Number of random initial clusters, or initial labels. "auto" is 100, or the number of rows if that is smaller:
        starting from too many clusters distinguishes more components than starting from too few.
    clusters : {"merged", "components"} or int, default="components"
        As in :class:`DPMixture`. The default is another: groups of counts and codes in few columns may overlap without
        a valley, and would be merged.
    min_categories : int, array-like of shape (n_features,) or None, default=None
        Categorical tables: minimum number of categories of each column, for categories that do not occur in `fit`.
    handle_unknown : {"error", "ignore"}, default="error"
        Categorical tables: how to handle a code that exceeds the fitted categories. "ignore" treats it as missing.
    max_iter : int, default=200
        Number of passes over the rows, including burn-in.
    batch_size : int, "auto" or None, default="auto"
        Rows of a minibatch, after which components and weights are redrawn; None uses all. "auto" is as in
        :class:`DPMixture`.
    burn_in : int, default=None
        Number of discarded initial passes; None discards half of them.
    thin : int, default=2
        After burn-in, every `thin`-th pass is kept in ``posterior_``; for a stream, every `thin`-th minibatch.
    n_chains : int, default=1
        Number of independent chains; the draws of all chains are used.
    outliers : bool, default=False
        Whether rows may be outliers, which are in no component: a row is one with an unknown probability, with a
        Beta(1, 19) prior, and has the distribution of a row of a new component. Needs the sampler ``"slice"``. `sample`
        draws no outliers.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t has weight ``(learning_offset + t) ** -learning_decay`` in the statistics.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Approximate memory limit for draws of labels and components. Beyond it, fewer complete draws are kept, evenly
        spaced, but at least one for each chain.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bitwise the same for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. Chains run in parallel first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters of the fitted rows, by default their components, the largest first. Not set by `partial_fit`. With
        ``outliers=True`` rows that are outliers in more than half of the draws have label -1.
    component_labels_ : ndarray of shape (n_samples,)
        Components of the fitted rows, the point partition: that of the smallest expected variation of information to
        the draws [3]_ found with at most the median number of components of the draws. Not set by `partial_fit`.
    component_clusters_ : ndarray of int
        The cluster of each component of the point partition.
    n_components_ : int
        Number of clusters, which may be smaller than the posterior mode of the number, see :class:`DPMixture`. After
        `partial_fit`, the number of components with an expected size of at least half a row.
    outlier_weight_ : float
        With ``outliers=True``: posterior mean of the probability that a row is an outlier; ``posterior_`` has the draws
        as ``"outlier_weight"``.
    weights_ : ndarray of shape (n_components_,)
        Weights of the clusters, ``sizes / (n_samples + concentration_)``. They sum to less than 1. The rest is the
        weight of components without fitted rows.
    components_ : ndarray of shape (n_components_, n_features) or list of ndarray
        Posterior means of the category probabilities of each cluster, given the point partition. For categorical
        tables, an array of shape (n_components_, n_categories) for each column.
    typical_rows_ : ndarray of shape (n_components_,)
        Indices of fitted rows: of the largest component of each cluster, the row with the highest density in it. Not
        set by `partial_fit`.
    concentration_ : float
        Posterior mean of the concentration, or the given value.
    n_components_posterior_ : ndarray
        Posterior probabilities of 0, 1, 2, ... clusters with rows, the shares of the draws. Those of components
        overestimate a finite number, see Notes.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        As in :class:`DPMixture`: ``"log_joint"``, ``"n_components"``, ``"concentration"``, ``"weights"``,
        ``"components"`` with the categories of all columns concatenated, ``"labels"`` and ``"component_clusters"``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log joint density of every pass. It becomes flat in any mode; compare fits by `score` on held-out rows. Not
        set by `partial_fit`.
    n_categories_ : ndarray of shape (n_features,)
        Categorical tables: number of categories of each column.
    emission_ : BaseEmission
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches passed to `partial_fit` since the last `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    ExponentialFamilyMixture : Mixture with a given number of components; its score of counts has the same convention.
    sklearn.mixture.BayesianGaussianMixture : Truncated variational mixture of Gaussians.

    Notes
    -----
    The number of components is overestimated as in :class:`DPMixture` [4]_. Evaluate a fit by `score` on held-out rows.

    Densities are those of the cells or tokens of a row in their order. As in all scores of the library, multinomial
    coefficients are left out.

    `fit` and `partial_fit` randomly round fractional counts to whole numbers, up with a probability equal to the
    fraction. The random numbers depend only on the seed, the row and the column. A warning is given if this changes the
    sum of the counts by more than 5%. All other methods use fractional counts as weights. With "multinomial", `fit`
    also warns if a dense X may contain codes of categories: if each column has a few small whole numbers, not only 0
    and 1, which vary less than counts or are often equal to the largest.

    References
    ----------
    .. [1] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth, "Large-scale stochastic sampling from the probability
       simplex", NeurIPS 2018, section 5.2 and appendix D.
    .. [2] D. B. Dunson and C. Xing, "Nonparametric Bayes modeling of multivariate categorical data", Journal of the
       American Statistical Association 104, 2009.
    .. [3] S. Wade and Z. Ghahramani, "Bayesian cluster analysis: point estimation and credible balls", Bayesian
       Analysis 13, 2018.
    .. [4] J. W. Miller and M. T. Harrison, "A simple example of Dirichlet process mixture inconsistency for the number
       of components", NeurIPS 2013.

    Examples
    --------
    >>> from skmanifold import DPCategoricalMixture
    >>> from skmanifold.datasets import make_categorical_mixture
    >>> X = make_categorical_mixture(500, 10, 3, weights=[0.5, 0.3, 0.2], random_state=0).data
    >>> mixture = DPCategoricalMixture("categorical", random_state=0).fit(X)
    >>> mixture.n_components_
    3
    >>> mixture.predict(X[:5]).shape
    (5,)

    `transform` returns the membership probabilities, for the next step of a pipeline:

    >>> mixture.set_output(transform="pandas").transform(X[:5]).columns.tolist()
    ['dpcategoricalmixture0', 'dpcategoricalmixture1', 'dpcategoricalmixture2']
    """

    _emissions: ClassVar[dict[str, type[BaseEmission]]] = {"multinomial": Multinomial, "categorical": Categorical}
    hyperparameters: ClassVar[Literal["draw", "learn"]] = "draw"  # type: ignore[misc]
    _families: ClassVar[dict[str, type]] = {"multinomial": MultinomialFamily, "categorical": MultinomialFamily}
    _parameter_constraints = {  # noqa: RUF012
        **{name: each for name, each in DPMixture._parameter_constraints.items() if name not in _OTHERS},
        "category_prior": [None, Interval(Real, 0, MOST_COUNTED, closed="right")],
        "min_categories": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
    }

    emission: str | BaseEmission = "multinomial"
    _: KW_ONLY
    clusters: Literal["merged", "components"] | int = "components"
    category_prior: float | None = _DEFAULT_PRIOR
    min_categories: int | ArrayLike | None = None
    handle_unknown: Literal["error", "ignore"] = "error"

    # The emission

    def _named_block(self, block: str, name: str) -> Any:
        named = super()._named_block(block, name)
        if block != "emission":
            return named
        if self.category_prior is None and not named.has_codes:
            raise ValueError("category_prior=None needs emission='categorical': counts have a given one.")
        return named.set_params(category_prior=None if self.category_prior is None else float(self.category_prior))

    @property
    def _emission_kind(self) -> type[BaseEmission]:
        return Categorical if super()._emission_kind.has_codes else Multinomial

    def _resolve_emission(self) -> Any:
        """A new emission; one that is given by name has the `category_prior` of the estimator."""
        if not isinstance(self.emission, str) and self.category_prior != _DEFAULT_PRIOR:
            raise ValueError(
                f"category_prior={self.category_prior} is for an emission given by name, not for {self.emission!r}, "
                "which has a category_prior of its own."
            )
        return super()._resolve_emission()

    @property
    def _fitted_emission(self) -> BaseEmission:
        return Categorical() if self.emission_.has_codes else Multinomial()

    @property
    def _emission_protocol(self) -> type:  # type: ignore[override]
        return RowEmission if self._emission_kind is Categorical else TokenEmission

    def _of_codes(self, emission: Any) -> Categorical:
        """The emission of codes, with the settings of the estimator and of its emission."""
        own, given = self.min_categories, getattr(emission, "min_categories", None)
        if own is not None and given is not None:
            raise ValueError(
                f"Both {type(self).__name__} and its emission {emission!r} have min_categories: set only one of them."
            )
        ignores = "ignore" in (self.handle_unknown, getattr(emission, "handle_unknown", "error"))
        least = given if own is None else own
        return Categorical(emission.category_prior, least, "ignore" if ignores else "error")

    def _of_counts(self, emission: Any, tokens: Counts) -> Multinomial:
        """The emission of counts, with one Dirichlet parameter for all categories."""
        name, whom = type(emission).__name__, type(self).__name__
        if emission.has_vector_tokens:  # its bind_tokens would require vectors, which is not the reason
            raise IncompatibleError(
                f"{whom} needs {in_words(['token_prior'])}, which the emission {name} does not offer ('multinomial', "
                "'categorical' do)."
            )
        family = emission.bind_tokens(tokens, 1)
        self._check_offers(emission, family, [DirichletFamily], whom)
        priors = np.unique(family.token_prior)
        if len(priors) > 1:
            raise ValueError(
                f"{whom} needs one Dirichlet parameter for all categories; the emission {name} has several."
            )
        return Multinomial(float(priors[0]))

    # Rows

    def _read_rows(self, emission: Any, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Any:
        if emission.has_codes:
            return self._of_codes(emission).read(self, X, reset=reset)
        return LinearRows(*_read_counts(self, emission, X, key, reset=reset), None)

    def _bound(self, emission: Any, rows: Any) -> Any:
        whole = self._of_codes(emission) if emission.has_codes else self._of_counts(emission, Counts(*rows[:4]))
        return whole.bind(rows, 1)

    def _started(
        self, emissions: list[Any], rows: Any, family: Any, clusters: Family, key: np.uint64
    ) -> tuple[Any, Any, Family, Start]:
        emission = emissions[0]
        if isinstance(emission, LearnsPrior) and (free := emission.free_hyperparameters()):
            family, clusters = family.with_hyperprior(free, clusters), clusters.with_hyperprior(free, clusters)
        return emission, family, clusters, initial_labels(self.init, clusters.n_rows)

    def _prior_parts(self, n_features: int | None, n_tokens: int | None) -> tuple[Any, Any]:
        if n_features is None:
            emission: Any = self._fitted_emission
        else:
            given = self._resolve_emission()
            emission = self._of_codes(given) if given.has_codes else self._of_counts(given, no_rows(n_features))
        return emission, self._prior_family(emission, n_features, n_tokens)


def _read_counts(
    mixture: DPCategoricalMixture, emission: BaseEmission, X: MatrixLike, key: np.uint64 | None, *, reset: bool
) -> Counts:
    """Validate counts, with `read_tokens` of a custom emission; a key, as in `fit`, rounds fractions at random."""
    if type(emission).read_tokens is not BaseEmission.read_tokens:
        return emission.read_tokens(mixture, X, key, reset=reset)
    csr = validate_counts(mixture, X, reset=reset)
    if key is None:
        return as_counts(csr)
    counts = counts_to_fit(csr, key, _FRACTION_ADVICE, stacklevel=8)
    if reset and not is_sparse(X) and _look_like_codes(csr):
        warnings.warn(_CODES_WARNING, stacklevel=8)
    return counts


def _look_like_codes(csr: sp.csr_array) -> bool:
    """Whether dense counts are probably category codes, judged by the columns with values above 1.

    The variance of codes of few categories is smaller than their mean, and their highest value is frequent. That of
    counts of events is at least about the mean, unless the row sums are fixed.
    """
    n_rows, n_columns = csr.shape
    highest = csr.max(axis=0).toarray().ravel()  # with two axes before SciPy 1.15
    several = highest >= 2
    if not several.any() or highest.max() > _HIGHEST_CODE or (csr.data % 1).any():
        return False
    means = np.asarray(csr.mean(axis=0))
    variances = np.asarray(csr.multiply(csr).mean(axis=0)) - means**2
    if csr.sum(axis=1).var() < 0.5 * variances.sum():
        return False
    dispersion = np.median(variances[several] / means[several])
    if dispersion < min(_MAX_DISPERSION, 1.0 - 4.0 * math.sqrt(2.0 / (n_rows * several.sum()))):
        return True
    at_highest = np.bincount(csr.indices, weights=csr.data == highest[csr.indices], minlength=n_columns)
    is_frequent = at_highest[several] >= max(_MIN_ROWS, _MIN_SHARE * n_rows)
    return bool(is_frequent.mean() >= 0.5 and highest.max() <= _HIGHEST_FREQUENT)
