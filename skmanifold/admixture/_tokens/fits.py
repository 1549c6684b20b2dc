"""How admixtures of tokens are fitted to all rows, or to a stream of minibatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...base import FitStrategy, Minibatch, Run, StatisticsStream, best_chain, samples_density
from ...emissions import BaseEmission
from ...inference._chains import Chain
from ...inference._distributed_fits.session import active_session
from ...inference._distributed_fits.shards import ShardedModel
from ...inference._distributed_fits.sources import n_columns, remember_columns
from ...inference._draw_store import DrawStore
from ...models import (
    CollapsedModel,
    CollapsedVariationalModel,
    ExpectationModel,
    LatentModel,
    MeanFieldModel,
    PartiallyCollapsedModel,
)
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler
from ...sparse.counts import Counts, no_rows
from ...utils._threads import Workers
from .._exponential_family.model import FamilyTokenModel
from .._lda.model import LDAModel
from .model import TokenModel
from .shards import RowSummary, SummedTokenShards, open_token_shards
from .topic_counts import NO_SEEDS, Seeds, TopicCounts, TopicPrior, add_counts, mean_counts, scale_counts


def draws_assignments(sampler: BaseSampler) -> bool:
    """Whether a sampler draws the topic of each token."""
    return any(protocol in sampler.requires for protocol in (LatentModel, PartiallyCollapsedModel, CollapsedModel))


def draws_documents(sampler: BaseSampler) -> bool:
    """Whether a sampler draws the topics of all tokens from their posterior."""
    return sampler.draws_parameters and draws_assignments(sampler)


def assigns_tokens(sampler: BaseSampler) -> bool:
    """Whether the state of a sampler has a topic, or a distribution over topics, for each token."""
    return draws_assignments(sampler) or CollapsedVariationalModel in sampler.requires


def is_variational(sampler: BaseSampler) -> bool:
    """Whether a sampler estimates the topics by a mean-field approximation and does not draw them."""
    return MeanFieldModel in sampler.requires


def expects_counts(sampler: BaseSampler) -> bool:
    """Whether a sampler keeps proportions of documents with dense expected counts: EM and mean-field inference."""
    return is_variational(sampler) or ExpectationModel in sampler.requires


def fits_by_minibatches(sampler: BaseSampler) -> bool:
    """Whether a pass of `fit` is many steps, each with a minibatch of documents."""
    return samples_density(sampler) or (is_variational(sampler) and sampler.batching != "full")


_MOST = 50.0  # of the first sum of the parameters
_SHARE_OF_TOKENS = 0.25  # the first sum over the mean length of a document
SHARE_OF_PASSES = 0.8  # of burn-in
_MOST_PASSES = 80  # if the fit ends when it has settled, for which a long burn-in is usual


class AdmixturePrior(NamedTuple):
    """The distribution of tokens given their components, the prior of the proportions, and what is stored of them."""

    tokens: Any  # TopicPrior or FamilyTokens
    doc_topic_prior: np.ndarray  # (K,)
    attributes: dict[str, Any]  # fitted attributes
    seeds: Seeds = NO_SEEDS

    def model(self, counts: Counts, workers: Workers) -> TokenModel:
        """The model of rows of tokens."""
        if isinstance(self.tokens, TopicPrior):
            return LDAModel(counts, self.doc_topic_prior, self.tokens, workers, seeds=self.seeds)
        return FamilyTokenModel(counts, self.doc_topic_prior, self.tokens.family, workers)

    def draw_store(self, admixture: Any, n_stored: int) -> DrawStore:
        """A store for as many draws as fit into `max_draws_bytes`, with the counts of so many rows."""
        draw_bytes = self.tokens.draw_bytes() + 8 * n_stored * len(self.doc_topic_prior)
        return DrawStore.within(admixture.max_draws_bytes, draw_bytes * admixture.n_chains, admixture.thin)


class TokenFit(FitStrategy):
    """The fit to rows in the memory of this process, with samplers of the components of tokens.

    The function `begin` returns the `AdmixturePrior` given the rows, or given the sums of their columns as one row and
    the sums of the rows. `starts_at_random` is whether the initial components of tokens are random.
    """

    in_memory = True
    prior: Any  # AdmixturePrior, or another with `model` and `draw_store`

    def __init__(
        self, admixture: Any, run: Run, begin: Callable[..., Any], counts: Counts | None, starts_at_random: bool = True
    ):
        super().__init__(run.sampler)
        self.admixture = admixture
        self.run = run
        self.begin = begin
        self.counts: Any = counts
        self.burn_in_prior = self._burn_in_prior(starts_at_random)
        self.n_unsettled = self.burn_in_prior.n_passes
        self.n_stored = admixture.n_stored_rows if draws_documents(run.sampler) else 0
        if self.n_stored and not (self.in_memory and not active_session()):
            raise ValueError("n_stored_rows needs the documents in the memory of this process: set it to 0.")

    def _burn_in_prior(self, starts_at_random: bool) -> Any:
        return BurnInPrior(self.admixture, self.run, starts_at_random)

    def model(self, workers: Workers) -> Any:
        """The model of all rows."""
        self.prior = self.begin(self.counts)
        return self.burn_in_prior.model_after(0, self.prior.model(self.counts, workers))

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The same model; sets the number of rows, and in which draws the components are kept (0: in none)."""
        self.n_rows, self.n_tokens = model.n_rows, model.n_tokens
        self.stride = self.prior.draw_store(self.admixture, self.n_stored).stride(self.run.schedule.n_draws)
        return model

    def n_units(self, model: Any) -> int:
        """The number of tokens."""
        return model.n_tokens

    def adapt(self, model: Any, state: Any) -> Any:
        """The model with the prior of the next pass of burn-in."""
        return self.burn_in_prior.model_after(state.n_steps, model)

    def add(self, left: Any, right: Any) -> Any:
        """Sum of the counts of two passes."""
        return add_counts(left, right)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Each component's share of the tokens and, in some draws, the components and their counts in the first rows.

        The components are in every `stride`-th draw, counted from the last.
        """
        totals = chain.state.statistics.totals
        draw = {"topic_weights": totals / totals.sum()}
        if chain.is_whole_draw(self.stride):
            draw |= self.prior.tokens.record(chain.sampler.parameters(chain.model, chain.state))
            if self.n_stored:
                model = chain.model
                draw |= record_documents(chain.state.latents, model.token_start, self.n_stored, model.n_components)
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean counts, and the mode of the parameters given these."""
        best = best_chain(chains)
        model, counts = chains[best].model, self._counts(chains[best])
        counted = {"_topic_counts": counts, "_estimate": self._mode(model, counts)}
        return {**self._common(model, best), **counted}

    def _common(self, model: Any, best: int) -> dict[str, Any]:
        """Attributes that do not depend on what the chains have counted."""
        common = {"best_chain_": best, "n_batch_iter_": 0, "_n_counted_rows": model.n_rows, "_key": self.run.key}
        fitted = {**common, **self._prior_of(model).attributes}
        if self.burn_in_prior.n_passes:  # a callback may see or stop the fit during burn-in
            fitted["doc_topic_prior_"] = self.prior.doc_topic_prior
        return fitted

    def _counts(self, chain: Chain) -> TopicCounts:
        return mean_counts(*chain.estimate())

    def _mode(self, model: Any, counts: TopicCounts) -> Any:
        return model.mode(counts)

    def _prior_of(self, model: Any) -> AdmixturePrior:
        """The prior of a model, which passes of burn-in may have changed."""
        return self.prior


