"""The Dirichlet priors of `StochasticLDA`, from its parameters or learned by a fit by maximum likelihood."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import Run
from ...emissions import BaseEmission
from ...numerics.simd import LANES
from ...topics.proportions import check_doc_topic_prior
from ...utils._threads import Workers, split_range
from ...utils._validation import of_columns
from .._tokens.fits import AdmixturePrior, assigns_tokens
from .._tokens.layout import TOPIC_BITS
from .._tokens.model import TokenLatents
from .._tokens.new_rows import DrawsTokensFromPrior, PriorOfRows
from .._tokens.topic_counts import NO_SEEDS, Seeds, TopicCounts, TopicPrior
from .dirichlet_mle_kernels import CUT_BITS, FIRST_CELL, _climb, _expect_positive, _list_entries, _share_out, _tabulate
from .model import LDAModel, Responsibilities


def is_learned(lda: Any) -> tuple[bool, bool]:
    """Whether `doc_topic_prior` is "auto", and whether `topic_word_prior` is."""
    return isinstance(lda.doc_topic_prior, str), isinstance(lda.topic_word_prior, str)


def check_learned(lda: Any, run: Run) -> None:
    """Raise a ValueError if a prior is "auto" and this fit cannot learn it."""
    if not any(is_learned(lda)):
        return
    if not assigns_tokens(run.sampler):
        raise ValueError(f"'auto' priors need a sampler of the tokens' topics, such as 'esca', not {lda.sampler!r}.")
    if run.schedule.burn_in == 0:
        raise ValueError("'auto' priors are learned during burn-in, but burn_in is 0.")


def priors_of(lda: Any, n_features: int, seeds: Seeds = NO_SEEDS, *, fitted: bool = False) -> AdmixturePrior:
    """Both priors; with `fitted`, a prior that is "auto" has the value that the last fit has learned."""
    K, beta = lda.n_components, of_columns(lda, "topic_word_prior")
    if isinstance(beta, str):
        beta = lda.topic_word_prior_ if fitted else None
    prior = TopicPrior(0.1 if beta is None else beta, K, n_features)
    if len(seeds.columns):
        seeds.topic_of_column(n_features)  # checks the columns
        prior = TopicPrior(seeds.restrict(prior.values, K, n_features), K, n_features)
    return prior_of_topics(doc_topic_prior_of(lda, fitted=fitted), prior, seeds)


def prior_of_topics(doc_topic_prior: np.ndarray, topic_prior: TopicPrior, seeds: Seeds) -> AdmixturePrior:
    """These priors, and the attributes of a fit with them."""
    attributes = {"_seeds": seeds, "_stream": None, **prior_attributes(doc_topic_prior, topic_prior)}
    return AdmixturePrior(topic_prior, doc_topic_prior, attributes, seeds)


def doc_topic_prior_of(admixture: Any, *, fitted: bool = False) -> np.ndarray:
    """The Dirichlet parameters of the components in a row, (K,)."""
    K, alpha = admixture.n_components, admixture.doc_topic_prior
    if isinstance(alpha, str):
        alpha = admixture.doc_topic_prior_ if fitted else None
    alpha = 1.0 / K if alpha is None else alpha
    return check_doc_topic_prior(np.full(K, alpha) if np.ndim(alpha) == 0 else alpha, K)


def prior_attributes(doc_topic_prior: np.ndarray, topic_prior: TopicPrior) -> dict[str, Any]:
    """The priors as fitted attributes."""
    values = topic_prior.values
    return {"doc_topic_prior_": doc_topic_prior, "topic_word_prior_": float(values) if values.ndim == 0 else values}


class DrawsTopicsFromPrior(DrawsTokensFromPrior):
    """The prior of `StochasticLDA` for `sample_prior`; not public."""

    def _prior_of_rows(self, n_features: int | None) -> PriorOfRows:
        lda: Any = self
        if n_features is None:
            alpha = lda.doc_topic_prior_
            return PriorOfRows(BaseEmission, TopicPrior(lda.topic_word_prior_, len(alpha), lda.n_features_in_), alpha)
        if any(is_learned(lda)) or lda.seed_words:
            raise ValueError(
                "'auto' priors and seed_words depend on the data: give numbers, or fit the estimator and omit "
                "n_features."
            )
        prior = priors_of(lda, n_features)
        return PriorOfRows(BaseEmission, prior.tokens, prior.doc_topic_prior)


# The prior of the proportions has one parameter per topic; the prior of the topics has one parameter for all words.
# Both maximise a Dirichlet-multinomial likelihood, which is computed from histograms of the counts (T. P. Minka,
# "Estimating a Dirichlet distribution", 2000; H. M. Wallach, D. Mimno and A. McCallum, "Rethinking LDA: why priors
# matter", NIPS 2009).

_MIN_TASK_ROWS = 1 << 14
_MAX_TASKS = 16  # each task has its own table
_RESPONSIBILITY_ROWS = 1 << 8
_CACHE_LINE = 8  # topics (float64) per cache line
_MAX_TABLE = 1 << 16  # larger counts are rare, and are sorted instead of tabulated
# Largest parameter. If counts vary no more than those of a multinomial distribution, the likelihood has no maximum.
_CEILING = 1e4
_FIRST, _EVERY = 10, 5  # passes before the first update (early counts reflect the random initialisation); interval
# Largest factor of an update with responsibilities. They begin nearly uniform: such counts look like those of a large
# prior, which would keep them uniform.
_MOST_GROWTH = 1.25


class DocTopicHistogram(NamedTuple):
    """Number of documents with n tokens of topic k, for all n and k: sufficient for the likelihood of the prior.

    Counts of zero have no effect and are omitted.
    """

    indptr: np.ndarray  # (K + 1,) int64: topic k has [indptr[k]:indptr[k + 1]] of `values` and `weights`
    values: np.ndarray  # float64: counts n > 0, ascending
    weights: np.ndarray  # float64: number of documents with n tokens of the topic
    lengths: np.ndarray  # float64: lengths of documents, ascending
    length_weights: np.ndarray  # float64: number of documents of each length


def learn_doc_topic_prior(
    prior: np.ndarray, histogram: DocTopicHistogram, n_iter: int = 5, floor: float = 1e-3
) -> np.ndarray:
    """Increase the likelihood of the documents' topic counts in the Dirichlet parameters, (n_components,).

    Five steps nearly suffice for parameters that are wrong by a factor of ten. A parameter times `n_components` is at
    least `floor` (the default: in all a thousandth of a token): at zero a topic could never be drawn again. Unchanged
    for one topic or without tokens.
    """
    if len(prior) == 1 or len(histogram.lengths) == 0:
        return np.array(prior, np.float64)
    lowest = floor / len(prior)
    return _climb(np.clip(prior, lowest, _CEILING, dtype=np.float64), 1.0, histogram, n_iter, lowest, _CEILING)


def learn_topic_word_prior(
    prior: float, histogram: DocTopicHistogram, n_features: int, n_iter: int = 5, floor: float = 1e-3
) -> float:
    """Increase the likelihood of the topics' word counts in the single Dirichlet parameter of all words.

    The histogram is that of all topics together. The parameter is at least ``floor / n_features``.
    """
    if n_features == 1 or len(histogram.lengths) == 0:
        return float(prior)
    lowest = floor / n_features
    begin = np.clip(np.full(1, prior, np.float64), lowest, _CEILING)
    return float(_climb(begin, float(n_features), histogram, n_iter, lowest, _CEILING)[0])


def histogram_of_rows(
    entries: np.ndarray, starts: np.ndarray, stops: np.ndarray, n_components: int, workers: Workers
) -> DocTopicHistogram:
    """Histogram of the packed entries (see `layout`) of documents from `starts` to `stops`.

    Memory is at most eight bytes per token, usually less. Counts are integers, so that the result does not depend on
    the ranges of rows.
    """
    n_rows = len(starts)

    def tabulate(first, last):
        return _tabulate(*_list_entries(first, last, entries, starts, stops, n_components), n_components + 1)

    blocks = split_range(n_rows, max(_MIN_TASK_ROWS, -(-n_rows // _MAX_TASKS)))
    tables = workers.run(tabulate, blocks)
    start, table = tables[0]
    if len(tables) > 1:
        start = np.concatenate(([0], np.cumsum(np.max([np.diff(s) for s, _ in tables], axis=0))))
        table = np.zeros(start[-1], np.int32)
        for from_start, part in tables:
            table[np.arange(len(part)) + np.repeat(start[:-1] - from_start[:-1], np.diff(from_start))] += part
    filled = np.flatnonzero(table)
    cuts = np.searchsorted(filled, start)
    values = (filled - np.repeat(start[:-1], np.diff(cuts)) + 1).astype(np.float64)
    weights = table[filled].astype(np.float64)
    end = cuts[n_components]
    return DocTopicHistogram(cuts[:-1].astype(np.int64), values[:end], weights[:end], values[end:], weights[end:])


def histograms_of_responsibilities(
    gamma: np.ndarray, indptr: np.ndarray, pairs: np.ndarray, counts: np.ndarray, largest: int, workers: Workers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first three fields of a histogram, from the responsibilities of CVB0, which treats tokens as independent.

    The `pairs` of row or word i begin at ``indptr[i]``; they have at most `largest` tokens. A count is summarised by
    the exact probability that it is not zero, and its mean given that (as Teh, Newman and Welling, NIPS 2006, treat
    zero). Means alone would treat small expected counts as observed tokens, and the prior would be several times too
    large. A grid of 64 points per octave has a relative error of 1e-5 per term; memory is sixteen bytes per topic and
    document.
    """
    n, n_components = len(indptr) - 1, gamma.shape[1]
    values, weights = np.empty((n, n_components)), np.empty((n, n_components))
    blocks = split_range(n, _RESPONSIBILITY_ROWS)
    workers.run(_expect_positive, [(*rows, indptr, pairs, gamma, counts, values, weights) for rows in blocks])
    # Responsibilities in single precision may sum to a little more than 1.
    n_cells = int(np.float64(2.0 * largest).view(np.int64) >> CUT_BITS) - FIRST_CELL + 2
    table = np.empty((n_components, n_cells))
    columns = split_range(n_components, _CACHE_LINE)
    workers.run(_share_out, [(*topics, values, values.view(np.uint64), weights, table) for topics in columns])
    topics, cells = np.nonzero(table)
    starts = np.concatenate(([0], np.cumsum(np.bincount(topics, minlength=n_components)))).astype(np.int64)
    return starts, ((cells + FIRST_CELL) << CUT_BITS).view(np.float64), table[topics, cells]


