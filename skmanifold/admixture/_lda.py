"""Latent Dirichlet allocation with pluggable samplers."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, check_non_negative, validate_data

from ..base import BaseSampledEstimator, takes_minibatches
from ..inference._driver import Chain
from ..inference._proportions import check_doc_topic_prior, infer_proportions
from ..inference._schedule import Schedule
from ..metrics import document_completion
from ..models import check_compatible
from ..models._topic_word import TopicWord
from ..samplers import CVB0, ESCA, CollapsedGibbs
from ..utils._csr import COUNT_TYPES, Counts, canonical_csr, whole_counts
from ..utils._random import Purpose, root_key, subkey
from ..utils._sklearn import HasMethods, Interval, StrOptions, fit_context
from ..utils._threads import Workers
from ._lda_model import LDAModel
from ._topic_counts import TopicCounts, TopicPrior, add_counts, mean_counts, scale_counts

_MAX_COMPONENTS = 65_535  # a topic is stored in 16 bits
_MAX_DENSE_BYTES = 4 << 30  # of components_


class StochasticLDA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseSampledEstimator):
    r"""Latent Dirichlet allocation: topics of documents, fitted by a sampler of choice.

    Document :math:`m` has proportions :math:`\theta_m \sim \mathrm{Dir}(\alpha)`, topic :math:`k` has word
    probabilities :math:`\phi_k \sim \mathrm{Dir}(\beta_k)`; each token first takes a topic from :math:`\theta_m`, then
    a word from that topic.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K, at most 65,535.
    sampler : {"esca", "collapsed_gibbs", "cvb0"} or BaseSampler instance, default="esca"
        How the topics are found:

        - ``"esca"`` (:class:`~skmanifold.samplers.ESCA`): stochastic EM over all tokens in parallel; the fastest.
        - ``"collapsed_gibbs"`` (:class:`~skmanifold.samplers.CollapsedGibbs`): draws from the posterior; one core a
          chain.
        - ``"cvb0"`` (:class:`~skmanifold.samplers.CVB0`): deterministic variational; memory K times the pairs.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet parameters :math:`\alpha` of the proportions; a vector makes some topics commoner than others. None
        is ``1 / n_components``.
    topic_word_prior : float or array-like, default=None
        Dirichlet parameters :math:`\beta` of the topics: a number, one number a word (shape (n_features,)), or a
        matrix of shape (n_components, n_features), which lets topics be seeded with words of one's own. Shape
        (n_components, 1) gives each topic a number. None is 0.1.
    max_iter : int, default=200
        Passes over the data, burn-in included.
    burn_in : int, default=None
        Passes thrown away; None is half of them.
    thin : int, default=5
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Independent chains. ``components_`` is the estimate of the chain with the highest mean log density; the others
        tell whether it reproduces.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of documents D in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t moves the statistics by ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory that draws of whole topics may take in ``posterior_``; where they would need more, only the small traces
        are kept.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float32
        Word probabilities of each topic; rows sum to 1. Made anew from sparse counts whenever asked for; an
        AttributeError if it would take more than 4 GiB.
    topic_word_counts_ : csr_array of shape (n_components, n_features), float64
        Expected number of tokens of each word in each topic, as estimated (for `partial_fit`, in `total_samples`
        documents): plus `topic_word_prior` and divided by its rows' sums it is ``components_``.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_likelihood"`` (log p(words | topics, proportions) at the estimate of each pass; for
        collapsed Gibbs ``"log_joint"``, log p(words, tokens' topics)), of shape (n_chains, n_draws);
        ``"topic_weights"``, the topics' shares of the tokens; and, within `max_draws_bytes`, ``"components"``. There
        are ``(max_iter - burn_in) // thin`` draws, fewer after an early stop. Not set by `partial_fit`.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood (or joint) of every pass, burn-in included: has it converged? Not set by `partial_fit`.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the data; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of words.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Online variational Bayes.

    Notes
    -----
    X holds counts: a document a row, a word a column, dense or sparse. Fractional counts are rounded at random, up with
    the probability of their fraction, from a stream keyed by row and column in `fit` and by the row's content
    elsewhere. Empty documents are allowed; their proportions are the prior's mean.

    `transform` solves for each document the fixed point of

    .. math:: D_k = \sum_v c_v \frac{(D_k + \alpha_k) \phi_{kv}}{\sum_l (D_l + \alpha_l) \phi_{lv}},
        \qquad \theta_k = \frac{D_k + \alpha_k}{\sum_v c_v + \sum_l \alpha_l},

    which is deterministic and does not depend on the other documents.

    References
    ----------
    .. [1] D. M. Blei, A. Y. Ng and M. I. Jordan, "Latent Dirichlet allocation", JMLR 3, 2003.
    .. [2] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.

    Examples
    --------
    >>> from skmanifold import StochasticLDA
    >>> from skmanifold.datasets import make_lda_corpus
    >>> X = make_lda_corpus(n_samples=200, n_features=100, n_components=5, random_state=0).data
    >>> lda = StochasticLDA(n_components=5, random_state=0).fit(X)
    >>> lda.components_.shape
    (5, 100)
    >>> lda.transform(X[:3]).shape
    (3, 5)
    """

    _samplers = {sampler.short_name: sampler for sampler in (ESCA, CollapsedGibbs, CVB0)}  # noqa: RUF012
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, _MAX_COMPONENTS, closed="both")],
        "sampler": [StrOptions(set(_samplers)), HasMethods(["init", "step"])],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "topic_word_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
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

    _key: np.uint64  # of all streams, frozen when fitting begins
    _topic_counts: TopicCounts
    _topic_word: TopicWord
    _doc_topic_prior: np.ndarray
    _n_counted_rows: int  # the documents that _topic_counts speaks for
    n_batch_iter_: int

    def __init__(
        self,
        n_components=10,
        *,
        sampler="esca",
        doc_topic_prior=None,
        topic_word_prior=None,
        max_iter=200,
        burn_in=None,
        thin=5,
        n_chains=1,
        total_samples=1_000_000,
        learning_decay=0.7,
        learning_offset=10.0,
        max_draws_bytes=2**28,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.sampler = sampler
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.max_iter = max_iter
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
    def fit(self, X, y=None):
        """Find the topics of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        y : None
            Ignored.

        Returns
        -------
        self : StochasticLDA

        Raises
        ------
        ValueError
            If X has negative or non-finite values or no tokens at all, or a prior has the wrong shape or sign.
        IncompatibleError
            If the sampler asks what this model cannot answer.
        """
        with self._all_or_nothing():
            return self._fit(X)

    def _fit(self, X):
        sampler = self._resolve_sampler()
        schedule = Schedule.from_params(self.max_iter, self.burn_in, self.thin)
        key = root_key(self.random_state)
        counts = self._whole_counts(X, subkey(key, Purpose.ROUNDING), reset=True)
        with self._open_workers() as (chain_workers, kernel_workers):
            model = self._make_model(counts, kernel_workers)
            check_compatible(sampler, model, self._samplers.values())
            fitted = self._run_chains(
                sampler,
                model,
                key,
                schedule,
                X,
                counts.n_rows,
                add=add_counts,
                record=self._make_recorder(model, schedule),
                estimate=lambda chains: {**_estimate(model, chains), "_key": key},
                workers=chain_workers,
            )
        self.__dict__.update(fitted)
        return self

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Learn from one more minibatch of documents.

        Minibatch t of n documents gives counts T_batch by the sampler's `n_local_sweeps` passes over its tokens with
        the topics frozen; the statistics become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. They begin as those of the first minibatch after
        `n_first_sweeps` passes in which the topics move too: let it be large enough to show every topic. After `fit`,
        they go on from the fitted ones, scaled to `total_samples`. There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        y : None
            Ignored.

        Returns
        -------
        self : StochasticLDA

        Raises
        ------
        ValueError
            If X has negative or non-finite values or no tokens at all, or its width or `n_components` is not what it
            was when fitting began.
        """
        with self._all_or_nothing():
            return self._partial_fit(X)

    def _partial_fit(self, X):
        begins = not self.__sklearn_is_fitted__()
        sampler = self._resolve_sampler()
        if not begins and self.n_components != self._n_features_out:
            raise ValueError(f"n_components={self.n_components} cannot follow {self._n_features_out} topics: call fit.")
        key = root_key(self.random_state) if begins else self._key
        n_batches = 0 if begins else self.n_batch_iter_
        counts = self._whole_counts(X, subkey(key, Purpose.ROUNDING, n_batches + 1), reset=begins)
        scale = self.total_samples / counts.n_rows
        with Workers(self.n_jobs) as workers:
            model = self._make_model(counts, workers)
            check_compatible(sampler, model, self._samplers.values())
            stream = subkey(key, Purpose.MINIBATCH)
            if begins:
                state = sampler.init_stream(model, stream, scale)
            else:
                before = scale_counts(self._topic_counts, self.total_samples / self._n_counted_rows)
                rate = min(1.0, float(self.learning_offset + n_batches + 1) ** -self.learning_decay)
                state = sampler.resume_stream(model, before, stream, n_batches)
                state = sampler.step_stream(model, state, rate, scale)
        for name in ("posterior_", "log_density_trace_", "n_iter_"):
            self.__dict__.pop(name, None)
        self.sampler_ = sampler
        self.n_batch_iter_ = n_batches + 1
        self._key = key
        self._topic_counts = state.statistics
        self._topic_word = state.position
        self._doc_topic_prior = model.doc_topic_prior
        self._n_counted_rows = self.total_samples
        return self

    def _validate_counts(self, X, *, reset):
        csr = validate_data(self, X, reset=reset, accept_sparse="csr", dtype=COUNT_TYPES)
        check_non_negative(csr, type(self).__name__)
        return canonical_csr(csr)

    def _whole_counts(self, X, rounding_key: np.uint64, *, reset: bool) -> Counts:
        counts = whole_counts(self._validate_counts(X, reset=reset), rounding_key, by_content=False)
        if counts.n_tokens == 0:
            raise ValueError("X has no tokens: all counts are zero, or fractions that were rounded to it.")
        return counts

    def _make_model(self, counts: Counts, workers: Workers) -> LDAModel:
        n_components = self.n_components
        alpha = 1.0 / n_components if self.doc_topic_prior is None else self.doc_topic_prior
        alpha = check_doc_topic_prior(np.full(n_components, alpha) if np.ndim(alpha) == 0 else alpha, n_components)
        beta = 0.1 if self.topic_word_prior is None else self.topic_word_prior
        return LDAModel(counts, alpha, TopicPrior(beta, n_components, counts.n_features), workers)

    def _make_recorder(self, model: LDAModel, schedule: Schedule):
        """What a draw keeps of the statistics: small traces, and whole topics where they fit into memory."""
        draw_bytes = 4 * model.n_components * model.counts.n_features
        keep_components = draw_bytes * max(1, schedule.n_draws) * self.n_chains <= self.max_draws_bytes

        def record(statistics: TopicCounts):
            draw = {"topic_weights": statistics.totals / statistics.totals.sum()}
            if keep_components:
                draw["components"] = model.mode(statistics).toarray()
            return draw

        return record

    # What is learned

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_topic_word")

    @property
    def components_(self):
        """Word probabilities of each topic, of shape (n_components, n_features)."""
        check_is_fitted(self)
        topics = self._topic_word
        n_bytes = 4 * topics.n_components * topics.n_features
        if n_bytes > _MAX_DENSE_BYTES:
            raise AttributeError(
                f"components_ would take {n_bytes / 2**30:.1f} GiB, more than {_MAX_DENSE_BYTES / 2**30:.1f}: use "
                "topic_word_counts_, which is sparse; transform and score work as ever."
            )
        return topics.toarray()

    @property
    def topic_word_counts_(self):
        """Expected number of tokens of each word in each topic, a csr_array of shape (n_components, n_features)."""
        check_is_fitted(self)
        return self._topic_counts.tocsr().astype(np.float64).T.tocsr()

    @property
    def _n_features_out(self):
        return len(self._doc_topic_prior)

    # Inference

    def transform(self, X):
        """Topic proportions of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.

        Returns
        -------
        doc_topic : ndarray of shape (n_samples, n_components)
            Proportions; rows sum to 1.
        """
        return self._infer(X)

    def predict(self, X):
        """The dominant topic of each document.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.

        Returns
        -------
        topics : ndarray of shape (n_samples,)
            Indices into ``components_``.
        """
        return self._infer(X).argmax(axis=1)

    def _infer(self, X):
        check_is_fitted(self)
        rounding_key = subkey(self._key, Purpose.INFERENCE, Purpose.ROUNDING)
        counts = whole_counts(self._validate_counts(X, reset=False), rounding_key, by_content=True)
        with Workers(self.n_jobs) as workers:
            return infer_proportions(self._topic_word, counts, self._doc_topic_prior, workers=workers)

    def inverse_transform(self, X):
        """Word probabilities of documents with given proportions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Topic proportions.

        Returns
        -------
        words : ndarray of shape (n_samples, n_features)
            ``X @ components_``; rows sum to 1 if those of X do.
        """
        check_is_fitted(self)
        proportions = check_array(X, dtype=np.float64, input_name="X")
        topics = self._topic_word
        if proportions.shape[1] != topics.n_components:
            raise ValueError(f"X has {proportions.shape[1]} columns, one a topic, but there are {topics.n_components}.")
        entries = topics.weights, topics.topics.astype(np.int32), topics.indptr
        weights = sp.csr_array(entries, shape=(topics.n_features, topics.n_components))
        return (weights @ proportions.T).T + np.multiply.outer((proportions * topics.inverse).sum(axis=1), topics.base)

    def score(self, X, y=None):
        """Mean held-out log likelihood per token, by document completion: higher is better.

        Half of each document's tokens, chosen by its content, give its proportions; the other half is scored
        (:func:`skmanifold.metrics.document_completion`).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents; documents under two tokens are left out.
        y : None
            Ignored.

        Returns
        -------
        score : float
            In nats per token.

        Raises
        ------
        ValueError
            If no document has two tokens.
        """
        return self._complete(X).log_likelihood

    def perplexity(self, X):
        """Held-out perplexity, ``exp(-score(X))``: lower is better. Not a bound.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.

        Returns
        -------
        perplexity : float
            The ``score`` s as ``exp(-s)``: as many equally likely words would be as hard to guess.
        """
        return self._complete(X).perplexity

    def _complete(self, X):
        check_is_fitted(self)
        csr = self._validate_counts(X, reset=False)
        seed = int(subkey(self._key, Purpose.INFERENCE)) % 2**32
        return document_completion(self._topic_word, csr, self._doc_topic_prior, random_state=seed, n_jobs=self.n_jobs)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _estimate(model: LDAModel, chains: list[Chain]) -> dict:
    """What inference needs, from wherever the chains stand: the best one's average counts, and the topics they make."""
    total, n_passes = max(chains, key=Chain.quality).estimate()
    topic_counts = mean_counts(total, n_passes)
    return {
        "_topic_counts": topic_counts,
        "_topic_word": model.mode(topic_counts),
        "_doc_topic_prior": model.doc_topic_prior,
        "_n_counted_rows": model.counts.n_rows,
        "n_batch_iter_": 0,
    }