class ShardedTokenFit(TokenFit):
    """The same fit to rows in shards: on disk, in Dask collections, or on the workers of a cluster.

    X is the one passed to `fit`, and `emission` that of the tokens.
    """

    in_memory = False

    def __init__(self, *arguments: Any, X: Any, emission: BaseEmission | None = None):
        super().__init__(*arguments)
        self.X = X
        self.emission: Any = emission

    def model(self, workers: Workers) -> Any:
        """A model without rows, as if each token occurred once."""
        n_tokens = self.counts.n_features if self.counts else n_columns(self.X) * self.emission.tokens_of_column
        summary = RowSummary(np.ones(n_tokens, np.int64), np.array([n_tokens]))
        return self.begin(summary.as_one_row(), summary.row_sums).model(no_rows(n_tokens), workers)

    def target(self, model: Any) -> ShardedModel:
        """A model with only those methods that work on shards."""
        return ShardedModel(model, None)

    def prepare(self, model: Any, workers: Workers) -> ShardedModel:
        """The rows in their shards."""
        shards = self._open(model, workers)
        sharded = ShardedModel(self.prior.model(no_rows(self.n_token_types), workers), shards)
        return super().prepare(self.burn_in_prior.model_after(0, sharded), workers)

    def _open(self, model: Any, workers: Workers) -> Any:
        """Open the shards, and set the prior by the sums of rows and columns."""
        key, whom = subkey(self.run.key, Purpose.ROUNDING), type(self.admixture).__name__
        reads = self.counts is None and type(self.emission).read_tokens is not BaseEmission.read_tokens
        given = model.doc_topic_prior, key, whom, self.emission if reads else None
        builder = SummedTokenShards(lambda summary: self._bind(summary.as_one_row(), summary.row_sums), *given)
        return open_token_shards(self.X, self.counts, builder, workers)

    def _bind(self, rows: Counts, row_sums: np.ndarray | None = None) -> Any:
        """Store what depends on the rows; returns the distribution of the tokens."""
        if self.counts is None:
            per_column = 1 if self.emission is None else self.emission.tokens_of_column
            remember_columns(self.admixture, self.X, rows.n_features // per_column)
        self.prior, self.n_token_types = self.begin(rows, row_sums), rows.n_features
        return self.prior.tokens


class TokenStream(StatisticsStream):
    """The update by one minibatch, whose counts are averaged with those before."""

    def __init__(self, admixture: Any, batch: Minibatch, prior: AdmixturePrior, counts: Counts):
        super().__init__(batch)
        self.prior = prior
        self.counts = counts
        if not batch.is_first:
            self.before = scale_counts(admixture._topic_counts, batch.total_samples / admixture._n_counted_rows)

    def model(self, workers: Workers) -> Any:
        """The model of the minibatch."""
        return self.prior.model(self.counts, workers)

    def advance(self, model: Any, workers: Workers) -> dict[str, Any]:
        """The counts, and the mode of the parameters given these."""
        state = self.step(model)
        return self._fitted(state.statistics, state.position)

    def _fitted(self, counts: TopicCounts, estimate: Any) -> dict[str, Any]:
        counted = {"_topic_counts": counts, "_n_counted_rows": self.batch.total_samples, "_estimate": estimate}
        return {**counted, **self.prior.attributes}


class BurnInPrior:
    """The prior of the proportions in each pass of burn-in, if `doc_topic_prior` is None.

    Chains that begin with larger priors find better topics. A small prior makes early choices of topics final: a token
    draws its topic given the topics of the other tokens of its document, which are still random. A large prior makes
    documents similar, so that topics of words form first. The same holds for other tokens whose initial components are
    random. If these are clusters, a large prior would mix them. EM and variational inference have distributions over
    the topics of tokens, which begin nearly uniform, and do not need it.

    The prior is larger in the first `n_passes` passes, in none if the initial components of tokens are not random.
    """

    def __init__(self, admixture: Any, run: Run, starts_at_random: bool = True) -> None:
        is_default = admixture.doc_topic_prior is None and draws_assignments(run.sampler) and starts_at_random
        self.n_components = admixture.n_components
        self.n_passes = int(SHARE_OF_PASSES * run.schedule.burn_in) if is_default else 0
        if getattr(admixture, "tol", None) is not None:
            self.n_passes = min(self.n_passes, _MOST_PASSES)

    def at(self, n_passes: int, model: Any) -> np.ndarray:
        """The Dirichlet parameters after this number of passes over the rows of a model, (K,)."""
        return np.full(self.n_components, sum_after(n_passes, self.n_passes, model) / self.n_components)

    def model_after(self, n_passes: int, model: TokenModel | ShardedModel) -> Any:
        """The model, whose rows may be in shards, with the prior of the proportions after this number of passes."""
        if not self.n_passes:
            return model
        prior = self.at(n_passes, model)
        if isinstance(model, ShardedModel):
            return model.with_head(model.head.with_doc_topic_prior(prior))
        return model.with_doc_topic_prior(prior)


def sum_after(n_passes: int, n_larger: int, model: Any) -> float:
    """The sum of the parameters after a number of passes over the rows of a model, of which `n_larger` are larger.

    It decreases from a quarter of the mean length of a row, at most 50, to 1, by the same factor in each pass.
    """
    first = min(max(_SHARE_OF_TOKENS * model.n_tokens / model.n_rows, 1.0), _MOST)
    return first ** max(0.0, 1.0 - n_passes / n_larger)


def record_documents(latents: Any, token_start: np.ndarray, n_rows: int, n_topics: int) -> dict[str, np.ndarray]:
    """Numbers of tokens of each topic in the first `n_rows` documents, as an entry of a draw, if there are any."""
    n_rows = min(n_rows, len(token_start) - 1)
    if not n_rows:
        return {}
    starts, topics = token_start[: n_rows + 1], getattr(latents, "topics", latents)
    cells = np.repeat(np.arange(n_rows), np.diff(starts)) * n_topics + topics[: starts[-1]].astype(np.int64)
    return {"doc_topic_counts": np.bincount(cells, minlength=n_rows * n_topics).reshape(n_rows, n_topics)}
