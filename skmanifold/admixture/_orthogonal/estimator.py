"""The spherical admixture model with orthonormal topics, whose number may be inferred."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar, Literal, Self

import numpy as np

from ...base import BaseSampledEstimator, FitStrategy, Run
from ...samplers import GSGNHT, SGGMC, BaseSampler, ColumnGibbs
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import Ignored, MatrixLike, RandomStateLike, fit_context
from .._spherical.conditions import fitted_orthogonal_topics
from .._spherical.inference import SphericalInference
from .._spherical.model import MOST_CONCENTRATED
from .fit_strategy import fit_strategy
from .setup import samples_frames
from .uncertainty import FrameUncertainty


@fitted_orthogonal_topics
class OrthogonalSphericalAdmixture(SphericalInference, FrameUncertainty, BaseSampledEstimator):
    r"""Spherical admixture of orthonormal topics, as many as given or as the documents ask for.

    A document is a unit vector :math:`v_d` about the direction of a mixture of its topics, which are the orthonormal
    columns of :math:`\phi`:

    .. math:: p(K) \propto e^{-\eta K}, \quad \phi \sim \mathrm{Uniform}(\phi' \phi = I_K), \quad
        \theta_d \sim \mathrm{Dir}(\alpha, \ldots, \alpha), \quad
        v_d \sim \mathrm{vMF}\left(\frac{\phi \theta_d}{|\theta_d|}, \kappa\right)

    ([1]_, with corrections: see Notes). So no two topics say the same, and a document has a coordinate of its own for
    each. Rows of either sign are welcome.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of topics K; at most as many as there are documents and features. None infers it, with
        ``sampler="gibbs"`` only: short runs with different numbers choose where chains begin, then the number changes
        by births and deaths of topics (see Notes).
    sampler : str or BaseSampler instance, default="gibbs"
        How the topics are found.

        - ``"gibbs"`` (:class:`~skmanifold.samplers.ColumnGibbs`): proportions given topics, then topics given
          proportions, which is exact; on all documents.
        - ``"gsgnht"`` (:class:`~skmanifold.samplers.GSGNHT`): by minibatches along geodesics of the Stiefel manifold,
          with a friction that adapts to the minibatches' noise.
        - ``"sggmc"`` (:class:`~skmanifold.samplers.SGGMC`): the same with a fixed friction.
    doc_topic_prior : float, default=None
        Dirichlet parameter :math:`\alpha` of the proportions, for each topic the same. None is 1/2: a uniform law of
        their square roots on the sphere.
    document_concentration : float or "auto", default="auto"
        :math:`\kappa`. Its natural scale is the number of features. "auto" learns it during burn-in, after its first
        quarter, as :class:`SphericalAdmixture` does. Where the number of topics is inferred, the short runs learn it
        first.
    n_components_penalty : float, default=1.0
        :math:`\eta`: what each topic costs in log probability. Only where `n_components` is None.
    max_components : int, default=None
        The most topics that there may be; None is 100, or the number of documents or of features if they are fewer.
        An `n_components` above it is refused.
    batch_size : int, default=50
        "gsgnht" and "sggmc" only: documents of a minibatch, drawn anew for each step. None is all.
    n_doc_samples : int, default=5
        Transitions of the chain of a document's proportions at each visit; the chain goes on from where it was left.
        "gibbs" takes the last of them, the others their mean.
    max_iter : int, default=200
        Passes over the data, burn-in included.
    burn_in : int, default=None
        Passes thrown away, during which step sizes and the concentration are learned; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Independent chains. ``components_`` comes from the one with the highest mean log density, or the highest log
        evidence where the number of topics is inferred; the others show whether it reproduces.
    n_predictive_draws : int, default=20
        Draws of the topics, evenly spaced, over which `score_samples` averages.
    n_importance_draws : int, default=50
        Draws of each document's proportions in `transform` and `score_samples`, for each draw of the topics.
    n_size_moves : int, default=5
        Changes of the number of topics that are tried in each pass. Each takes as long as the rest of the pass with
        tens of topics. Only where `n_components` is None.
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
    components_ : ndarray of shape (n_components_, n_features)
        The orthonormal rows nearest to the mean of the topics' draws in the best chain; of those draws that have
        ``n_components_`` topics, matched. Words of large positive entries speak for a topic, those of negative ones
        against it; see `topic_words`.
    resultant_lengths_ : ndarray of shape (n_components_,)
        Lengths of the mean topics: 1 where a topic is known exactly.
    n_components_ : int
        Number of topics; the most frequent one after burn-in, where it is inferred.
    n_components_posterior_ : ndarray
        Probabilities of 0, 1, 2, ... topics, up to the largest number of the best chain after burn-in: shares of its
        passes.
    document_concentration_ : float
        As given or learned.
    doc_topic_prior_ : ndarray of shape (n_components_,)
        :math:`\alpha`, for each topic.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"components"``, with orthonormal rows, as many as `max_draws_bytes` allows;
        ``"topic_weights"``, the documents' mean proportions; ``"log_likelihood"`` of the documents given topics and
        proportions, relative to the uniform law; ``"temperature"``, the mean of :math:`|v|^2` over the number of
        dimensions, which is 1 where steps are sound (NaN for "gibbs"). Where the number of topics is inferred also
        ``"n_components"``; then what is missing of a draw with fewer topics than others is NaN.
    best_chain_ : int
        The chain that ``components_`` comes from, the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of every pass.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the data; fewer than `max_iter` if a callback stopped the fit.
    n_features_in_ : int
        Number of features V.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    SphericalAdmixture : Topics that scatter about a mean and may be alike.
    VonMisesFisherMixture : Each row belongs to one direction.

    Notes
    -----
    As :math:`|\phi \theta| = |\theta|`, the likelihood is linear in the topics: given proportions they are matrix von
    Mises-Fisher, with parameter :math:`F = \kappa \sum_d v_d \theta_d' / |\theta_d|`. "gibbs" draws from this law,
    column by column; minibatches estimate F, the gradient.

    The paper walks over projections, of which only the span of the topics is left, while the likelihood depends on
    which topics span it; its penalty for topics does not grow with the number of documents as the fit does. Here are
    the frames themselves, the likelihood as it is, and a prior of their number.

    Topics are born one at a time, but the posterior can have separate modes at few and at many topics: with one topic
    the learned :math:`\kappa` is small, and under it a second topic costs more than it explains. So where the number
    is inferred, 15 passes are run with each of 1, 2, 3, 4, 6, 8, 11, ... topics, then with numbers between the best
    of them and its neighbours. The runs stop when the evidence has fallen three times in a row from a peak. They are
    compared by the log evidence, in which proportions are integrated out by importance sampling and topics by an
    approximation that favours fewer topics somewhat. The first chain continues the best run; further chains begin at
    centres of clusters, as many as it has topics. After burn-in the births and deaths sample the posterior of the
    number exactly, given :math:`\kappa`, but a chain does not cross from one mode to another:
    ``n_components_posterior_`` is of one mode.

    Rows of X count by their direction alone, dense or sparse. A row of zeros has none: it is left out of `fit`,
    `transform` gives it the prior's mean, `score_samples` gives NaN, and `score` leaves it out.

    References
    ----------
    .. [1] B. St. Thomas, L. Lin, L.-H. Lim and S. Mukherjee, "Learning subspaces of different dimensions",
       arXiv:1404.6841, 2014, section 4.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from skmanifold import OrthogonalSphericalAdmixture
    >>> texts = ["ball bat ball run", "run bat pitch", "orbit moon launch", "launch orbit fuel", "bat pitch ball"]
    >>> model = make_pipeline(TfidfVectorizer(), OrthogonalSphericalAdmixture(2, max_iter=20, random_state=0))
    >>> model.fit(texts).transform(["moon fuel", "pitch run"]).shape
    (2, 2)
    """

    _samplers = {sampler.short_name: sampler for sampler in (ColumnGibbs, GSGNHT, SGGMC)}  # noqa: RUF012
    _settings = {  # noqa: RUF012
        "gsgnht": {"step_size": 0.5, "friction": 0.3, "n_steps": 1},
        "sggmc": {"step_size": 0.25, "friction": 1.5, "n_steps": 1},
    }
    _read_by: ClassVar[dict] = {"batch_size": lambda sampler: not samples_frames(sampler)}
    _single_threaded = "blas"
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [None, Interval(Integral, 1, None, closed="left")],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither")],
        "document_concentration": [StrOptions({"auto"}), Interval(Real, 0, MOST_CONCENTRATED, closed="right")],
        "n_components_penalty": [Interval(Real, 0, None, closed="left")],
        "max_components": [None, Interval(Integral, 1, None, closed="left")],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "n_doc_samples": [Interval(Integral, 1, None, closed="left")],
        "n_importance_draws": [Interval(Integral, 2, None, closed="left")],
        "n_size_moves": [Interval(Integral, 0, None, closed="left")],
    }

    resultant_lengths_: np.ndarray
    n_components_posterior_: np.ndarray

    def __init__(
        self,
        n_components: int | None = None,
        *,
        sampler: str | BaseSampler = "gibbs",
        doc_topic_prior: float | None = None,
        document_concentration: float | Literal["auto"] = "auto",
        n_components_penalty: float = 1.0,
        max_components: int | None = None,
        batch_size: int | None = 50,
        n_doc_samples: int = 5,
        max_iter: int = 200,
        burn_in: int | None = None,
        thin: int = 2,
        n_chains: int = 1,
        n_predictive_draws: int = 20,
        n_importance_draws: int = 50,
        n_size_moves: int = 5,
        max_draws_bytes: int = 2**28,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.sampler = sampler
        self.doc_topic_prior = doc_topic_prior
        self.document_concentration = document_concentration
        self.n_components_penalty = n_components_penalty
        self.max_components = max_components
        self.batch_size = batch_size
        self.n_doc_samples = n_doc_samples
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.n_predictive_draws = n_predictive_draws
        self.n_importance_draws = n_importance_draws
        self.n_size_moves = n_size_moves
        self.max_draws_bytes = max_draws_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        self : OrthogonalSphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite, fewer rows with a direction or fewer columns than there are topics, or
            less than two columns; `n_components` exceeds `max_components`; or `n_components` is None and the sampler
            cannot change the number of topics.
        IncompatibleError
            If the sampler asks what this model cannot answer.

        Warns
        -----
        ConvergenceWarning
            If the mean kinetic temperature is off 1 by more than a fifth: steps are too long for the draws to be right;
            or if the number of topics is inferred and chains end with a log evidence far below (10 nats and 0.1 nats
            per document) the highest one of chains and short runs.
        """
        return self._fit(X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        return fit_strategy(self, X, run)

    def _prior_of(self, topics: np.ndarray) -> np.ndarray:
        return np.full(len(topics), self.doc_topic_prior_[0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "doc_topic_prior_")
