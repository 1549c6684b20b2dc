"""The spherical admixture model with orthonormal topics, whose number may be inferred."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from ...base import BaseSampledEstimator
from ...inference._draw_store import draws_of
from ...manifolds import Stiefel
from ...samplers import GSGNHT, SGGMC, BaseSampler, ColumnGibbs
from ...utils._conditions import Array, Integer, Sizes
from ...utils._declared import Lacking
from ...utils._sklearn import Interval, NumberOf, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, fit_context
from .._spherical.concentrations import MOST_CONCENTRATED
from .._spherical.inference import DrawnTopics, SphericalInference, refuse_learned
from .._spherical.setup import checked_document_concentration, prior_of_proportions
from .fit_strategy import fit_strategy, largest_number, samples_frames
from .uncertainty import FrameUncertainty

_DRAWN = draws_of(
    "log_likelihood",
    topic_weights=Array("float64", "n_chains n_draws _", low=0, high=1 + 1e-6, nan=True),
    temperature=Array("float64", "n_chains n_draws", nan=True, infinite=True),
    document_concentration=Array("float64", "n_chains n_draws", low=0),
    n_components=Array("int64", "n_chains n_draws", low=1),
    components=Array("float64", "n_chains n_component_draws _ n_features", nan=True),
    doc_topic=Array("float64", "n_chains n_component_draws _ _", low=0, high=1, nan=True),
)


class _FittedTopics(SphericalInference, FrameUncertainty, BaseSampledEstimator):
    """Fitted attributes, and what they must agree in."""

    n_components_: Annotated[int, Integer(1, size="n_components")]
    n_components_posterior_: Annotated[np.ndarray, Array("float64", "_", low=0, sums_to_one=0)]
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]

    def _disagreement(self, sizes: Sizes) -> str | None:
        components = vars(self).get("_posterior", {}).get("components")
        if components is not None and components.size:
            lengths = np.square(components).sum(axis=-1)  # NaN where a draw has fewer topics
            has_nan = np.isnan(components)
            rows = ~has_nan.any(axis=-1)
            if not np.allclose(lengths[rows], 1.0, rtol=0.0, atol=1e-3) or not rows[..., 0].all():
                return "has draws of topics that are not of length one"
            if (rows[..., 1:] & ~rows[..., :-1]).any() or (has_nan.all(axis=-1) == rows).any():
                return "has draws of topics with gaps"
        return super()._disagreement(sizes)


@dataclass(eq=False, repr=False)
class OrthogonalSphericalAdmixture(_FittedTopics):
    r"""Spherical admixture model with orthonormal topics, whose number is given or inferred.

    A document is a unit vector :math:`v_d` that scatters about the direction of a mixture of topics. The topics are the
    orthonormal columns of :math:`\phi`:

    .. math:: p(K) \propto e^{-\eta K}, \quad \phi \sim \mathrm{Uniform}(\phi' \phi = I_K), \quad
        \theta_d \sim \mathrm{Dir}(\alpha, \ldots, \alpha), \quad
        v_d \sim \mathrm{vMF}\left(\frac{\phi \theta_d}{|\theta_d|}, \kappa\right)

    ([1]_, with corrections: see Notes). So topics do not overlap, and each topic is one coordinate of a document. Rows
    may have entries of either sign.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of topics K; at most the number of documents and of features. None infers it, which requires
        ``sampler="gibbs"``: short runs with different numbers choose the initial state of the chains, then births and
        deaths of topics change the number (see Notes).
    sampler : str or BaseSampler instance, default="gibbs"
        Sampling algorithm for the topics.

        - ``"gibbs"`` (:class:`~skmanifold.samplers.ColumnGibbs`): exact block Gibbs sampling of proportions given
          topics and topics given proportions, on all documents.
        - ``"gsgnht"`` (:class:`~skmanifold.samplers.GSGNHT`): minibatches, geodesics of the Stiefel manifold and a
          friction that adapts to the minibatch noise.
        - ``"sggmc"`` (:class:`~skmanifold.samplers.SGGMC`): the same with a fixed friction.
    doc_topic_prior : float, default=None
        Dirichlet parameter :math:`\alpha` of the proportions, the same for each topic. None is 1/2, for which the
        square roots of the proportions are uniform on the sphere.
    document_concentration : float, array-like of shape (n_components,), "auto" or "per_topic", default="auto"
        :math:`\kappa`. Useful values are of the order of the number of features. "auto" learns it after the first
        quarter of burn-in, as :class:`SphericalAdmixture` does. If the number of topics is inferred, the short runs
        learn it first. "per_topic" learns one for each topic, and an array gives them: the concentration of a document
        is :math:`\kappa(\theta_d) = \sum_k \theta_{dk} \kappa_k`. Both need `n_components`: the number of topics is
        inferred for given concentrations, and one for each topic would determine it.
    n_components_penalty : float, default=1.0
        :math:`\eta`, the decrease of the log prior probability per topic. Used only if `n_components` is None.
    max_components : int, default=None
        Largest number of topics; None is the least of 100, the number of documents and the number of features. A larger
        `n_components` raises an error.
    batch_size : int, default=50
        "gsgnht" and "sggmc" only: number of documents in a minibatch of `fit`; a new one is drawn for each step. None
        uses all documents.
    n_doc_samples : int, default=5
        Number of Markov chain transitions of a document's proportions each time the document is used. The chain
        continues from its last state. "gibbs" uses the last transition, the other samplers use the mean over all.
    max_iter : int, default=200
        Number of passes over the data, burn-in included.
    burn_in : int, default=None
        Number of initial passes to discard. During them step sizes and the concentration are learned. None is half of
        `max_iter`.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Number of independent chains. ``components_`` comes from the chain with the highest mean log density, or with
        the highest log evidence if the number of topics is inferred. The other chains show whether the result is
        reproducible.
    n_predictive_draws : int, default=20
        Number of evenly spaced draws of the topics over which `score_samples` averages.
    n_importance_draws : int, default=50
        Number of importance draws of each document's proportions in `transform` and `score_samples`, for each draw of
        the topics.
    n_size_moves : int, default=5
        Number of proposals per pass to change the number of topics. With tens of topics each proposal takes as long as
        the rest of the pass. Used only if `n_components` is None.
    max_draws_bytes : int, default=2**28
        Largest memory for draws of the topics in ``posterior_``, in bytes. If they need more, fewer are kept, evenly
        spaced.
    n_stored_rows : int, default=0
        Number of documents, the first ones of X, whose proportions are kept in
        ``posterior_`` as ``"doc_topic"``, with each draw of the topics.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bit-identical for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. They are given to chains first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Topics: the orthonormal rows nearest to the mean of the best chain's draws. The mean is over the draws with
        ``n_components_`` topics, after matching. Large positive entries are words that a topic contains, large negative
        entries are words that it excludes; see `topic_words`. If their number is inferred, they are in descending order
        of their shares.
    resultant_lengths_ : ndarray of shape (n_components_,)
        Lengths of the mean topics; a length near 1 means little posterior uncertainty.
    n_components_ : int
        Number of topics. If it is inferred, the most frequent number after burn-in.
    n_components_posterior_ : ndarray of shape (n_max + 1,)
        Posterior probabilities of 0, 1, 2, ... topics: relative frequencies over the passes of the best chain after
        burn-in, up to the largest number n_max that occurs.
    document_concentration_ : float or ndarray of shape (n_components_,)
        The given or learned concentration of documents; with "per_topic" or given numbers, one for each topic.
    doc_topic_prior_ : ndarray of shape (n_components_,)
        :math:`\alpha` for each topic.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in. ``"components"``: topics with orthonormal rows, as many draws as `max_draws_bytes` allows.
        ``"topic_weights"``: mean proportions of the documents. ``"log_likelihood"``: log likelihood of the documents
        given topics and proportions, relative to the uniform distribution. ``"temperature"``: the mean of
        :math:`|v|^2` divided by the dimension, which differs from 1 if steps are too large (NaN for "gibbs"). If the
        number of topics is inferred, also ``"n_components"``; entries of topics that a draw does not have are NaN.
    best_chain_ : int
        Index of the chain that ``components_`` comes from, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        Log likelihood after each pass.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes over the data; smaller than `max_iter` if a callback stopped the fit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    SphericalAdmixture : Topics that scatter about a mean and may be similar.
    VonMisesFisherMixture : Clusters of directions; each row belongs to one cluster.

    Notes
    -----
    Since :math:`|\phi \theta| = |\theta|`, the likelihood is linear in the topics. Given the proportions, the topics
    have a matrix von Mises-Fisher distribution with parameter
    :math:`F = \sum_d \kappa(\theta_d) v_d \theta_d' / |\theta_d|`. "gibbs" draws from it column by column; minibatches
    estimate F, which is the gradient.

    The sampler of [1]_ moves on projections, which only determine the span of the topics, but the likelihood depends on
    the topics that span it. Its penalty on the number of topics does not grow with the number of documents, but the log
    likelihood does. This implementation samples the topics themselves, uses the exact likelihood, and has a prior on
    the number of topics.

    Births add one topic at a time, but the posterior can have separate modes at few and at many topics: with one topic
    the learned :math:`\kappa` is small, and for a small :math:`\kappa` a second topic lowers the posterior. Therefore,
    if the number is inferred, short runs of 15 passes are made with 1, 2, 3, 4, 6, 8, 11, ... topics, then with numbers
    between the best of these and its neighbours. The search stops after the evidence has decreased three times in a
    row. The runs are compared by their log evidence: proportions are integrated out by importance sampling, and topics
    by an approximation that slightly favours fewer topics. The first chain continues the best run. Further chains start
    from the centres of clusters, with the same number of topics. After burn-in the births and deaths sample the
    posterior of the number exactly, given :math:`\kappa`. But a chain does not move from one mode to another, so that
    ``n_components_posterior_`` describes one mode.

    Only the direction of each row of X is used; X may be dense or sparse. Rows of zeros have no direction: `fit` and
    `score` ignore them, `transform` returns the prior mean for them, and `score_samples` returns NaN.

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
    _parameter_constraints = {  # noqa: RUF012
        "n_components": [None, NumberOf("with None the number of topics is inferred")],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither")],
        "document_concentration": [
            StrOptions({"auto", "per_topic"}),
            Interval(Real, 0, MOST_CONCENTRATED, closed="right"),
            "array-like",
        ],
        "n_components_penalty": [Interval(Real, 0, None, closed="left")],
        "max_components": [None, Interval(Integral, 1, None, closed="left")],
        "n_importance_draws": [Interval(Integral, 2, None, closed="left")],
        "n_size_moves": [Interval(Integral, 0, None, closed="left")],
    }

    n_components: int | None = None
    _: KW_ONLY
    sampler: str | BaseSampler = "gibbs"
    doc_topic_prior: float | None = None
    document_concentration: float | ArrayLike | Literal["auto", "per_topic"] = "auto"
    n_components_penalty: float = 1.0
    max_components: int | None = None
    batch_size: int | None = 50
    n_doc_samples: int = 5
    max_iter: int = 200
    burn_in: int | None = None
    thin: int = 2
    n_chains: int = 1
    n_predictive_draws: int = 20
    n_importance_draws: int = 50
    n_size_moves: int = 5
    max_draws_bytes: int = 2**28
    n_stored_rows: int = 0
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

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
        self : OrthogonalSphericalAdmixture

        Raises
        ------
        ValueError
            If X has values that are not finite, less than two columns, or fewer nonzero rows or columns than topics; if
            `n_components` exceeds `max_components`; or if `n_components` is None and the sampler cannot change the
            number of topics, or each topic is to have its own concentration.
        IncompatibleError
            If the sampler needs a method that the model does not have.

        Warns
        -----
        ConvergenceWarning
            If the mean kinetic temperature differs from 1 by more than 0.2, because the step size is too large for
            accurate draws. Also if the number of topics is inferred and the final log evidence of a chain is lower than
            the best of all chains and short runs by more than 10 nats plus 0.1 nats per document.
        """
        return self._fit(X)

    _strategy = fit_strategy

    def _draw_topics_of_prior(self, n_samples: int, n_features: int | None, rng: np.random.Generator) -> DrawnTopics:
        given: Any = self.document_concentration
        if n_features is None:
            n_features, given = self.n_features_in_, self.document_concentration_
        else:
            refuse_learned(self, "document_concentration")
        number = self.n_components
        if number is None:
            numbers = np.arange(1, largest_number(self, n_samples, n_features) + 1)
            log_prior = -float(self.n_components_penalty) * numbers
            weights = np.exp(log_prior - log_prior.max())
            number = int(rng.choice(numbers, p=weights / weights.sum()))
        elif number > n_features:
            raise ValueError(f"n_components={number} orthonormal topics need as many features, not {n_features}.")
        concentration = checked_document_concentration(given, number)
        topics = np.ascontiguousarray(Stiefel(n_features, number).random_point(rng).T)
        return DrawnTopics(topics, prior_of_proportions(self, number), concentration)
