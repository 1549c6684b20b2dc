"""Spherical admixture model with a choice of samplers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from operator import attrgetter
from typing import Annotated, ClassVar, Literal, Self

import numpy as np

from ...base import BaseSampledEstimator, takes_minibatches
from ...distributions import VonMisesFisher
from ...inference._draw_store import draws_of
from ...samplers import GMC, GSGNHT, SGGMC, BaseSampler, BlockwiseGMC, MeanField, StochasticMeanField
from ...utils._conditions import Array, Sizes
from ...utils._conditions import Real as RealNumber
from ...utils._declared import Lacking, Saved
from ...utils._sklearn import Interval, NumberOf, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .._posterior.uncertainty import TopicUncertainty
from .._tokens.fits import is_variational
from .concentrations import MOST_CONCENTRATED
from .fit_strategies import FactorStream, fit_strategy, stream_strategy
from .inference import DrawnTopics, SphericalInference, refuse_learned
from .setup import Setup, checked_document_concentration, prior_of_proportions
from .streams import SphericalStream

_DRAWN = draws_of(
    "log_likelihood",
    "objective",
    topic_weights=Array("float64", "n_chains n_draws n_components", low=0, sums_to_one=-1),
    temperature=Array("float64", "n_chains n_draws", nan=True, infinite=True),
    document_concentration=Array("float64", "n_chains n_draws", low=0),
    topic_concentration=Array("float64", "n_chains n_draws", low=0),
    mean_concentration=Array("float64", "n_chains n_draws", low=0),
    components=Array("float64", "n_chains n_component_draws n_components n_features", unit=-1),
    doc_topic=Array("float64", "n_chains n_component_draws _ n_components", low=0, high=1, nan=True),
)


class _FittedTopics(SphericalInference, TopicUncertainty, BaseSampledEstimator):
    """Fitted attributes, and what they must agree in."""

    topic_concentration_: Annotated[float, RealNumber(low=0, high=MOST_CONCENTRATED)]
    mean_concentration_: Annotated[float, RealNumber(low=0, high=MOST_CONCENTRATED)]
    mean_direction_: Annotated[np.ndarray, Array("float64", "n_features", unit=0)]
    topic_scale_: Lacking[Annotated[np.ndarray, Array("float64", "n_components", above=0)]]
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    _stream: Saved[FactorStream | SphericalStream | None]
    _setup: Saved[Setup]  # without rows
    n_batch_iter_: Saved[int]

    def _disagreement(self, sizes: Sizes) -> str | None:
        stream, variational = self._stream, is_variational(self.sampler_)
        if variational != isinstance(stream, FactorStream) and (variational or stream is not None):
            return "has a stream of another sampler"
        if isinstance(stream, SphericalStream) and stream.kind is not type(self.sampler_):
            return "has a stream of another sampler"
        return super()._disagreement(sizes)


@dataclass(eq=False, repr=False)
class SphericalAdmixture(_FittedTopics):
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
    document_concentration, topic_concentration, mean_concentration : float, array-like or str, default="auto"
        :math:`\kappa_1`, :math:`\sigma` and :math:`\kappa_0`. Useful values are of the order of the number of features.
        "auto" learns them after the first quarter of burn-in, by stochastic EM: each solves
        :math:`A_V(\kappa) = (n \bar r + 1/2) / (n + 1)`. Here :math:`\bar r` is the mean cosine of n documents with
        their mixtures, of n = K topics with the mean, or of n = 1 mean with :math:`m`. The terms 1/2 and 1 are a
        conjugate prior worth one observation. `document_concentration` may also be "per_topic", or one number for each
        topic: see Notes.
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
    thin : int, default=1
        After burn-in every `thin`-th pass is kept in ``posterior_``; in `partial_fit`, every `thin`-th minibatch.
    n_chains : int, default=1
        Number of independent chains. ``components_`` comes from the chain with the highest mean log density. The other
        chains show whether the result is reproducible.
    n_predictive_draws : int, default=100
        Number of evenly spaced draws of the topics over which `score_samples` averages. More give better predictions of
        rows with thousands of columns; for few columns 20 are enough.
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
    n_stored_rows : int, default=0
        For samplers that draw the topics: number of documents, the first ones of X, whose proportions are kept in
        ``posterior_`` as ``"doc_topic"``, with each draw of the topics.
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
    document_concentration_ : float or ndarray of shape (n_components,)
        The given or learned concentration of documents; with "per_topic" one for each topic.
    topic_concentration_, mean_concentration_ : float
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
        over a pass, which differs from 1 if steps are too large (NaN for samplers without persistent velocity). For
        "vb" and "svb" these are estimates: ``"components"``, ``"topic_weights"`` and the ``"objective"``.
    best_chain_ : int
        Index of the chain that ``components_`` comes from, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        Log likelihood after each pass (for "vb" and "svb" the objective). Not set by `partial_fit`.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes over the data; smaller than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches used by `partial_fit` since the last `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    StochasticLDA : Topics of counts.
    VonMisesFisherMixture : Clusters of directions; each row belongs to one cluster.

    Notes
    -----
    Only the direction of each row of X is used; X may be dense or sparse. Dense rows of float32 and float64 are not
    copied, except for a block at a time. Rows of zeros have no direction: `fit` and
    `score` ignore them, `transform` returns the prior mean for them, and `score_samples` returns NaN.

    With ``document_concentration="per_topic"`` the concentration of a document is :math:`\kappa(\theta_d) = \sum_k
    \theta_{dk} \kappa_k`. The concentrations of the topics are learned by stochastic EM: they maximise
    :math:`\sum_d [\log c_V(\kappa(\theta_d)) + \kappa(\theta_d) \cos_d]` given draws of the proportions, with one
    pseudo-observation of the cosine 1/2 for each topic. "vb" and "svb" do not draw the proportions: they maximise the
    expectation of this sum, computed from the mean and the variance of :math:`\kappa(\theta_d)`.

    Chains start from the topics that "vb" finds in at most 100 passes, which themselves start at the centres of
    clusters. A pass of "vb" takes a fraction of the time of a pass of the other samplers.

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
        "batch_size": lambda sampler: sampler.batching != "full",
        **dict.fromkeys(("n_doc_samples", "n_predictive_draws", "n_stored_rows"), attrgetter("draws_parameters")),
    }
    _parameter_constraints = {  # noqa: RUF012
        "n_components": [NumberOf("to choose it, compare held-out scores of several numbers")],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "document_concentration": [*_concentration, StrOptions({"per_topic"}), "array-like"],
        "topic_concentration": _concentration,
        "mean_concentration": _concentration,
        "mean_direction": [None, "array-like"],
        "topic_scale": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "n_importance_draws": [Interval(Integral, 2, None, closed="left")],
    }

    n_components: int = 10
    _: KW_ONLY
    sampler: str | BaseSampler = "gsgnht"
    doc_topic_prior: float | ArrayLike | None = None
    document_concentration: float | ArrayLike | Literal["auto", "per_topic"] = "auto"
    topic_concentration: float | Literal["auto"] = "auto"
    mean_concentration: float | Literal["auto"] = "auto"
    mean_direction: ArrayLike | None = None
    topic_scale: float | ArrayLike | Literal["auto"] = "auto"
    batch_size: int | None = 50
    n_doc_samples: int = 5
    max_iter: int = 200
    burn_in: int | None = None
    thin: int = 1
    n_chains: int = 1
    n_predictive_draws: int = 100
    n_importance_draws: int = 50
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
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Fit the model to documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Documents, such as tf-idf; rows of any length, with entries of any sign.
        y : Ignored

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
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Update the model with one minibatch of documents, which represents `total_samples` documents.

        Samplers that draw the topics make one step, after a warm-up of the new documents' proportions. Concentrations
        that are "auto" follow running means over minibatches, from the twentieth on; those of topics move towards the
        estimates from each minibatch. They and radii that are "auto" are updated after each of the first hundred
        minibatches, then after 128, 256, ... minibatches. ``components_`` are the mean directions of the draws in the
        second half of the stream. After `fit`, chains continue from their last state. A minibatch of rows of zeros
        changes nothing but ``n_batch_iter_``. The estimator is fitted after the first other one.

        Available only if the sampler supports minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of any length, with entries of any sign. The first minibatch needs at least as many nonzero rows as
            there are topics.
        y : Ignored

        Returns
        -------
        self : SphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite; if the first minibatch with nonzero rows has too few; or if the number
            of features, `n_components` or the sampler changed since fitting began.
        IncompatibleError
            If the sampler needs a method that the model does not have.
        """
        return self._partial_fit(X)

    _strategy = fit_strategy
    _stream_strategy = stream_strategy

    def _draw_topics_of_prior(self, n_samples: int, n_features: int | None, rng: np.random.Generator) -> DrawnTopics:
        if n_features is None:
            alpha, mean, concentration = self.doc_topic_prior_, self.mean_direction_, self.document_concentration_
            of_topic, of_mean = self.topic_concentration_, self.mean_concentration_
        else:
            names = "document_concentration", "topic_concentration", "mean_concentration", "mean_direction"
            refuse_learned(self, *names)
            mean = np.asarray(self.mean_direction, dtype=np.float64)
            if mean.shape != (n_features,) or not np.linalg.norm(mean) > 0:
                raise ValueError(f"mean_direction must have shape ({n_features},) and not be zero.")
            K = self.n_components
            alpha = prior_of_proportions(self, K)
            concentration = checked_document_concentration(self.document_concentration, K)
            of_topic, of_mean = float(self.topic_concentration), float(self.mean_concentration)
        mu = VonMisesFisher(mean / np.linalg.norm(mean), of_mean).sample(random_state=rng)
        return DrawnTopics(VonMisesFisher(mu, of_topic).sample(len(alpha), random_state=rng), alpha, concentration)

    def _check_continues(self, sampler: BaseSampler) -> None:
        self._check_number(self._n_features_out, "topics")
        super()._check_continues(sampler)
