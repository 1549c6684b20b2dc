"""Dirichlet-process mixture of counts or of categorical tables, with pluggable samplers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Literal, Self

import numpy as np
from sklearn.base import DensityMixin

from ...base import BaseSampledEstimator, FitStrategy, Minibatch, Run, StreamStrategy, takes_minibatches
from ...callbacks._hooks import labels_of_all
from ...samplers import SCIR, SGRHMC, SGRLD, BaseSampler, Slice
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .conditions import fitted_mixture
from .fit_strategies import fit_strategy, stream_strategy
from .inference import MixtureInference


@fitted_mixture
class DPCategoricalMixture(MixtureInference, DensityMixin, BaseSampledEstimator):
    r"""Dirichlet-process mixture of counts or of categorical tables: it finds the number of components itself.

    Each row belongs to one of infinitely many components, of which the data use as many as they need:

    .. math::

        \omega_j = v_j \prod_{l<j} (1 - v_l), \; v_j \sim \mathrm{Beta}(1, \alpha), \quad
        \theta_{jc} \sim \mathrm{Dir}(a, \dots, a), \quad z_i \sim \omega, \quad
        x_{ic} \sim \mathrm{Multi}(n_{ic}, \theta_{z_i c}),

    where c runs over the columns of a table, each with one token a row, or is one for counts.

    Parameters
    ----------
    emission : {"multinomial", "categorical"}, default="multinomial"
        What X holds. "multinomial": counts of things in each row (visits of pages, words), dense or sparse.
        "categorical": a category's code in each cell, whole numbers from 0, NaN where it is missing; names go through
        scikit-learn's ``OrdinalEncoder`` first. Missing cells are integrated out.
    sampler : str or BaseSampler instance, default="slice"
        How the components are found:

        - ``"slice"`` (:class:`~skmanifold.samplers.Slice`): exact, by minibatches, with split-merge moves.
        - ``"scir"`` (:class:`~skmanifold.samplers.SCIR`): the stochastic slice sampler of [1]_, sticks and
          components by Cox-Ingersoll-Ross steps towards scaled counts of a minibatch; also for streams.
        - ``"sgrld"``, ``"sgrhmc"`` (:class:`~skmanifold.samplers.SGRLD`, :class:`~skmanifold.samplers.SGRHMC`): the
          same by Riemannian steps, which are wrong where `category_prior` is small; for comparison.

        A name stands for the step sizes of [1]_, table 3, where it has any.
    weights_sampler : str, BaseSampler instance or None, default=None
        Moves the sticks, where `sampler` does not draw them itself. None is a sampler like `sampler`.
    concentration : float or None, default=None
        Concentration :math:`\alpha`: the larger, the more components. None learns it.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of a concentration that is learned.
    category_prior : float, default=0.5
        Dirichlet parameter a of the components' category probabilities.
    init : {"auto"}, int or array-like of shape (n_samples,), default="auto"
        Number of clusters that the rows are first dealt out to at random, or labels to begin with. "auto" is 100 (fewer
        rows: their number): from too many clusters more kinds of rows are told apart than from too few.
    min_categories : int, array-like of shape (n_features,) or None, default=None
        Categorical tables: least number of categories of each column, where there may be more than the rows show.
    handle_unknown : {"error", "ignore"}, default="error"
        Categorical tables: what happens to a code that `fit` has not seen. "ignore" takes it as missing.
    max_iter : int, default=200
        Passes over the rows, burn-in included.
    batch_size : int, "auto" or None, default="auto"
        Rows of a minibatch, after which components and weights are drawn anew. "auto" has so many rows that drawing
        components takes a fifth of the time. None is all rows. It decides nothing about what `Slice` converges to.
    burn_in : int, default=None
        Passes thrown away; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``; of a stream, every `thin`-th minibatch.
    n_chains : int, default=1
        Independent chains; the draws of all are used.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t has weight ``(learning_offset + t) ** -learning_decay`` in the statistics.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        About how much memory draws of labels and components may take; where they would need more, fewer are kept whole,
        evenly spaced, but at least one of each chain.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The point partition: of the partitions with no more components than the median of the draws, the one (as far
        as the search finds) with the least expected variation of information to the draws [3]_. Without that limit a
        row that no other row is with in half of the draws would be a component by itself. Components are numbered from
        the largest. Not set by `partial_fit`.
    n_components_ : int
        Number of components of the point partition, at most the median of the draws; ``n_components_posterior_`` shows
        how certain it is. Of a stream, the components expected to have at least half a row.
    weights_ : ndarray of shape (n_components_,)
        Shares of the components, ``sizes / (n_samples + concentration_)``. They sum to less than 1: the rest is for
        components that no fitted row has.
    components_ : ndarray of shape (n_components_, n_features) or list of ndarray
        Posterior means of the category probabilities given the point partition; for categorical tables an array
        (n_components_, n_categories) for each column.
    concentration_ : float
        Posterior mean of the concentration, or as given.
    n_components_posterior_ : ndarray
        Posterior probabilities of 0, 1, 2, ... components with rows; an overestimate of a finite number, see the notes.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_joint"``, log p(X, partition | concentration); ``"n_components"``;
        ``"concentration"``; and for as many as `max_draws_bytes` allows ``"weights"`` and ``"components"`` (padded
        with NaN, that with most rows first; categories of all columns side by side) and ``"labels"``, whose numbers
        mean nothing from one draw to the next.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log joint of every pass. Flat it is in every mode, and it may be higher in a worse one: `score` on rows
        held out tells more. Not set by `partial_fit`.
    n_categories_ : ndarray of shape (n_features,)
        Categorical tables: number of categories of each column.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the rows; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    ExponentialFamilyMixture : A given number of components; its score of counts has the same convention.
    sklearn.mixture.BayesianGaussianMixture : Variational mixture of Gaussians, truncated.

    Notes
    -----
    If the rows come from a finite mixture, the number of its components is overestimated: with a fixed concentration
    the posterior does not concentrate at the true number however many rows there are [4]_. Superfluous components are
    small. Judge a fit by `score` on held-out rows.

    Densities are of the rows' cells or tokens in their order: multinomial coefficients are left out, as in all scores
    of the library.
    To be fitted, fractional counts are rounded at random, up with the probability of their fraction, from a stream
    keyed by row and column; `fit` warns if this moves more than 5% of their sum. All other methods take them as they
    are: weights. `fit` for "multinomial" also warns if a dense X may be codes of categories: each column holds a few
    small whole numbers, not only 0 and 1, that vary less than counts do or often are the highest.

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

    Membership probabilities are features for the next step of a pipeline:

    >>> mixture.set_output(transform="pandas").transform(X[:5]).columns.tolist()
    ['dpcategoricalmixture0', 'dpcategoricalmixture1', 'dpcategoricalmixture2']
    """

    _blocks = ("sampler", "weights_sampler")
    _samplers = {sampler.short_name: sampler for sampler in (Slice, SCIR, SGRLD, SGRHMC)}  # noqa: RUF012
    _settings = {  # of table 3 of [1]  # noqa: RUF012
        "scir": {"step_size": 0.1},
        "sgrld": {"step_size": 0.001},
        "sgrhmc": {"step_size": 0.02},
    }
    _of_some_fits = ("n_categories_",)
    _of_no_stream = (*BaseSampledEstimator._of_no_stream, "labels_", "_draws", "_states")
    _parameter_constraints: dict = {  # noqa: RUF012
        "emission": [StrOptions({"multinomial", "categorical"})],
        "weights_sampler": [None, StrOptions(set(_samplers) - {"slice"}), HasMethods(["init", "step"])],
        "concentration": [None, Interval(Real, 0, None, closed="neither")],
        "concentration_prior": ["array-like"],
        "category_prior": [Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), "array-like"],
        "min_categories": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
        "batch_size": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    labels_: np.ndarray
    concentration_: float
    n_categories_: np.ndarray
    n_batch_iter_: int

    def __init__(
        self,
        emission: Literal["multinomial", "categorical"] = "multinomial",
        *,
        sampler: str | BaseSampler = "slice",
        weights_sampler: str | BaseSampler | None = None,
        concentration: float | None = None,
        concentration_prior: ArrayLike = (1.0, 1.0),
        category_prior: float = 0.5,
        init: Literal["auto"] | int | ArrayLike = "auto",
        min_categories: int | ArrayLike | None = None,
        handle_unknown: Literal["error", "ignore"] = "error",
        max_iter: int = 200,
        batch_size: int | Literal["auto"] | None = "auto",
        burn_in: int | None = None,
        thin: int = 2,
        n_chains: int = 1,
        total_samples: int = 1_000_000,
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_draws_bytes: int = 2**28,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.emission = emission
        self.sampler = sampler
        self.weights_sampler = weights_sampler
        self.concentration = concentration
        self.concentration_prior = concentration_prior
        self.category_prior = category_prior
        self.init = init
        self.min_categories = min_categories
        self.handle_unknown = handle_unknown
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.total_samples = total_samples
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.max_draws_bytes = max_draws_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Find the components of a table.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, or codes of categories.
        y : None
            Ignored.

        Returns
        -------
        self : DPCategoricalMixture

        Warns
        -----
        UserWarning
            If counts have many fractions, or look like codes of categories (see Notes).

        Raises
        ------
        ValueError
            If X has negative or infinite values, codes that are no whole numbers, or a parameter does not fit it.
        IncompatibleError
            If the sampler asks what this model cannot answer.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Learn from one more minibatch of rows, of which nothing but its share in the statistics is kept.

        The first minibatch is fitted by the exact sampler: let it be large enough to show every kind of row. After
        `fit`, the chains continue from their last states. Only samplers that take minibatches have this method.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, or codes of categories: those of the first minibatch, and `min_categories`, say which there are.
        y : None
            Ignored.

        Returns
        -------
        self : DPCategoricalMixture

        Raises
        ------
        ValueError
            As `fit`; or if its width or the sampler is not what it was when fitting began.
        """
        return self._partial_fit(X)

    def fit_predict(self, X: MatrixLike, y: Ignored = None) -> np.ndarray:
        """Fit, and return the point partition.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, or codes of categories.
        y : None
            Ignored.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            ``labels_``.
        """
        return labels_of_all(self.fit(X), X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        return fit_strategy(self, X, run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        return stream_strategy(self, X, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        super()._check_continues(sampler)
        if self.emission != self._emission:
            raise ValueError(f"emission={self.emission!r} cannot follow {self._emission!r}: call fit.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_summary")
