"""Dirichlet-process mixture of counts or of categorical tables, with pluggable samplers."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import DensityMixin

from ...base import BaseSampledEstimator, all_or_nothing, takes_minibatches
from ...callbacks._hooks import rows_to_fit
from ...emissions import BaseEmission
from ...inference._schedule import Schedule
from ...models import IncompatibleError, check_compatible
from ...random._keys import Purpose, root_key, subkey
from ...samplers import SCIR, SGRHMC, SGRLD, BaseSampler, ManifoldSampler, Slice
from ...samplers._resolve import resolve_sampler
from ...sparse.counts import Counts
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .category_table import Table
from .conditions import fitted_mixture
from .encoding import category_table, count_table, fit_categories, validate_codes
from .inference import MixtureInference
from .model import DPModel
from .point_estimate import estimate_mixture, point_estimate, record_mixture, summarise
from .setup import build_model, draw_store, initial_labels
from .stochastic_slice import StochasticSlice
from .stream import MixtureStream


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
    emission : {"multinomial", "categorical"} or BaseEmission instance, default="multinomial"
        What X holds. "multinomial": counts of things in each row (visits of pages, words), dense or sparse.
        "categorical": a category's code in each cell, whole numbers from 0, NaN where it is missing; names go through
        scikit-learn's ``OrdinalEncoder`` first. Missing cells are integrated out. An instance,
        :class:`~skmanifold.emissions.Multinomial`, :class:`~skmanifold.emissions.Categorical` or a user-defined one
        with a :class:`~skmanifold.emissions.DirichletFamily`, has the prior in place of `category_prior`.
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
        Dirichlet parameter a of the components' category probabilities, where `emission` is a name.
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
    emission_ : BaseEmission
        The emission that was used, where it was given as an instance.
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

    _samplers = {sampler.short_name: sampler for sampler in (Slice, SCIR, SGRLD, SGRHMC)}  # noqa: RUF012
    _settings = {  # of table 3 of [1]  # noqa: RUF012
        "scir": {"step_size": 0.1},
        "sgrld": {"step_size": 0.001},
        "sgrhmc": {"step_size": 0.02},
    }
    _parameter_constraints: dict = {  # noqa: RUF012
        "emission": [StrOptions({"multinomial", "categorical"}), HasMethods(["get_params", "set_params"])],
        "sampler": [StrOptions(set(_samplers)), HasMethods(["init", "step"])],
        "weights_sampler": [None, StrOptions(set(_samplers) - {"slice"}), HasMethods(["init", "step"])],
        "concentration": [None, Interval(Real, 0, None, closed="neither")],
        "concentration_prior": ["array-like"],
        "category_prior": [Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), "array-like"],
        "min_categories": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "handle_unknown": [StrOptions({"error", "ignore"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "total_samples": [Interval(Integral, 1, None, closed="left")],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 0, None, closed="left")],
        "max_draws_bytes": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    labels_: np.ndarray
    concentration_: float
    n_categories_: np.ndarray
    n_batch_iter_: int

    def __init__(
        self,
        emission: str | BaseEmission = "multinomial",
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
        with all_or_nothing(self):
            return self._fit(*rows_to_fit(self, X))

    def _fit(self, X):
        sampler, mover = self._resolve_movers()
        schedule = Schedule.from_params(self.max_iter, self.burn_in, self.thin)
        key = root_key(self.random_state)
        table = self._fitted_table(X, subkey(key, Purpose.ROUNDING), begins=True)
        init = initial_labels(self.init, table.n_rows)
        common = {**self._inference(key, table, X), "sampler_": sampler}
        stride = max(1, -(-schedule.n_draws // max(1, draw_store(self, table).max_draws)))
        with self._open_workers() as (chain_workers, kernel_workers):
            model = build_model(self, table, init, kernel_workers)
            if mover is sampler:  # others are asked what they need of sticks and components when they begin
                check_compatible(sampler, model, self._samplers.values())
            fitted = self._run_chains(
                mover,
                model,
                key,
                schedule,
                X,
                table.n_rows,
                add=lambda left, right: right,
                record=lambda chain: record_mixture(chain, stride),
                adapt=lambda model, state: model,
                estimate=lambda chains: {**estimate_mixture(chains), **common},
                workers=chain_workers,
            )
            fitted.update(point_estimate(fitted, model, kernel_workers))
        self.__dict__.pop("n_categories_", None)
        self.__dict__.update(fitted)
        return self

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
        with all_or_nothing(self):
            return self._partial_fit(X)

    def _partial_fit(self, X):
        begins = not self.__sklearn_is_fitted__()
        sampler, mover = self._resolve_movers()
        if not begins and type(sampler) is not type(self.sampler_):
            was = type(self.sampler_).__name__
            raise ValueError(f"{type(sampler).__name__} cannot go on where {was} stopped: call fit.")
        if not begins and self._emission_name != self._emission:
            raise ValueError(f"emission={self.emission!r} cannot follow {self._emission!r}: call fit.")
        key = root_key(self.random_state) if begins else self._key
        t = 0 if begins else self.n_batch_iter_
        table = self._fitted_table(X, subkey(key, Purpose.ROUNDING, t + 1), begins=begins)
        scale = self.total_samples / table.n_rows
        rate = min(1.0, float(self.learning_offset + t + 1) ** -self.learning_decay)
        with self._open_workers() as (chain_workers, kernel_workers):
            init = initial_labels(self.init, table.n_rows) if begins else 1
            model = build_model(self, table, init, kernel_workers)
            if not isinstance(mover, StochasticSlice):
                check_compatible(mover, model, self._samplers.values())
                raise IncompatibleError(f"{type(mover).__name__} needs all rows at once: partial_fit has minibatches.")
            if begins:
                store = draw_store(self, table)
                stream = MixtureStream.begin(mover, model, key, self.n_chains, scale, store, chain_workers)
            else:
                stream = self._stream or self._leave_rows(mover, model)
                stream = stream.advanced(mover, model, rate, scale, chain_workers)
        for name in ("labels_", "log_density_trace_", "n_iter_", "_posterior", "_draws", "_states"):
            self.__dict__.pop(name, None)
        self.__dict__.update(self._inference(key, table, X) if begins else {"_category_prior": model.category_prior})
        summary = stream.summary()
        self.__dict__.update(_stream=stream, sampler_=sampler, n_batch_iter_=t + 1, **summarise(summary))
        return self

    def _leave_rows(self, mover: StochasticSlice, model: DPModel) -> MixtureStream:
        """The chains of a fit as those of a stream, of which the fitted rows were the first part."""
        states = [mover.leave_rows(model, state, self.total_samples / len(self.labels_)) for state in self._states]
        return MixtureStream(states, draw_store(self, model.table))

    def _resolve_movers(self) -> tuple[BaseSampler, BaseSampler]:
        """The sampler, and what drives it through passes."""
        sampler = self._resolve_sampler()
        if not isinstance(sampler, ManifoldSampler):
            if self.weights_sampler is not None:
                raise ValueError(
                    f"{type(sampler).__name__} draws the weights itself: weights_sampler must be None, not "
                    f"{self.weights_sampler!r}."
                )
            return sampler, sampler
        weights = self.weights_sampler
        if weights is None:
            weights = self.sampler if isinstance(self.sampler, str) else sampler
        known = {**self._by_name(), "sgrld": partial(SGRLD, step_size=0.005)}  # as in table 3
        if isinstance(sampler, (SGRLD, SGRHMC)) and self._prior_is_low():
            warnings.warn(
                f"{type(sampler).__name__} does not draw from the posterior where category_prior is below 1/2: rare "
                "categories become too probable; 'slice' and 'scir' have no such limit.",
                stacklevel=5,
            )
        return sampler, StochasticSlice(sampler, resolve_sampler(weights, known, f" of weights{self._error_context}"))

    def _fitted_table(self, X, rounding_key: np.uint64, *, begins: bool) -> Table:
        """The rows to learn from; the first ones say which categories there are."""
        emission = self._resolve_emission()
        if not emission.has_codes:
            return count_table(self, emission, X, rounding_key, reset=begins)
        codes = validate_codes(self, X, reset=begins)
        start = fit_categories(self, codes, self.min_categories) if begins else self._column_start
        return category_table(self, codes, start, handle_unknown=self.handle_unknown)

    def _inference(self, key: np.uint64, table: Table, X) -> dict[str, Any]:
        """What inference needs of the data."""
        fitted = {"_key": key, "_emission": self._emission_name, "_category_prior": self._prior_of_categories(table)}
        self.__dict__.pop("emission_", None)
        if not isinstance(self.emission, str):
            fitted["emission_"] = self._resolve_emission()
        fitted["_column_start"] = table.column_start
        if self._emission_name == "multinomial":
            tokens = Counts(*table[:3], table.n_categories).token_start()
            return {**fitted, "_row_totals": np.diff(tokens), "_fitted_on_sparse": sp.issparse(X)}
        return {**fitted, "n_categories_": np.diff(table.column_start)}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_summary")
