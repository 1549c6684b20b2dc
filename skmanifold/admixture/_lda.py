"""Latent Dirichlet allocation with pluggable samplers."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..base import BaseSampledEstimator
from ..inference._driver import Chain, run_chains
from ..inference._proportions import infer_proportions
from ..inference._schedule import Schedule
from ..metrics import document_completion
from ..models import check_compatible
from ..samplers import CVB0, ESCA, BaseSampler, CollapsedGibbs
from ..utils._csr import Counts, canonical_csr, whole_counts
from ..utils._random import Purpose, root_key, subkey
from ..utils._sklearn import Interval, fit_context
from ..utils._threads import Workers
from ._lda_model import LDAModel
from ._topic_counts import TopicCounts, TopicPrior, add_counts, scale_counts

_MAX_COMPONENTS = 65_535  # a topic is stored in 16 bits


def _takes_streams(estimator) -> bool:
    sampler = estimator.sampler
    if isinstance(sampler, str) and sampler in estimator._samplers:
        sampler = estimator._samplers[sampler]
    if getattr(sampler, "batching", "either") == "full":
        raise AttributeError(
            f"partial_fit needs a sampler that takes minibatches, such as 'esca'; {sampler!r} needs all rows at once."
        )
    return True


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
        Word probabilities of each topic; rows sum to 1. Made when asked for, from sparse counts.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_likelihood"`` (log p(words | topics, proportions) at the estimate of each pass; for
        collapsed Gibbs ``"log_joint"``, log p(words, tokens' topics)); ``"topic_weights"`` (n_components,), the share
        of tokens; and, within `max_draws_bytes`, ``"components"`` (n_components, n_features). Not set by
        `partial_fit`.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood (or joint) at every pass, burn-in included: has it converged? Not set by `partial_fit`.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the data; fewer than `max_iter` if a callback stopped the fit.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit`.
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
        "sampler": [str, BaseSampler, type],
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
        csr = self._validate_counts(X, reset=True)
        key = root_key(self.random_state)
        workers = Workers(self.n_jobs)
        chain_workers = Workers(min(self.n_chains, workers.n_workers))
        kernel_workers = Workers(max(1, workers.n_workers // self.n_chains))
        with chain_workers, kernel_workers:
            model = self._make_model(whole_counts(csr, subkey(key, Purpose.ROUNDING), by_content=False), kernel_workers)
            check_compatible(sampler, model, self._samplers.values())
            context = self._init_callback_context(max_subtasks=self.max_iter)
            y_placeholder = _Zeros(csr.shape[0])  # monitors score only where there is a y
            context.call_on_fit_task_begin(estimator=self, X=X, y=y_placeholder)

            def summarise(chains):
                return self._fitted_attributes(model, sampler, key, chains)

            def after_pass(iteration, chains):
                if self.verbose and iteration % self.verbose == 0:
                    best = max(chains, key=Chain.quality)
                    print(f"pass {iteration} of {self.max_iter}: log density {best.log_density[-1]:.6g}")
                step = context.subcontext(task_name="pass")
                step.call_on_fit_task_begin(estimator=self, X=X, y=y_placeholder)
                return step.call_on_fit_task_end(
                    estimator=self, X=X, y=y_placeholder, reconstruction_attributes=lambda: summarise(chains)
                )

            chains = run_chains(
                sampler,
                model,
                key,
                self.n_chains,
                schedule,
                add=add_counts,
                record=self._make_recorder(model, schedule),
                after_pass=after_pass,
                workers=chain_workers,
            )
            for name, value in summarise(chains).items():
                setattr(self, name, value)
            context.call_on_fit_task_end(
                estimator=self, X=X, y=y_placeholder, reconstruction_attributes=lambda: summarise(chains)
            )
        return self

    @available_if(_takes_streams)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Learn from one more minibatch of documents.

        Minibatch t of n documents gives counts T_batch by `n_local_sweeps` passes over its tokens with the topics
        frozen; the statistics become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. The first minibatch begins with passes in which the
        topics move too. After `fit`, the stream goes on from the fitted statistics.

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
            If X has negative or non-finite values or no tokens at all, or its width is not that seen before.
        """
        with self._all_or_nothing():
            return self._partial_fit(X)

    def _partial_fit(self, X):
        begins = not self.__sklearn_is_fitted__()
        sampler = self._resolve_sampler()
        csr = self._validate_counts(X, reset=begins)
        n_batches = getattr(self, "n_batch_iter_", 0)
        key = root_key(self.random_state) if begins else self._key
        rounding = subkey(key, Purpose.ROUNDING, n_batches + 1)
        with Workers(self.n_jobs) as workers:
            model = self._make_model(whole_counts(csr, rounding, by_content=False), workers)
            check_compatible(sampler, model, self._samplers.values())
            scale = self.total_samples / csr.shape[0]
            if begins:
                state = sampler.init_stream(model, subkey(key, Purpose.MINIBATCH), scale)
            else:
                rate = min(1.0, float(self.learning_offset + n_batches + 1) ** -self.learning_decay)
                stream = subkey(key, Purpose.MINIBATCH)
                state = sampler.resume_stream(model, self._topic_counts, stream, n_batches)
                state = sampler.step_stream(model, state, rate, scale)
        for name in ("posterior_", "log_density_trace_", "n_iter_"):
            self.__dict__.pop(name, None)
        self._key = key
        self._topic_counts = state.statistics
        self._topic_word = state.position
        self._doc_topic_prior = model.doc_topic_prior
        self.sampler_ = sampler
        self.n_batch_iter_ = n_batches + 1
        return self

    def _validate_counts(self, X, *, reset):
        csr = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=np.float64, accept_large_sparse=True, ensure_min_samples=1
        )
        check_non_negative(csr, type(self).__name__)
        csr = canonical_csr(csr)
        if reset and csr.nnz == 0:
            raise ValueError("X has no tokens: every count is zero, so there is nothing to find topics in.")
        return csr

    def _make_model(self, counts: Counts, workers: Workers) -> LDAModel:
        if counts.n_tokens == 0:
            raise ValueError("X has no tokens: every count is zero, so there is nothing to find topics in.")
        n_components = self.n_components
        prior = 1.0 / n_components if self.doc_topic_prior is None else self.doc_topic_prior
        prior = np.asarray(prior, dtype=np.float64)
        if prior.shape not in ((), (n_components,)):
            raise ValueError(f"doc_topic_prior must be a number or have shape ({n_components},); got {prior.shape}.")
        if not np.all(np.isfinite(prior)) or prior.min() <= 0:
            raise ValueError("doc_topic_prior must be positive and finite.")
        words = 0.1 if self.topic_word_prior is None else self.topic_word_prior
        return LDAModel(
            counts,
            np.broadcast_to(prior, (n_components,)).copy(),
            TopicPrior(words, n_components, counts.n_features),
            workers,
        )

    def _make_recorder(self, model: LDAModel, schedule: Schedule):
        """What a draw keeps of the statistics: small traces, and whole topics where they fit into memory."""
        draw_bytes = 4 * model.n_components * model.counts.n_features
        keep_components = draw_bytes * schedule.n_draws * self.n_chains <= self.max_draws_bytes

        def record(statistics: TopicCounts):
            draw = {"topic_weights": statistics.totals / statistics.totals.sum()}
            if keep_components:
                draw["components"] = model.mode(statistics).toarray()
            return draw

        return record

    def _fitted_attributes(self, model: LDAModel, sampler: BaseSampler, key, chains: list[Chain]) -> dict:
        """All that `transform`, `score` and `partial_fit` need, from wherever the chains stand."""
        total, n_passes = max(chains, key=Chain.quality).estimate()
        topic_counts = scale_counts(total, 1.0 / n_passes)
        schedule = chains[0].schedule
        trace = np.array([chain.log_density for chain in chains])
        drawn = [i for i in range(trace.shape[1]) if schedule.is_draw(i + 1)]
        posterior = {sampler.log_density_name: trace[:, drawn]}
        for name in chains[0].draws[0] if drawn else ():
            posterior[name] = np.array([[draw[name] for draw in chain.draws] for chain in chains])
        return {
            "posterior_": posterior,
            "log_density_trace_": trace,
            "sampler_": sampler,
            "n_iter_": trace.shape[1],
            "n_batch_iter_": 0,
            "_key": key,
            "_topic_counts": topic_counts,
            "_topic_word": model.mode(topic_counts),
            "_doc_topic_prior": model.doc_topic_prior,
        }

    # What is learned

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_topic_word")

    @property
    def components_(self):
        """Word probabilities of each topic, of shape (n_components, n_features)."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("components_ is there after fit.")
        return self._topic_word.toarray()

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
        check_is_fitted(self)
        counts = self._held_out_counts(X)
        with Workers(self.n_jobs) as workers:
            return infer_proportions(self._topic_word, counts, self._doc_topic_prior, workers=workers)

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
        return self.transform(X).argmax(axis=1)

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
        proportions = np.asarray(X, dtype=np.float64)
        if proportions.ndim != 2 or proportions.shape[1] != self._n_features_out:
            raise ValueError(f"X must have shape (n_samples, {self._n_features_out}); got {proportions.shape}.")
        return proportions @ self.components_

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
        """
        return self._complete(X).perplexity

    def _complete(self, X):
        check_is_fitted(self)
        csr = self._validate_counts(X, reset=False)
        seed = int(subkey(self._key, Purpose.INFERENCE)) % 2**32
        return document_completion(self._topic_word, csr, self._doc_topic_prior, random_state=seed, n_jobs=self.n_jobs)

    def _held_out_counts(self, X) -> Counts:
        csr = self._validate_counts(X, reset=False)
        return whole_counts(csr, subkey(self._key, Purpose.INFERENCE, Purpose.ROUNDING), by_content=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


class _Zeros:
    """A lazy ``y``: callbacks call it only if they look at it."""

    def __init__(self, n: int):
        self.n = n

    def __call__(self):
        return np.zeros(self.n)