def histogram_of_words(topic_counts: TopicCounts) -> DocTopicHistogram:
    """Number of cells (word, topic) with n tokens, for all words and topics together; topics replace documents."""
    counts = topic_counts.counts
    is_large = counts >= _MAX_TABLE
    table = np.bincount(counts[~is_large], minlength=1)
    small = np.flatnonzero(table[1:]) + 1
    large, large_weights = np.unique(counts[is_large], return_counts=True)
    values, weights = np.concatenate((small, large)), np.concatenate((table[small], large_weights))
    return _of_all_topics(values.astype(np.float64), weights.astype(np.float64), topic_counts.totals)


def _of_all_topics(values: np.ndarray, weights: np.ndarray, totals: np.ndarray) -> DocTopicHistogram:
    totals = totals[totals > 0].astype(np.float64)
    return DocTopicHistogram(np.array([0, len(values)]), values, weights, totals, np.ones(len(totals)))


def with_learned_priors(model: LDAModel, state: Any, doc_topic: bool, topic_word: bool, burn_in: int) -> LDAModel:
    """The model after a pass of burn-in, in some passes with new estimates of the priors that are learned.

    The priors do not change after burn-in, so that all draws are from the same posterior.
    """
    t = state.n_steps
    if not (doc_topic or topic_word) or not (t == burn_in or (t >= _FIRST and t % _EVERY == 0)):
        return model
    alpha, topic_prior = model.doc_topic_prior, model.topic_prior
    if doc_topic:
        before, alpha = alpha, learn_doc_topic_prior(alpha, count_documents(model, state.latents))
        if isinstance(state.latents, Responsibilities):
            alpha = np.minimum(alpha, _MOST_GROWTH * before)
    if topic_word:
        n_features = model.counts.n_features
        beta = learn_topic_word_prior(float(topic_prior.values), count_words(model, state), n_features)
        topic_prior = TopicPrior(beta, model.n_components, n_features)
    return with_priors(model, alpha, topic_prior)


