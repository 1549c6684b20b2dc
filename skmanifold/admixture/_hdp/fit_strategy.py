"""How the topic model with an inferred number of topics is fitted to all documents, in this process or in shards."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...base import Run, best_chain
from ...inference._chains import Chain
from ...inference._distributed_fits.sources import is_elsewhere, remember_columns
from ...random._keys import Purpose, subkey
from ...utils._threads import Workers
from ...utils._validation import of_columns
from .._lda.dirichlet_mle import prior_attributes
from .._tokens.fits import SHARE_OF_PASSES, TokenFit, sum_after
from .._tokens.shards import TokenShards, open_token_shards
from .._tokens.topic_counts import TopicCounts, TopicPrior
from .model import ConcentrationPriors, HDPModel, HDPPrior, HDPStatistics, add_statistics, take_topics
from .token_rows import DocumentTokens, RandomStart, start_of

_GREEDY_EVERY, _LEAST_PASSES = 5, 15  # before so many passes random topics are alike, and would be merged


class HDPFit(TokenFit):
    """The fit with samplers of topics of tokens given the topics and their weights, such as `Gibbs`."""

    draws_vary = True

    def __init__(self, admixture: Any, X: Any, run: Run):
        self.in_memory = not is_elsewhere(X)
        self.X, self.rounding_key = X, subkey(run.key, Purpose.ROUNDING)
        counts = admixture._whole_counts(X, self.rounding_key, reset=True) if self.in_memory else None
        super().__init__(admixture, run, partial(prior_of, admixture), counts)

    def _burn_in_prior(self, starts_at_random: bool) -> HDPBurnIn:
        return HDPBurnIn(self.admixture, self.run)

    def model(self, workers: Workers) -> HDPModel:
        """The model of all documents, which are in shards: one in this process, or those of a cluster."""
        shards = self._open(workers)
        try:
            if self.counts is None:
                remember_columns(self.admixture, self.X, shards.n_features)
            self.prior = self.begin(shards)
            return self.burn_in_prior.model_after(0, self.prior.model(shards, workers))
        except BaseException:
            shards.close()
            raise

    def _open(self, workers: Workers) -> Any:
        make = partial(DocumentTokens, doc_topic_prior=np.empty(0))  # the topics have no given number
        builder = TokenShards(make, self.rounding_key, type(self.admixture).__name__, streams=False)
        return open_token_shards(self.X, self.counts, builder, workers)

    def add(self, left: HDPStatistics, right: HDPStatistics) -> HDPStatistics:
        """Sum of the statistics of two passes."""
        return add_statistics(left, right)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """The concentrations, the weights of the topics and, in some draws, the topics."""
        position, ids = chain.state.position, chain.state.statistics.ids
        draw = {
            "n_components": np.array(len(ids)),
            "concentration": np.array(position.alpha),
            "topic_concentration": np.array(position.gamma),
            "topic_weights": position.weights.used,
            "topic_ids": ids.astype(np.float64),
        }
        if chain.is_whole_draw(self.stride):
            draw["components"] = position.topics.toarray()
            if self.n_stored:
                arguments = self.n_stored, len(ids)
                (counts,) = chain.model.shards.ask_latents("count_in_documents", chain.state.latents, arguments)
                draw.update(counts)
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """Means over passes of the best chain, for the topics that are in use at its end and in half of the passes."""
        best = best_chain(chains)
        total, n_passes = chains[best].estimate()
        model = chains[best].model
        chosen = np.flatnonzero(2 * total.n_passes >= n_passes)
        if not len(chosen):  # no topic has been in use for so long
            chosen = np.arange(len(total.ids))
        chosen = chosen[np.argsort(-total.counts.totals[chosen] / total.n_passes[chosen], kind="stable")]
        passes = total.n_passes[chosen]
        counts = _mean_of_each(take_topics(total.counts, chosen), passes)
        alpha, gamma = total.alpha / n_passes, total.gamma / n_passes
        n_tables = total.n_tables[chosen] / passes
        weights = n_tables / (total.n_tables.sum() / n_passes + gamma)
        weights /= max(1.0, weights.sum())
        prior: TopicPrior = model.topic_prior(len(chosen))
        return {
            "best_chain_": best,
            "n_components_": len(chosen),
            "topic_ids_": total.ids[chosen],
            "topic_weights_": weights,
            "concentration_": alpha,
            "topic_concentration_": gamma,
            **prior_attributes(alpha * weights, prior),
            "_topic_counts": counts,
            "_estimate": prior.smooth(counts),
            "_n_counted_rows": self.n_rows,
            "_key": self.run.key,
        }

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn if the largest number of topics was reached."""
        most = self.admixture.max_components
        drawn = fitted["_posterior"]["n_components"]
        if max(fitted["n_components_"], drawn.max(initial=0)) >= most:
            warnings.warn(
                f"The number of topics reached max_components={most}, so that no further topics could begin: "
                "increase it, or begin with fewer topics.",
                ConvergenceWarning,
                stacklevel=6,
            )


def prior_of(admixture: Any, shards: Any) -> HDPPrior:
    """The prior of a corpus in shards; ValueError if a hyperparameter has the wrong shape or value."""
    concentrations = ConcentrationPriors.of(admixture)
    n_features, values = shards.n_features, np.asarray(of_columns(admixture, "topic_word_prior"))
    if values.shape not in ((), (n_features,)):
        raise ValueError(
            f"topic_word_prior must be a number or have shape ({n_features},), the same for all topics; got "
            f"{values.shape}."
        )
    most, values = admixture.max_components, TopicPrior(values, 1, n_features).values
    start = start_of(admixture.init, shards.total("n_tokens"), n_features, most)
    return HDPPrior(values, concentrations, start, most, admixture.n_split_merge)


class HDPBurnIn:
    """The model in each pass of burn-in, as `BurnInPrior`; no topics are merged as long as their words are random."""

    def __init__(self, admixture: Any, run: Run):
        self.alpha, self.n_moves = admixture.concentration, admixture.n_split_merge
        self.n_passes = int(SHARE_OF_PASSES * run.schedule.burn_in)

    def model_after(self, n_passes: int, model: HDPModel) -> HDPModel:
        """The model after this number of passes over its documents."""
        alpha, n_moves = self.alpha, self.n_moves
        is_unsettled, is_early = n_passes < self.n_passes, 2 * n_passes < self.n_passes
        start = model.prior.start
        if is_unsettled and isinstance(start, RandomStart) and start.n_topics > 1:
            alpha = sum_after(n_passes, self.n_passes, model) if alpha is None else alpha
            n_moves = 0 if is_early else n_moves
        merges_greedily = is_unsettled and not is_early and n_passes >= _LEAST_PASSES and n_passes % _GREEDY_EVERY == 0
        concentrations = model.prior.concentrations._replace(alpha=alpha)
        return model.with_prior(concentrations=concentrations, n_moves=n_moves, merges_greedily=merges_greedily)


def _mean_of_each(total: TopicCounts, n_passes: np.ndarray) -> TopicCounts:
    """Mean counts, where each topic has its own number of passes."""
    shares = 1.0 / n_passes
    return total._replace(counts=(total.counts * shares[total.topics]).astype(np.float32), totals=total.totals * shares)
