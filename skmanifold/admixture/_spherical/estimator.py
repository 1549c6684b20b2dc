"""Spherical admixture model with a choice of samplers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ...base import BaseSampledEstimator, all_or_nothing, draws_parameters, takes_minibatches
from ...callbacks._hooks import rows_to_fit
from ...inference._draw_store import DrawStore
from ...inference._schedule import Schedule
from ...inference._temperature import warn_temperature
from ...models import check_compatible
from ...random._keys import root_key
from ...samplers import GMC, GSGNHT, SGGMC, BaseSampler, BlockwiseGMC, MeanField, StochasticMeanField
from ...sparse.directions import validate_directions
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .._posterior.uncertainty import TopicUncertainty
from .conditions import fitted_topics as holds_topics
from .fit_strategies import (
    DrawPlan,
    EstimatePlan,
    FactorStream,
    fitted_factors,
    fitted_priors,
    is_variational,
    mean_field_model,
    mean_topics,
)
from .inference import SphericalInference
from .model import MOST_CONCENTRATED
from .passes import add_topics
from .setup import Setup, check_enough, set_up, without_metric
from .streams import SphericalStream, StreamSettings


@holds_topics
class SphericalAdmixture(SphericalInference, TopicUncertainty, BaseSampledEstimator):
    r"""Spherical admixture model: topics with positive and negative word weights, for directional data such as tf-idf.

    A document is a unit vector :math:`v_d` that scatters about the direction of a mixture of topics :math:`\beta_k`.
    Topics are unit vectors too, and their entries have either sign:

    .. math:: \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad
        v_d \sim \mathrm{vMF}\left(\frac{\beta \theta_d}{|\beta \theta_d|}, \kappa_1\right)

    ([1]_, [2]_). So both the presence and the absence of a word can be evidence for a topic. Rows may have entries of
    either sign.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K; at most the number of documents.
    sampler : str or BaseSampler instance, default="gsgnht"
        Sampling algorithm for the topics.

        - ``"gsgnht"`` (:class:`~skmanifold.samplers.GSGNHT`): minibatches, geodesics and a friction that adapts to the
          minibatch noise.
        - ``"sggmc"`` (:class:`~skmanifold.samplers.SGGMC`): the same with a fixed friction.
        - ``"gmc"`` (:class:`~skmanifold.samplers.GMC`): Metropolis test on all documents. The log posterior is
          approximated by the mean over `n_doc_samples` draws of the proportions, as in [2]_.
        - ``"gmc_gibbs"`` (:class:`~skmanifold.samplers.BlockwiseGMC`): exact block Gibbs sampling of proportions given
          topics and topics given proportions, on all documents.
        - ``"vb"`` (:class:`~skmanifold.samplers.MeanField`): mean-field variational inference ([1]_) on all documents;
          an estimate without posterior draws.
        - ``"svb"`` (:class:`~skmanifold.samplers.StochasticMeanField`): the same with minibatches.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet parameters :math:`\alpha` of the proportions. None is 1/2, for which the square roots of the
        proportions are uniform on the sphere.
    document_concentration, topic_concentration, mean_concentration : float or "auto", default="auto"
        :math:`\kappa_1`, :math:`\sigma` and :math:`\kappa_0`. Useful values are of the order of the number of features.
        "auto" learns them after the first quarter of burn-in, by stochastic EM: each solves
        :math:`A_V(\kappa) = (n \bar r + 1/2) / (n + 1)`. Here :math:`\bar r` is the mean cosine of n documents with
        their mixtures, of n = K topics with the mean, or of n = 1 mean with :math:`m`. The terms 1/2 and 1 are a
        conjugate prior worth one observation.
    mean_direction : array-like of shape (n_features,), default=None
        Prior mean direction :math:`m`, scaled to unit length. None is the direction of the documents' mean.
    topic_scale : float, array-like of shape (n_components,) or "auto", default="auto"
        Constant metric of each topic: topic k moves on a sphere of radius :math:`R_k`, where a step of size h rotates
        it by :math:`h / R_k`. "auto" learns radii during burn-in for which curvature plus minibatch noise is about one,
        so that the same step size works for all data. 1 is the sphere of [2]_.
    batch_size : int, default=50
        "gsgnht", "sggmc" and "svb" only: number of documents in a minibatch of `fit`; a new one is drawn for each step.
        None uses all documents.
    n_doc_samples : int, default=5
        Number of Markov chain transitions of a document's proportions each time the document is used. Gradients are
        averaged over them. The chain continues from its last state.
    max_iter : int, default=200
        Number of passes over the data, burn-in included.
    burn_in : int, default=None
        Number of initial passes to discard. During them step sizes and concentrations are learned. None is half of
        `max_iter`.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``; in `partial_fit`, every `thin`-th minibatch.
    n_chains : int, default=1
        Number of independent chains. ``components_`` comes from the chain with the highest mean log density. The other
        chains show whether the result is reproducible.
    n_predictive_draws : int, default=20
        Number of evenly spaced draws of the topics over which `score_samples` averages.
    n_importance_draws : int, default=50
        Number of importance draws of each document's proportions in `transform` and `score_samples`, for each draw of
        the topics.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of documents in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: the weight of minibatch t in learned quantities is
        ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values reduce the weight of the first minibatches.
    max_draws_bytes : int, default=2**28
        Largest memory for draws of the topics in ``posterior_``, in bytes. If they need more, fewer are kept, evenly
        spaced.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bit-identical for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. They are given to chains first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Topics: mean directions of the draws of the best chain, with rows of unit length. Large positive entries are
        words that a topic contains, large negative entries are words that it excludes; see `topic_words`.
    resultant_lengths_ : ndarray of shape (n_components,)
        Lengths of the mean topics before scaling to unit length; a length near 1 means little posterior uncertainty.
    document_concentration_, topic_concentration_, mean_concentration_ : float
        The given or learned concentrations.
    mean_direction_ : ndarray of shape (n_features,)
        Prior mean direction :math:`m`, a unit vector.
    doc_topic_prior_ : ndarray of shape (n_components,)
        :math:`\alpha`.
    topic_scale_ : ndarray of shape (n_components,)
        Radii :math:`R_k`.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in. ``"components"``: topics, as many draws as `max_draws_bytes` allows. ``"topic_weights"``:
        mean proportions of the documents. ``"log_likelihood"``: log likelihood of the documents given topics and
        proportions, relative to the uniform distribution. ``"temperature"``: the mean of :math:`|v|^2 / (K (V - 1))`
        over a pass, which is 1 for accurate step sizes (NaN for samplers without persistent velocity). For "vb" and
        "svb" these are estimates: ``"components"``, ``"topic_weights"`` and the ``"objective"``.
    best_chain_ : int
        Index of the chain that ``components_`` comes from, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        Log likelihood after each pass (for "vb" and "svb" the objective). Not set by `partial_fit`.
    sampler_ : BaseSampler
        The sampler that was used.
    n_iter_ : int
        Number of passes over the data; smaller than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches used by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of features V.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    StochasticLDA : Topics of counts.
    VonMisesFisherMixture : Clusters of directions; each row belongs to one cluster.

    Notes
    -----
    Only the direction of each row of X is used; X may be dense or sparse. Rows of zeros have no direction: `fit` and
    `score` ignore them, `transform` returns the prior mean for them, and `score_samples` returns NaN.

    Proportions are drawn by geodesic Monte Carlo on the sphere of their square roots, or in logarithms of gamma
    variates if a Dirichlet parameter is below 1/2. The cost of a transition does not depend on V. The gradient of the
    topics is the mean over these draws (:class:`~skmanifold.samplers.GSGNHT` has the equations).

    References
    ----------
    .. [1] J. Reisinger, A. Waters, B. Silverthorn and R. J. Mooney, "Spherical topic models", ICML 2010.
    .. [2] C. Liu, J. Zhu and Y. Song, "Stochastic gradient geodesic MCMC methods", NIPS 2016. Its evaluation of
       held-out documents and some formulas are corrected here.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skmanifold import SphericalAdmixture
    >>> texts = ["ball bat ball run", "run bat pitch", "orbit moon launch", "launch orbit fuel", "bat pitch ball"]
    >>> model = make_pipeline(TfidfVectorizer(), SphericalAdmixture(2, max_iter=20, random_state=0)).fit(texts)
    >>> model.transform(["moon fuel", "pitch run"]).shape
    (2, 2)
    """

    _samplers = {  # noqa: RUF012
        sampler.short_name: sampler for sampler in (GSGNHT, SGGMC, GMC, BlockwiseGMC, MeanField, StochasticMeanField)
    }
    _settings = {  # noqa: RUF012
        "gsgnht": {"step_size": 0.5, "friction": 0.3, "n_steps": 1},
        "sggmc": {"step_size": 0.25, "friction": 1.5, "n_steps": 1},
        "gmc": {"step_size": 0.1, "n_steps": 10},
        "gmc_gibbs": {"step_size": 0.1, "n_steps": 10},
    }
    _concentration = [StrOptions({"auto"}), Interval(Real, 0, MOST_CONCENTRATED, closed="right")]  # noqa: RUF012
    _read_by: ClassVar[dict] = {
        "batch_size": lambda sampler: not isinstance(sampler, (GMC, MeanField)),
        "n_doc_samples": draws_parameters,
        "n_predictive_draws": draws_parameters,
    }
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "sampler": [StrOptions(set(_samplers)), HasMethods(["init", "step"])],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "document_concentration": _concentration,
        "topic_concentration": _concentration,
        "mean_concentration": _concentration,
        "mean_direction": [None, "array-like"],
        "topic_scale": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "n_doc_samples": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [None, Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "n_predictive_draws": [Interval(Integral, 1, None, closed="left")],
        "n_importance_draws": [Interval(Integral, 2, None, closed="left")],
        "total_samples": [Interval(Integral, 1, None, closed="left")],
        "learning_decay": [Interval(Real, 0, 1, closed="both")],
        "learning_offset": [Interval(Real, 0, None, closed="left")],
        "max_draws_bytes": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
    }

    resultant_lengths_: np.ndarray
    topic_concentration_: float
    mean_concentration_: float
    mean_direction_: np.ndarray
    topic_scale_: np.ndarray
    n_batch_iter_: int
    _setup: Setup  # without rows

    def __init__(
        self,
        n_components: int = 10,
        *,
        sampler: str | BaseSampler = "gsgnht",
        doc_topic_prior: float | ArrayLike | None = None,
        document_concentration: float | Literal["auto"] = "auto",
        topic_concentration: float | Literal["auto"] = "auto",
        mean_concentration: float | Literal["auto"] = "auto",
        mean_direction: ArrayLike | None = None,
        topic_scale: float | ArrayLike | Literal["auto"] = "auto",
        batch_size: int | None = 50,
        n_doc_samples: int = 5,
        max_iter: int = 200,
        burn_in: int | None = None,
        thin: int = 2,
        n_chains: int = 1,
        n_predictive_draws: int = 20,
        n_importance_draws: int = 50,
        total_samples: int = 1_000_000,
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_draws_bytes: int = 2**28,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.sampler = sampler
        self.doc_topic_prior = doc_topic_prior
        self.document_concentration = document_concentration
        self.topic_concentration = topic_concentration
        self.mean_concentration = mean_concentration
        self.mean_direction = mean_direction
        self.topic_scale = topic_scale
        self.batch_size = batch_size
        self.n_doc_samples = n_doc_samples
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.n_predictive_draws = n_predictive_draws
        self.n_importance_draws = n_importance_draws
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
        """Fit the model to documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents, such as tf-idf; rows of any length, with entries of any sign.
        y : None
            Ignored.

        Returns
        -------
        self : SphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite, fewer nonzero rows than topics, or less than two columns; or if a
            prior, direction or scale has the wrong shape or sign.
        IncompatibleError
            If the sampler needs a method that the model does not have.

        Warns
        -----
        ConvergenceWarning
            If the mean kinetic temperature differs from 1 by more than a fifth, because the step size is too large for
            accurate draws.
        """
        with all_or_nothing(self):
            return self._fit(*rows_to_fit(self, X))

    def _fit(self, X):
        sampler = self._resolve_sampler()
        schedule = Schedule.from_params(self.max_iter, self.burn_in, self.thin)
        key = root_key(self.random_state)
        batch_size = None if isinstance(sampler, GMC) else self.batch_size
        setup = self._set_up(sampler, validate_directions(self, X, reset=True), key, batch_size)
        stride = self._draw_store(setup).stride(schedule.n_draws)
        plan: Any
        if is_variational(sampler):
            plan = EstimatePlan(sampler, setup, self.batch_size, schedule.burn_in, stride)
        else:
            plan = DrawPlan(sampler, setup, self.batch_size, self.n_doc_samples, schedule.burn_in, stride)
        with self._open_workers() as (chain_workers, kernel_workers):
            model = plan.model(kernel_workers)
            check_compatible(sampler, plan.target(sampler, model), self._samplers.values())
            fitted = self._run_chains(
                plan.sampler,
                model,
                key,
                schedule,
                X,
                setup.rows.n_rows,
                add=add_topics,  # of draws: an estimate is that of the last pass alone
                record=plan.record,
                adapt=plan.adapt,
                estimate=lambda chains: {
                    **plan.estimate(chains),
                    "_key": key,
                    "_setup": setup.without_rows(),
                    "sampler_": sampler,
                    "n_batch_iter_": 0,
                },
                workers=chain_workers,
            )
        self.__dict__.update(fitted)
        warn_temperature(self.posterior_.get("temperature"), setup.n_coordinates)
        return self

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Update the model with one minibatch of documents, which represents `total_samples` documents.

        Samplers that draw the topics make one step, after a warm-up of the new documents' proportions. Concentrations
        that are "auto" follow running means over minibatches, from the twentieth on. They and radii that are "auto" are
        updated after each of the first hundred minibatches, then after 128, 256, ... minibatches. ``components_`` are
        the mean directions of the draws in the second half of the stream. After `fit`, chains continue from their last
        state.

        Available only if the sampler supports minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length, with entries of any sign. The first minibatch needs at least as many nonzero rows as
            there are topics.
        y : None
            Ignored.

        Returns
        -------
        self : SphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite or no nonzero row; or if the number of features, `n_components` or the
            sampler changed since fitting began.
        IncompatibleError
            If the sampler needs a method that the model does not have.
        """
        with all_or_nothing(self):
            return self._partial_fit(X)

    def _partial_fit(self, X):
        begins = not self.__sklearn_is_fitted__()
        sampler = self._resolve_sampler()
        if not begins and self.n_components != self._n_features_out:
            raise ValueError(f"n_components={self.n_components} cannot follow {self._n_features_out} topics: call fit.")
        if not begins and type(self.sampler_) is not type(sampler):
            was = type(self.sampler_).__name__
            raise ValueError(f"{type(sampler).__name__} cannot go on where {was} stopped: call fit.")
        if getattr(sampler, "control_variate", None) is not None:
            raise ValueError(f"control_variate={sampler.control_variate!r} needs all documents: it is not for streams.")
        key = root_key(self.random_state) if begins else self._key
        t = 0 if begins else self.n_batch_iter_
        rows = validate_directions(self, X, reset=begins)
        check_enough(rows, 1)
        if begins:
            stream, setup = None, self._set_up(sampler, rows, key, len(rows.directed), self.total_samples)
        else:
            stream, setup = self._stream, self._setup._replace(rows=rows)
        rate = float(self.learning_offset + t + 1) ** -self.learning_decay
        advance = self._advance_factors if is_variational(sampler) else self._advance_draws
        with self._open_workers() as workers:
            fitted = advance(stream, sampler, setup, key, t, rate, *workers)
        for name in ("_posterior", "log_density_trace_", "n_iter_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)
        self._key, self._setup, self.sampler_, self.n_batch_iter_ = key, setup.without_rows(), sampler, t + 1
        return self

    def _set_up(self, sampler, rows, key, batch_size: int | None, total_samples: int | None = None) -> Setup:
        """Where fitting begins; factors move without a metric."""
        if is_variational(sampler):
            return without_metric(self, rows, key)[0]
        return set_up(self, rows, key, batch_size, total_samples)

    def _advance_draws(
        self, stream: SphericalStream | None, sampler, setup: Setup, key, t: int, rate: float, chain_workers, workers
    ) -> dict:
        model = setup.model(workers, self.total_samples)
        check_compatible(sampler, DrawPlan.target(sampler, model), self._samplers.values())
        if stream is None:
            stream = SphericalStream.begin(sampler, model, key, self.n_chains)
        if t == 0:
            stream = stream.storing(self._draw_store(setup))
        settings = StreamSettings(self.n_doc_samples, setup.learned, setup.scaled, rate)
        stream = stream.after_batch(sampler, model, settings, chain_workers)
        best = stream.states[stream.best_chain]
        left = {"_stream": stream, "best_chain_": stream.best_chain, "topic_scale_": best.radii}
        return {**left, **mean_topics(*stream.topics()), **fitted_priors(model, best.concentrations)}

    def _advance_factors(
        self, stream: FactorStream | None, sampler, setup: Setup, key, t: int, rate: float, _, workers
    ) -> dict:
        model = mean_field_model(setup, workers, None, self.total_samples)
        check_compatible(sampler, model, self._samplers.values())
        if stream is None:
            stream = FactorStream.begin(sampler, model, key)
        stream, state = stream.after_batch(sampler, model, key, setup.learned, rate)
        left = {"_stream": stream, "best_chain_": 0}
        return {**left, **fitted_factors(model.tuned(stream.concentrations), state)}

    def _draw_store(self, setup: Setup) -> DrawStore:
        """A store for as many draws of a chain's topics as fit into `max_draws_bytes`."""
        return DrawStore.within(self.max_draws_bytes, setup.draw_bytes * self.n_chains, self.thin)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "doc_topic_prior_")