def with_priors(model: LDAModel, doc_topic_prior: Any, topic_prior: TopicPrior) -> LDAModel:
    """A copy of the model with other priors; the corpus and its layout are shared."""
    other = model.with_doc_topic_prior(doc_topic_prior)
    other.__dict__.pop("_prior_strides", None)  # depends on the prior
    other.topic_prior = topic_prior
    return other


def count_documents(model: LDAModel, latents: Any) -> DocTopicHistogram:
    """Histogram of the documents' topic counts, from any sampler's latents."""
    counts = model.counts
    if isinstance(latents, Responsibilities):
        lengths = counts.row_sums()
        given = counts.indptr, np.arange(len(counts.indices)), counts.counts, lengths.max(initial=1)
        parts = histograms_of_responsibilities(latents.gamma, *given, model.workers)
        distinct, weights = np.unique(lengths[lengths > 0], return_counts=True)
        return DocTopicHistogram(*parts, distinct.astype(np.float64), weights.astype(np.float64))
    if isinstance(latents, TokenLatents):
        starts = model.layout.row_start[:-1]
        entries, stops = latents.entries, starts + latents.row_vectors * LANES
    else:
        starts, stops = model.token_start[:-1], model.token_start[1:]
        entries = getattr(latents, "topics", latents) | np.uint32(1 << TOPIC_BITS)  # a count of 1 each
    return histogram_of_rows(entries, starts, stops, model.n_components, model.workers)


def count_words(model: LDAModel, state: Any) -> DocTopicHistogram:
    """Histogram of the topics' word counts."""
    if not isinstance(state.latents, Responsibilities):
        return histogram_of_words(state.statistics)
    gamma, _, totals = state.latents
    given = *model.word_index, model.counts.counts, max(1, model.n_tokens)
    _, values, weights = histograms_of_responsibilities(gamma, *given, model.workers)
    return _of_all_topics(values, weights, totals)
