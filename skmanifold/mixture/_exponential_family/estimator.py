"""Mixtures of exponential families, one estimator for all of them."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ...base import BaseSampledEstimator, all_or_nothing, draws_parameters, takes_minibatches
from ...callbacks._hooks import rows_to_fit
from ...emissions import EMISSIONS, BaseEmission
from ...emissions._abilities import HasSeeds, HasShares
from ...emissions._protocols import RowFamily
from ...inference._chains import Chain, best_chain
from ...inference._distributed_fits.open_shards import checkpoints_of
from ...inference._distributed_fits.session import active_session
from ...inference._draw_store import DrawStore
from ...inference._schedule import Schedule
from ...inference._statistics_stream import advance_statistics
from ...models import check_compatible
from ...numerics.block_sums import BlockSums
from ...random._keys import root_key
from ...samplers import EM, ESCA, BaseSampler, Gibbs
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .conditions import fitted_mixture
from .inference import FamilyInference, shares_and_log_density
from .initial_labels import checked_labels, start_labels
from .model import FamilyModel, Position, add_statistics
from .shards import shard_mixture


@fitted_mixture
class ExponentialFamilyMixture(FamilyInference, DensityMixin, BaseSampledEstimator):
    r"""Mixture of an exponential family: Gaussians, latent classes, clusters of documents or of counts.

    .. math:: w \sim \mathrm{Dir}(\alpha), \quad z_i \sim \mathrm{Cat}(w), \quad x_i \mid z_i = k \sim p(x \mid \eta_k),

    with a conjugate prior of the parameters :math:`\eta_k`, which belongs to the emission.

    Parameters
    ----------
    n_components : int, default=1
        Number of components K.
    emission : {"bernoulli", "gaussian", "multinomial", "poisson"} or BaseEmission instance, default="gaussian"
        How rows are distributed given their component, with the prior's hyperparameters:
        :class:`~skmanifold.emissions.Bernoulli`, :class:`~skmanifold.emissions.Gaussian`,
        :class:`~skmanifold.emissions.Multinomial` or :class:`~skmanifold.emissions.Poisson`; or a user-defined
        :class:`~skmanifold.emissions.RowEmission`. A name stands for its defaults.
    sampler : {"esca", "em", "gibbs"} or instance, default="esca"
        How the parameters are found:

        - ``"esca"`` (:class:`~skmanifold.samplers.ESCA`): stochastic EM. A pass draws the components of all rows and
          sets the parameters to their mode; the noise leaves plateaus behind, the average of the last passes is near a
          maximum. Also learns from minibatches.
        - ``"em"`` (:class:`~skmanifold.samplers.EM`): climbs to a mode and stops there.
        - ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`): draws parameters and components from the posterior.
    weight_prior : float, default=None
        Dirichlet parameter :math:`\alpha` of each weight; None is ``1 / n_components``.
    init : {"k-means++", "random"} or array-like of shape (n_samples,), default="k-means++"
        Initial labels. For Gaussian rows, those of k-means, features scaled to equal ranges ([3]_); for others, those
        of seeds that are chosen among the rows as k-means++ does, by likelihood. Or labels at random, from which it
        takes longer; or given labels, whole numbers from 0 to K - 1.
    max_iter : int, default=200
        Passes over the data, burn-in included; the most of them for "em".
    burn_in : int, default=None
        Passes thrown away; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_init : int, default=5
        Initial labels of each chain: after a few passes of stochastic EM from each, the one with the highest log
        likelihood goes on. 1 leaves out these passes. Of no use where `init` gives the labels.
    n_chains : int, default=1
        Independent chains with initial labels of their own. The estimate is that of the chain with the highest mean log
        likelihood after burn-in, for "em" of the highest in the end.
    n_polish : int, default=0
        Passes of EM that the estimate is improved by in the end, which makes a mode of the average that "esca" and
        "gibbs" end with.
    n_predictive_draws : int, default=10
        Samplers that draw the parameters only: draws, evenly spaced, over which `score_samples` averages.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t moves the statistics by ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory that draws of parameters may take; where they would need more, fewer are kept, evenly spaced.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log likelihood every `verbose` passes.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Shares of the components.
    components_ : ndarray of shape (n_components, n_features)
        What a row of each component is expected to be: probabilities of ones, probabilities of words, means or rates.
    covariances_ : ndarray of shape (n_components, n_features, n_features) or (n_components, n_features)
        Gaussian components only: covariances, or variances.
    labels_ : ndarray of shape (n_samples,)
        The likeliest component of each fitted row. Not set by `partial_fit`.
    emission_ : BaseEmission
        The emission, as it was used.
    sampler_ : BaseSampler
        The sampler that ran.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        After burn-in: ``"log_likelihood"`` of the parameters before each pass, ``"weights"``, and ``"components"``, as
        many as `max_draws_bytes` allow. Of "gibbs" these are draws from the posterior, of the others what the passes
        went through. Components may change places from draw to draw.
    best_chain_ : int
        The chain that the estimate comes from.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of every pass, burn-in included. Not set by `partial_fit`.
    converged_ : bool
        "em" only: whether the passes ended because nothing was gained any more.
    n_iter_ : int
        Passes over the data. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPCategoricalMixture : As many components as the rows ask for.
    sklearn.mixture.GaussianMixture : Gaussian mixtures by EM.

    Notes
    -----
    The statistics of ESCA's last passes are averaged (`n_average`), of Gibbs all after burn-in, and the parameters that
    these and the prior make most probable are the estimate. Averages of "gibbs" mean something as long as components
    keep their places in the chain, which they do if they are apart; `score_samples` does not need that.

    A component without rows has the mode of its prior.

    References
    ----------
    .. [1] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [2] G. Celeux and J. Diebolt, "The SEM algorithm: a probabilistic teacher algorithm derived from the EM algorithm
       for the mixture problem", Computational Statistics Quarterly 2, 1985.
    .. [3] G. W. Milligan and M. C. Cooper, "A study of standardization of variables in cluster analysis", Journal of
       Classification 5, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3.0, 1.0, (300, 2)), rng.normal(3.0, 0.5, (100, 2))])
    >>> mixture = ExponentialFamilyMixture(2, random_state=0).fit(X)
    >>> sorted(mixture.weights_.round(2).tolist())
    [0.25, 0.75]
    >>> mixture.transform(X[:5]).shape  # membership probabilities, for the next step of a pipeline
    (5, 2)
    >>> counts = rng.poisson(np.where(rng.random((200, 1)) < 0.5, [[1.0, 9.0]], [[9.0, 1.0]]))
    >>> clusters = ExponentialFamilyMixture(2, emission="poisson", sampler="em", random_state=0).fit(counts)
    >>> bool(clusters.converged_)
    True
    """

    _samplers = {sampler.short_name: sampler for sampler in (ESCA, EM, Gibbs)}  # noqa: RUF012
    _read_by: ClassVar[dict] = {"n_predictive_draws": draws_parameters}
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "emission": [StrOptions(set(EMISSIONS)), HasMethods(["get_params", "set_params"])],
        "sampler": [StrOptions(set(_samplers)), HasMethods(["init", "step"])],
        "weight_prior": [None, Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "n_polish": [Interval(Integral, 0, None, closed="left")],
        "n_predictive_draws": [Interval(Integral, 1, None, closed="left")],
        "total_samples": [Interval(Integral, 1, None, closed="left")],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 0, None, closed="left")],
        "max_draws_bytes": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    labels_: np.ndarray
    best_chain_: int
    converged_: bool
    n_batch_iter_: int
    _sums: BlockSums  # statistics of the estimate
    _n_summed_rows: float  # that they speak for

    def __init__(
        self,
        n_components: int = 1,
        *,
        emission: str | BaseEmission = "gaussian",
        sampler: str | BaseSampler = "esca",
        weight_prior: float | None = None,
        init: Literal["k-means++", "random"] | ArrayLike = "k-means++",
        max_iter: int = 200,
        burn_in: int | None = None,
        thin: int = 2,
        n_init: int = 5,
        n_chains: int = 1,
        n_polish: int = 0,
        n_predictive_draws: int = 10,
        total_samples: int = 1_000_000,
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_draws_bytes: int = 2**28,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.emission = emission
        self.sampler = sampler
        self.weight_prior = weight_prior
        self.init = init
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_init = n_init
        self.n_chains = n_chains
        self.n_polish = n_polish
        self.n_predictive_draws = n_predictive_draws
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
        """Find the components of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as the emission has them: real numbers; zeros and ones; counts. Sparse ones of all but Gaussian rows
            stay sparse. NaN is missing for "bernoulli" and "poisson".
        y : None
            Ignored.

        Returns
        -------
        self : ExponentialFamilyMixture

        Raises
        ------
        ValueError
            If X has values that the emission does not take or fewer rows than components, or a parameter does not fit
            it, or the covariance of a Gaussian component becomes singular.
        IncompatibleError
            If the sampler or a parameter needs what the model or its emission does not offer.

        Warns
        -----
        ConvergenceWarning
            If "em", with a tolerance that is not 0, has not converged after `max_iter` passes.
        """
        with all_or_nothing(self), threadpool_limits(1):  # other numbers of threads round otherwise
            return self._fit(*rows_to_fit(self, X))

    def _fit(self, X):
        sampler, emission = self._resolve_sampler(), self._resolve_emission()
        schedule = Schedule.from_params(self.max_iter, self.burn_in, self.thin)
        key = root_key(self.random_state)
        rows = emission.read(self, X, reset=True)
        family = self._bind(emission, rows)
        # A draw is its parameters and what posterior_ shows of them, about twice the statistics.
        store = DrawStore.within(self.max_draws_bytes, 24 * family.n_cells() * self.n_chains)
        stride = store.stride(schedule.n_draws)
        common = {"_key": key, "_family": family, "emission_": emission, "sampler_": sampler, "n_batch_iter_": 0}
        with self._open_workers() as (chain_workers, kernel_workers):
            here = self._model(rows, family, kernel_workers)
            check_compatible(sampler, here, self._samplers.values())
            model: Any = here
            checkpoints = None
            if active_session():
                model = shard_mixture(here)
                checkpoints = checkpoints_of(self, key, model)
            fitted = self._run_chains(
                sampler,
                model,
                key,
                schedule,
                X,
                rows.n_rows,
                add=add_statistics,
                record=partial(_record, stride=stride),
                adapt=lambda model, state: model,
                estimate=lambda chains: {**self._estimate(chains, here), **common},
                workers=chain_workers,
                checkpoints=checkpoints,
            )
            shares, _ = shares_and_log_density(family, rows, fitted["_position"], kernel_workers)
        self._forget()
        self.__dict__.update(fitted, labels_=shares.argmax(axis=1))
        if checkpoints:
            checkpoints.remove()
        ended = self.n_iter_ == self.max_iter and isinstance(sampler, EM) and sampler.tol > 0.0
        if ended and not self.converged_:
            warnings.warn(
                f"EM stopped after max_iter={self.max_iter} passes, before it converged: raise max_iter, or tol of "
                "skmanifold.samplers.EM.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Learn from one more minibatch of rows.

        Minibatch t of n rows gives statistics T_batch of labels drawn with the parameters as they are; the statistics
        become ``(1 - rate) T + rate (total_samples / n) T_batch`` with ``rate = (learning_offset + t) **
        -learning_decay``. They begin as those of the first minibatch after `n_first_sweeps` passes of ESCA over it: let
        it be large enough to show every component. Hyperparameters that depend on the data are set by it too. After
        `fit`, statistics go on from the fitted ones, scaled to `total_samples`.

        There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.
        y : None
            Ignored.

        Returns
        -------
        self : ExponentialFamilyMixture

        Raises
        ------
        ValueError
            As `fit`; or if its width, `n_components`, the emission or the sampler is not what it was when fitting
            began.
        """
        with all_or_nothing(self), threadpool_limits(1):
            return self._partial_fit(X)

    def _partial_fit(self, X):
        begins = not self.__sklearn_is_fitted__()
        sampler, emission = self._resolve_sampler(), self._resolve_emission()
        if not begins:
            self._check_goes_on(sampler, emission)
        key = root_key(self.random_state) if begins else self._key
        t = 0 if begins else self.n_batch_iter_
        rows = emission.read(self, X, reset=begins)
        family = self._bind(emission, rows) if begins else self._family
        before = None
        if not begins:
            past = self.total_samples / self._n_summed_rows
            before = self._sums.map(lambda array: array * past)
        rate = min(1.0, float(self.learning_offset + t + 1) ** -self.learning_decay)
        with Workers(self.n_jobs) as workers:
            model = self._model(rows, family, workers, begins)
            check_compatible(sampler, model, self._samplers.values())
            state = advance_statistics(sampler, model, before, key, t, rate, self.total_samples)
        self._forget()
        self.__dict__.update(_attributes(family, state.position), _sums=state.statistics, _draws=[], best_chain_=0)
        self._n_summed_rows, self._key, self._family = float(self.total_samples), key, family
        self.emission_, self.sampler_, self.n_batch_iter_ = emission, sampler, t + 1
        return self

    def _bind(self, emission, rows) -> Any:
        if rows.n_rows < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} components need as many rows, but X has n_samples={rows.n_rows}."
            )
        family = emission.bind(rows, self.n_components)
        whom = type(self).__name__
        self._check_family(emission, family, [RowFamily], whom)
        self._check_sampler_and_family(emission, family)
        if self.n_polish:
            self._check_family(emission, family, [HasShares], f"n_polish={self.n_polish}")
        if self.n_components > 1 and isinstance(self.init, str) and self.init != "random":
            self._check_family(emission, family, [HasSeeds], f"init={self.init!r}", "; or set init='random'")
        return family

    def _model(self, rows, family: RowFamily, workers: Workers, begins: bool = True) -> FamilyModel:
        prior = 1.0 / self.n_components if self.weight_prior is None else float(self.weight_prior)
        start: np.ndarray | partial
        n_init = self.n_init if self.n_components > 1 else 1
        init: Any = self.init
        if isinstance(init, str) or not begins:
            start = partial(start_labels, family, rows, init)
        else:
            start = checked_labels(init, rows.n_rows, self.n_components)
        return FamilyModel(rows, 0, prior, family, start, workers, n_init)

    def _check_goes_on(self, sampler, emission) -> None:
        if type(sampler) is not type(self.sampler_):
            was = type(self.sampler_).__name__
            raise ValueError(f"{type(sampler).__name__} cannot go on where {was} stopped: call fit.")
        if type(emission) is not type(self.emission_):
            was = type(self.emission_).__name__
            raise ValueError(f"emission {type(emission).__name__} cannot follow {was}: call fit.")
        if self.n_components != self._family.n_components:
            K = self._family.n_components
            raise ValueError(f"n_components={self.n_components} cannot follow {K} components: call fit.")

    def _estimate(self, chains: list[Chain], model: FamilyModel) -> dict[str, Any]:
        """What inference needs, from wherever the chains stand."""
        sampler = chains[0].sampler
        best = best_chain(chains)
        if isinstance(sampler, EM):
            best = max(range(len(chains)), key=lambda chain: chains[chain].log_density[-1])
        total, n_passes = chains[best].estimate()
        sums = total.map(lambda array: array / n_passes)
        position = model.mode(sums)
        for _ in range(self.n_polish):
            sums, _ = model.expect_latents(position)
            position = model.mode(sums)
        fitted = {**_attributes(model.family, position), "best_chain_": best, "_sums": BlockSums.whole(sums.total())}
        if isinstance(sampler, EM):
            fitted["converged_"] = sampler.has_converged(chains[best].state)
        kept = [draw["_position"] for draw in chains[best].draws if "_position" in draw]
        draws = kept if sampler.draws_parameters else []
        return {**fitted, "_draws": draws, "_n_summed_rows": float(model.n_rows)}

    def _forget(self) -> None:
        """Attributes that not every fit sets."""
        for name in ("_posterior", "log_density_trace_", "n_iter_", "labels_", "converged_", "covariances_"):
            self.__dict__.pop(name, None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_position")


def _attributes(family: RowFamily, position: Position) -> dict[str, Any]:
    return {"_position": position, "weights_": position.weights, **family.attributes(position.parameters)}


def _record(chain: Chain, stride: int) -> dict[str, Any]:
    """A draw: the weights and, every `stride`-th time counted from the last, the components."""
    position = chain.sampler.parameters(chain.model, chain.state)
    draw = {"weights": position.weights}
    if chain.is_whole_draw(stride):
        draw["components"] = chain.model.family.attributes(position.parameters)["components_"]
        draw["_position"] = position
    return draw
