"""Admixture of an exponential family: grade of membership, topics of words or word vectors, gamma-Poisson factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ...base import BaseSampledEstimator, FitStrategy, Minibatch, Run, StreamStrategy, takes_minibatches
from ...datasets import Corpus, RowFiles
from ...emissions import BaseEmission
from ...emissions._estimator import sort_hyperparameters
from ...emissions._linear_rows import distinct_lengths
from ...emissions._protocols import DirichletFamily, TokenFamily
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.sources import corpora_of, is_elsewhere
from ...random._keys import Purpose, subkey
from ...samplers import ESCA, BaseSampler, Gibbs
from ...sparse.counts import Counts, check_tokens
from ...utils._parameters import offers
from ...utils._sklearn import Interval, NumberOf
from ...utils._typing import ArrayLike, DaskLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from ...utils._validation import of_columns
from .._lda.dirichlet_mle import doc_topic_prior_of
from .._tokens.fits import AdmixturePrior, ShardedTokenFit, TokenFit, TokenStream, draws_documents
from .inference import FamilyAdmixtureInference
from .model import tokens_of

_MAX_COMPONENTS = 65_535  # a component is stored in 16 bits


@dataclass(eq=False, repr=False)
class ExponentialFamilyAdmixture(FamilyAdmixtureInference, BaseSampledEstimator):
    r"""Admixture of an exponential family: each token of a row has its own component.

    Row :math:`m` has proportions :math:`\theta_m \sim \mathrm{Dir}(\alpha)`. The component :math:`k` of each of its
    tokens is drawn from :math:`\theta_m`, and the token's value from the distribution of this component, whose
    parameters have a conjugate prior ([1]_). The meaning of a token depends on `emission`:

    - ``"bernoulli"`` (:class:`~skmanifold.emissions.Bernoulli`): grade of membership ([2]_). Each observed cell, 0 or
      1, is a token: a person answers each question like one of the types.
    - ``"multinomial"`` (:class:`~skmanifold.emissions.Multinomial`): counts of words, with the same model and result as
      :class:`~skmanifold.StochasticLDA`.
    - ``"gaussian"`` (:class:`~skmanifold.emissions.Gaussian`): counts of words that are represented by vectors,
      `word_vectors`, with a normal distribution given the component ([3]_).
    - ``"poisson"`` (:class:`~skmanifold.emissions.Poisson`): counts with a random total, the gamma-Poisson model
      ([4]_): :math:`x_{mv} \sim \mathrm{Poisson}(\sum_k \theta_{mk} \phi_{kv})` with intensities
      :math:`\theta_{mk} \sim \mathrm{Ga}(\alpha_k, b)` instead of proportions. Given a row's total, its tokens follow
      the multinomial admixture.

    For every emission, the conditional probability that a token of value :math:`v` has component :math:`k` is
    proportional to :math:`(D_{mk} + \alpha_k) \, p(v \mid k)`, where :math:`D_{mk}` is the number of the row's tokens
    with component :math:`k`.

    Parameters
    ----------
    n_components : int, default=10
        Number of components K, at most 65,535.
    emission : str or BaseEmission instance, default="multinomial"
        Distribution of the tokens: a name, which uses defaults, or an instance, which has the priors of the parameters
        and may be a custom :class:`~skmanifold.emissions.TokenEmission`.
    sampler : str or BaseSampler instance, default="esca"
        Sampling algorithm: ``"esca"`` (:class:`~skmanifold.samplers.ESCA`), stochastic EM with all tokens in parallel;
        or ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`), Gibbs sampling of the posterior.
    word_vectors : array-like of shape (n_features, n_dims), default=None
        The vector of each column of X. Required for "gaussian", and not allowed for other emissions. Rows of a pandas
        DataFrame are matched by name to the columns of X, if both have names.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet parameters :math:`\alpha` of the proportions; for "poisson" the shapes of the intensities. None is
        ``1 / n_components``. With None, `fit` has larger parameters in the first 80% of burn-in (except for
        "gaussian"), because chains that begin with them find better components: their sum decreases from a quarter of
        the mean number of tokens of a row, at most 50, to 1, by the same factor in each pass. A number is used in all
        passes.
    intensity_rate : float, default=None
        "poisson" only: rate b of the gamma prior of the intensities. With None, the prior mean of a row's total is the
        mean total of the rows of `fit` or of the first minibatch. The components do not depend on it.
    max_iter : int, default=200
        Number of passes over the data, burn-in included.
    burn_in : int, default=None
        Number of initial passes to discard; None is half of `max_iter`.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Number of independent chains. ``components_`` is the estimate of the chain with the highest mean log density.
        The other chains show whether the result is reproducible.
    n_predictive_draws : int, default=10
        "gibbs" only: number of evenly spaced draws over which `score` and `perplexity` average.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: the weight of minibatch t in the statistics is
        ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values reduce the weight of the first minibatches.
    max_draws_bytes : int, default=2**28
        Largest memory for draws of the components in ``posterior_``, in bytes. If they need more, fewer are kept,
        evenly spaced.
    n_stored_rows : int, default=0
        "gibbs" only: number of rows, the first ones of X, whose numbers of tokens of each component are kept in
        ``posterior_`` with each draw of the components.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bit-identical for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. They are given to chains first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Probabilities of a one for each component ("bernoulli"); probabilities of words ("multinomial", "poisson":
        float32, rows sum to 1, AttributeError if the array would need more than 4 GiB); or mean vectors ("gaussian",
        shape (n_components, n_dims)). The array is computed at each access.
    covariances_ : ndarray of shape (n_components, n_dims, n_dims), (n_dims, n_dims) or (n_components, n_dims)
        "gaussian" only: covariances, the covariance of all components, or variances.
    token_counts_ : csr_array of shape (n_components, n_tokens), float64
        Expected number of each token in each component (for `partial_fit`, in `total_samples` rows). For "bernoulli"
        the tokens are a zero and a one of each feature in turn; for other emissions they are the features.
    doc_topic_prior_ : ndarray of shape (n_components,)
        The prior of the proportions.
    intensity_rate_ : float
        "poisson" only: b, as given or from the data.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in.

        - ``"log_likelihood"``, shape (n_chains, n_draws): for "esca" log p(tokens | parameters, proportions) at the
          estimates; for "gibbs" the sum over tokens of the log probability given the other tokens of the row.
        - ``"topic_weights"``, shape (n_chains, n_draws, n_components): the components' shares of the tokens.
        - ``"components"`` and, for "gaussian", ``"covariances"``, as many draws as `max_draws_bytes` allows: draws of
          the parameters; for "esca" estimates.
        - ``"doc_topic_counts"``, shape (n_chains, n, n_stored_rows, n_components): only with `n_stored_rows`, for the
          same draws as ``"components"``.
    best_chain_ : int
        Index of the chain that ``components_`` comes from, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        Log likelihood after each pass, burn-in included; use it to check convergence. Not set by `partial_fit`.
    emission_ : BaseEmission
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
    StochasticLDA : The multinomial admixture, with more samplers.

    Notes
    -----
    X may be dense or sparse. For "bernoulli" it contains zeros, ones and NaN. A NaN is a missing cell and not a token.
    Zeros of a sparse X are observed, so that memory and time are those of a dense X: at least four bytes per cell.
    Other emissions need counts without NaN. `fit` and `partial_fit` round fractional counts at random, with a seed that
    depends on row and column, and warn if this changes more than 5% of the sum. `transform`, `predict`, `score` and
    `perplexity` use fractional counts as weights. Rows without tokens are allowed; their proportions are the prior
    mean.

    For "bernoulli" and "gaussian" a table of the densities of all tokens given all components is computed in each pass.
    For "multinomial" and "poisson" memory is proportional to the number of nonzero counts.

    Initial components of tokens are random; for "gaussian" they are clusters of the word vectors (k-means with random
    seeds for each chain). A chain may converge to a local mode; use `n_chains` to try several.

    References
    ----------
    .. [1] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [2] E. A. Erosheva, S. E. Fienberg and C. Joutard, "Describing disability through individual-level mixture
       models for multivariate binary data", Annals of Applied Statistics 1, 2007.
    .. [3] R. Das, M. Zaheer and C. Dyer, "Gaussian LDA for topic models with word embeddings", ACL 2015.
    .. [4] J. Canny, "GaP: a factor model for discrete data", SIGIR 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyAdmixture
    >>> rng = np.random.default_rng(0)
    >>> types = np.array([[0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]])
    >>> X = rng.random((300, 6)) < rng.dirichlet([0.5, 0.5], 300) @ types
    >>> grades = ExponentialFamilyAdmixture(2, emission="bernoulli", random_state=0).fit(X)
    >>> grades.components_.shape
    (2, 6)
    >>> grades.transform(X[:3]).shape
    (3, 2)
    """

    _samplers = {sampler.short_name: sampler for sampler in (ESCA, Gibbs)}  # noqa: RUF012
    _unit = "token"
    _runs_in_shards = True
    _read_by: ClassVar[dict] = {"n_predictive_draws": attrgetter("draws_parameters"), "n_stored_rows": draws_documents}
    _single_threaded = "blas"
    _of_some_fits = ("intensity_rate_", "_row_lengths", "_length_levels")
    _parameter_constraints = {  # noqa: RUF012
        "n_components": [NumberOf("to choose it, compare held-out scores of several numbers", _MAX_COMPONENTS)],
        "word_vectors": [None, "array-like"],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "intensity_rate": [None, Interval(Real, 0, None, closed="neither")],
    }

    n_components: int = 10
    _: KW_ONLY
    emission: str | BaseEmission = "multinomial"
    sampler: str | BaseSampler = "esca"
    word_vectors: ArrayLike | None = None
    doc_topic_prior: float | ArrayLike | None = None
    intensity_rate: float | None = None
    max_iter: int = 200
    burn_in: int | None = None
    thin: int = 2
    n_chains: int = 1
    n_predictive_draws: int = 10
    total_samples: int = 1_000_000
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    max_draws_bytes: int = 2**28
    n_stored_rows: int = 0
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike | Corpus | Sequence[Corpus] | RowFiles | DaskLike, y: Ignored = None) -> Self:
        """Fit the model to rows.

        Inside ``with distributed(client):`` (:func:`~skmanifold.distributed`) the rows are sent to the workers of the
        cluster, or read there.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus, list of Corpus, RowFiles, or Dask \
                collection
            Counts; for "bernoulli" zeros, ones and NaN. A
            :class:`~skmanifold.datasets.Corpus` and :class:`~skmanifold.datasets.RowFiles` are read into memory: of the
            workers inside ``with distributed(client):``, where X can also be a Dask array or data frame.
        y : Ignored

        Returns
        -------
        self : ExponentialFamilyAdmixture

        Raises
        ------
        ValueError
            If X has values that are impossible for the emission, no tokens, more than 100,000,000 tokens in a row or
            more than 2,147,483,647 in all; if a prior has the wrong shape or sign; or if a parameter of another
            emission is set.
        IncompatibleError
            If the sampler needs what the model or its emission does not offer.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Update the model with one minibatch of rows.

        Counts T_batch of the n rows of minibatch t are computed by `n_local_sweeps` passes over its tokens with fixed
        parameters. The statistics T become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. The initial statistics are those of the first minibatch
        after `n_first_sweeps` passes that also update the parameters. Therefore the first minibatch should be large
        enough to contain every component. After `fit`, the initial statistics are the fitted ones, scaled to
        `total_samples`. Priors of the emission that depend on the data are those of the first rows.

        A minibatch without tokens changes nothing but ``n_batch_iter_``. The estimator is fitted after the first
        minibatch with tokens.

        Available only if the sampler supports minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        self : ExponentialFamilyAdmixture

        Raises
        ------
        ValueError
            If X has values that are impossible for the emission, or too many tokens (see `fit`); or if the number of
            features, `n_components` or the emission changed since fitting began.
        IncompatibleError
            If the sampler needs a method that the model does not have.
        """
        return self._partial_fit(X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        emission, counts = self._resolve_emission(), None
        if not is_elsewhere(X):
            counts = self._read(emission, X, subkey(run.key, Purpose.ROUNDING), reset=True)
        elif not hasattr(X, "shape") and not corpora_of(X):
            raise ValueError(f"{type(self).__name__} does not read Dask bags: use a Dask array of counts.")
        fit = self, run, partial(self._begin, emission), counts, not emission.has_vector_tokens
        return ShardedTokenFit(*fit, X=X, emission=emission) if counts is None or active_session() else TokenFit(*fit)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy | None:
        emission = self._resolve_emission()
        if not batch.is_first:
            self._check_unchanged(emission)
            emission = self.emission_
        key = subkey(batch.key, Purpose.ROUNDING, batch.n_batches + 1)
        counts = self._read(emission, X, key, reset=batch.resets, may_be_empty=True)
        if not counts.n_tokens:
            return None
        if batch.is_first:
            prior = self._begin(emission, counts)
        else:
            alpha = doc_topic_prior_of(self)
            prior = AdmixturePrior(self._tokens, alpha, {"doc_topic_prior_": alpha})
        return TokenStream(self, batch, prior, counts)

    def _check_continues(self, sampler: BaseSampler) -> None:
        if self.n_components != self._n_features_out:
            raise ValueError(
                f"n_components={self.n_components}, but the fit has {self._n_features_out} components: call fit."
            )

    def _resolve_emission(self) -> Any:
        """A fresh emission, and a ValueError if what belongs to another is given, or what it needs is not."""
        emission = super()._resolve_emission()
        if self.word_vectors is not None and not emission.has_vector_tokens:
            raise ValueError(f"word_vectors are for emission='gaussian', not {self.emission!r}.")
        if self.intensity_rate is not None and not emission.has_random_totals:
            raise ValueError(f"intensity_rate is for emission='poisson', not {self.emission!r}.")
        if self.word_vectors is None and emission.has_vector_tokens:
            raise ValueError(f"emission={self.emission!r} needs word_vectors, one for each column of X.")
        return emission

    def _read(self, emission: BaseEmission, X, key: np.uint64, *, reset: bool, may_be_empty: bool = False) -> Counts:
        """Rows to fit."""
        counts = emission.read_tokens(self, X, key, reset=reset)
        if counts.n_tokens == 0 and not may_be_empty:
            raise ValueError("X has no tokens: all cells are missing or zero, or fractions that were rounded to zero.")
        check_tokens(counts)
        return counts

    def _begin(self, emission: Any, counts: Counts, row_sums: np.ndarray | None = None) -> AdmixturePrior:
        """The prior given the first rows, or given the sums of their columns as one row and the sums of the rows."""
        row_sums = counts.row_sums() if row_sums is None else row_sums
        emission, alpha = clone(emission), doc_topic_prior_of(self)
        sort_hyperparameters(emission, getattr(self, "feature_names_in_", None))
        vectors = of_columns(self, "word_vectors", axes=(0,))
        family: Any = emission.bind_tokens(counts, self.n_components, vectors)
        if not offers(family, DirichletFamily):
            self._check_offers(emission, family, [TokenFamily], type(self).__name__)
            self._check_sampler_and_family(emission, family)
        tokens = tokens_of(family, counts.n_features)
        attributes: dict[str, Any] = {"emission_": emission, "_tokens": tokens, "doc_topic_prior_": alpha}
        if emission.has_random_totals:
            rate = self.intensity_rate
            rate = alpha.sum() * len(row_sums) / counts.n_tokens if rate is None else rate
            attributes["intensity_rate_"] = float(rate)
        elif not emission.has_missing_tokens:
            attributes["_row_lengths"], attributes["_length_levels"] = distinct_lengths(row_sums)
        return AdmixturePrior(tokens, alpha, attributes)
