"""The spherical admixture model with pluggable samplers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar, Literal, Self

import numpy as np

from ...base import (
    BaseSampledEstimator,
    FitStrategy,
    Minibatch,
    Run,
    StreamStrategy,
    draws_parameters,
    takes_minibatches,
)
from ...samplers import GMC, GSGNHT, SGGMC, BaseSampler, BlockwiseGMC, MeanField, StochasticMeanField
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .._posterior.uncertainty import TopicUncertainty
from .conditions import fitted_topics as holds_topics
from .fit_strategies import fit_strategy, stream_strategy
from .inference import SphericalInference
from .model import MOST_CONCENTRATED
from .setup import Setup


@holds_topics
class SphericalAdmixture(SphericalInference, TopicUncertainty, BaseSampledEstimator):
    r"""Spherical admixture model: topics of documents that are directions, such as tf-idf, with words for and against.

    A document is a unit vector :math:`v_d` about the direction of a mixture of its topics :math:`\beta_k`, which are
    unit vectors themselves, of both signs:

    .. math:: \mu \sim \mathrm{vMF}(m, \kappa_0), \quad \beta_k \sim \mathrm{vMF}(\mu, \sigma), \quad
        \theta_d \sim \mathrm{Dir}(\alpha), \quad
        v_d \sim \mathrm{vMF}\left(\frac{\beta \theta_d}{|\beta \theta_d|}, \kappa_1\right)

    ([1]_, [2]_). So the absence of a word tells of a topic as well as its presence. Rows of either sign are welcome.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K; at most as many as there are documents.
    sampler : str or BaseSampler instance, default="gsgnht"
        How the topics are found.

        - ``"gsgnht"`` (:class:`~skmanifold.samplers.GSGNHT`): by minibatches along geodesics, with a friction that
          adapts to the minibatches' noise.
        - ``"sggmc"`` (:class:`~skmanifold.samplers.SGGMC`): the same with a fixed friction.
        - ``"gmc"`` (:class:`~skmanifold.samplers.GMC`): a Metropolis test on all documents, with the mean over
          `n_doc_samples` draws of proportions in place of the log posterior, as [2]_ has it: approximate.
        - ``"gmc_gibbs"`` (:class:`~skmanifold.samplers.BlockwiseGMC`): proportions given topics, then topics given
          proportions: exact, on all documents.
        - ``"vb"`` (:class:`~skmanifold.samplers.MeanField`): mean field ([1]_), all documents: an estimate, no draws.
        - ``"svb"`` (:class:`~skmanifold.samplers.StochasticMeanField`): the same by minibatches.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet parameters :math:`\alpha` of the proportions. None is 1/2: a uniform law of their square roots on
        the sphere.
    document_concentration, topic_concentration, mean_concentration : float or "auto", default="auto"
        :math:`\kappa_1`, :math:`\sigma` and :math:`\kappa_0`. Their natural scale is the number of features. "auto"
        learns them during burn-in, after its first quarter, by stochastic EM: each solves
        :math:`A_V(\kappa) = (n \bar r + 1/2) / (n + 1)`, where :math:`\bar r` is the mean cosine, with the directions
        about which they scatter, of n documents, of K topics and of one mean as drawn, and the 1/2 is a conjugate
        prior of the weight of one.
    mean_direction : array-like of shape (n_features,), default=None
        m, of any length; None is the direction of the documents' mean.
    topic_scale : float, array-like of shape (n_components,) or "auto", default="auto"
        A constant step size for each topic: topic k moves on a sphere of radius :math:`R_k`, where a step of size h
        turns it by :math:`h / R_k`. "auto" learns radii during burn-in on which curvature plus minibatch noise are
        about one, so that a sampler's step size is in those units whatever the data; 1 is the sphere of [2]_.
    batch_size : int, default=50
        "gsgnht", "sggmc" and "svb" only: documents of a minibatch in `fit`, drawn anew for each step. None is all.
    n_doc_samples : int, default=5
        Transitions of the chain of a document's proportions at each visit, whose mean is used; the chain goes on from
        where it was left.
    max_iter : int, default=200
        Passes over the data, burn-in included.
    burn_in : int, default=None
        Passes thrown away, during which step sizes and concentrations are learned; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``; of a stream, every `thin`-th minibatch.
    n_chains : int, default=1
        Independent chains. ``components_`` comes from the one with the highest mean log density; the others tell
        whether it reproduces.
    n_predictive_draws : int, default=20
        Draws of the topics, evenly spaced, over which `score_samples` averages.
    n_importance_draws : int, default=50
        Draws of each document's proportions in `transform` and `score_samples`, for each draw of the topics.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of documents in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t moves what is learned by ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory that draws of the topics may take in ``posterior_``; where they would need more, fewer are kept, evenly
        spaced.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Mean directions of the topics' draws in the best chain: unit rows. Words of large positive entries speak for
        a topic, those of negative ones against it; see `topic_words`.
    resultant_lengths_ : ndarray of shape (n_components,)
        Lengths of the means that ``components_`` are the directions of: 1 where a topic is known exactly.
    document_concentration_, topic_concentration_, mean_concentration_ : float
        As given or learned.
    mean_direction_ : ndarray of shape (n_features,)
        m.
    doc_topic_prior_ : ndarray of shape (n_components,)
        :math:`\alpha`.
    topic_scale_ : ndarray of shape (n_components,)
        Radii :math:`R_k`.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"components"`` as many as `max_draws_bytes` allows; ``"topic_weights"``, the documents'
        mean proportions; ``"log_likelihood"`` of the documents given topics and proportions, relative to the uniform
        law; and ``"temperature"``, the mean of :math:`|v|^2 / (K (V - 1))` over a pass, which is 1 where steps are
        sound (NaN for samplers without a velocity of their own). "vb" and "svb" have estimates in their place.
    best_chain_ : int
        The chain that ``components_`` comes from, the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood (for "vb" and "svb" the objective) of every pass. Not set by `partial_fit`.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the data; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of features V.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    StochasticLDA : Topics of counts.
    VonMisesFisherMixture : Each row belongs to one direction.

    Notes
    -----
    Rows of X count by their direction alone, dense or sparse. A row of zeros has none: it is left out of `fit`,
    `transform` gives it the prior's mean, `score_samples` gives NaN, and `score` leaves it out.

    Proportions are drawn by geodesic Monte Carlo on the sphere of their square roots, or where a Dirichlet parameter is
    below 1/2 in logarithms of gammas; the cost does not depend on V. Topics move by the mean gradient over these draws
    (:class:`~skmanifold.samplers.GSGNHT` has the equations).

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
        "batch_size": lambda sampler: sampler.batching != "full",
        "n_doc_samples": draws_parameters,
        "n_predictive_draws": draws_parameters,
    }
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "document_concentration": _concentration,
        "topic_concentration": _concentration,
        "mean_concentration": _concentration,
        "mean_direction": [None, "array-like"],
        "topic_scale": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "n_doc_samples": [Interval(Integral, 1, None, closed="left")],
        "n_importance_draws": [Interval(Integral, 2, None, closed="left")],
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
        """Find the topics of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign, such as tf-idf.
        y : None
            Ignored.

        Returns
        -------
        self : SphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite, fewer rows with a direction than there are topics, or less than two
            columns; or a prior, direction or scale has the wrong shape or sign.
        IncompatibleError
            If the sampler asks what this model cannot answer.

        Warns
        -----
        ConvergenceWarning
            If the mean kinetic temperature is off 1 by more than a fifth: steps are too long for the draws to be right.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Learn from one more minibatch of documents, which stands for `total_samples`.

        Samplers of draws make one step, after the new documents' proportions have been warmed up. Concentrations that
        are "auto" follow running means over minibatches from the twentieth on. Both they and radii that are "auto" are
        set anew after each of the first hundred minibatches, then after 128, 256, ... of them. ``components_`` are then
        the mean directions of draws in the second half of the stream. After `fit`, all goes on from where it stopped.

        There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length and sign. The first minibatch of all needs as many as there are topics.
        y : None
            Ignored.

        Returns
        -------
        self : SphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite or no row with a direction, or its width or `n_components` or the
            sampler is not what it was when fitting began.
        """
        return self._partial_fit(X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        return fit_strategy(self, X, run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        return stream_strategy(self, X, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        if self.n_components != self._n_features_out:
            raise ValueError(f"n_components={self.n_components} cannot follow {self._n_features_out} topics: call fit.")
        super()._check_continues(sampler)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "doc_topic_prior_")
