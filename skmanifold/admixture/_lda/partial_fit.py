"""`StochasticLDA.partial_fit`: topics of a stream of minibatches."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ...base import all_or_nothing, takes_minibatches
from ...inference._corpus_blocks import Stored
from ...inference._statistics_stream import advance_statistics
from ...models import check_compatible
from ...random._keys import Purpose, root_key, subkey
from ...samplers import BaseSampler, ManifoldSampler
from ...sparse.counts import Counts
from ...utils._threads import Workers
from ...utils._typing import Ignored, available_if, fit_context
from .._tokens.topic_counts import TopicPrior, scale_counts
from .estimate import prior_attributes
from .model import LDAModel
from .stream import TopicStream

Priors = tuple[np.ndarray, TopicPrior]


class LearnsTopicsFromStreams:
    """Method of `StochasticLDA`; not public."""

    n_batch_iter_: int
    _n_counted_rows: int  # the documents that _topic_counts speaks for

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Stored, y: Ignored = None) -> Self:
        """Learn from one more minibatch of documents.

        With ESCA, minibatch t of n documents gives counts T_batch by `n_local_sweeps` passes over its tokens with
        the topics frozen; the statistics become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. They begin as those of the first minibatch after
        `n_first_sweeps` passes in which the topics move too: let it be large enough to show every topic. After `fit`,
        they go on from the fitted ones, scaled to `total_samples`.

        The samplers by minibatches make one step, with ``total_samples / n`` times the counts; they go on from where
        `fit` left them. SCIR begins, in a stream as in `fit`, with topics of the first minibatch after two passes of
        ESCA over it. ``components_`` is then the mean of draws in the second half of the stream.

        There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Corpus
            Counts of words in documents. A :class:`~skmanifold.datasets.Corpus`, or a list of several, is one
            minibatch, which is read into memory; ``corpus.rows(start, stop)`` is a part of it.
        y : None
            Ignored.

        Returns
        -------
        self : StochasticLDA

        Raises
        ------
        ValueError
            If X has negative or non-finite values, no tokens at all or too many (as in `fit`), or its width or
            `n_components` or the sampler is not what it was when fitting began.
        """
        with all_or_nothing(self):
            return self._partial_fit(X)

    def _partial_fit(self: Any, X):
        begins = not self.__sklearn_is_fitted__()
        sampler = self._resolve_sampler()
        if begins and any(self._auto()):
            raise ValueError("'auto' priors are learned by fit: call it before partial_fit, or give numbers.")
        if not begins and self.n_components != self._n_features_out:
            raise ValueError(f"n_components={self.n_components} cannot follow {self._n_features_out} topics: call fit.")
        by_minibatch = isinstance(sampler, ManifoldSampler)
        changes = self._stream.kind is not type(sampler) if self._stream else by_minibatch
        if changes and not begins:
            was = type(self.sampler_).__name__
            raise ValueError(f"{type(sampler).__name__} cannot go on where {was} stopped: call fit.")
        key = root_key(self.random_state) if begins else self._key
        t = 0 if begins else self.n_batch_iter_
        counts = self._whole_counts(X, subkey(key, Purpose.ROUNDING, t + 1), reset=begins)
        priors = self._priors(counts.n_features, learned=not begins)
        if by_minibatch:
            fitted = self._advance_draws(sampler, counts, priors, key, t)
        else:
            fitted = self._advance_counts(sampler, counts, priors, key, t)
        for name in ("_posterior", "log_density_trace_", "n_iter_"):
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted, **prior_attributes(*priors))
        self._key, self.sampler_, self.n_batch_iter_ = key, sampler, t + 1
        return self

    def _advance_counts(
        self: Any, sampler: BaseSampler, counts: Counts, priors: Priors, key: np.uint64, t: int
    ) -> dict:
        before = None
        if self._topic_counts is not None:
            before = scale_counts(self._topic_counts, self.total_samples / self._n_counted_rows)
        rate = min(1.0, float(self.learning_offset + t + 1) ** -self.learning_decay)
        with Workers(self.n_jobs) as workers:
            model = LDAModel(counts, *priors, workers)
            check_compatible(sampler, model, self._samplers.values())
            state = advance_statistics(sampler, model, before, key, t, rate, self.total_samples)
        counted = {"_topic_counts": state.statistics, "_n_counted_rows": self.total_samples}
        return {**counted, "_estimate": state.position, "_stream": None}

    def _advance_draws(
        self: Any, sampler: ManifoldSampler, counts: Counts, priors: Priors, key: np.uint64, t: int
    ) -> dict:
        if getattr(sampler, "control_variate", None) is not None:
            raise ValueError(f"control_variate={sampler.control_variate!r} needs all documents: it is not for streams.")
        if self._stream and any(state.latents is not None for state in self._stream.states):
            raise ValueError("The fit stored the topics of all documents, which a stream cannot go on with: call fit.")
        with self._open_workers() as (chain_workers, kernel_workers):
            model = self._make_minibatches(sampler, counts, priors, kernel_workers)
            stream = self._stream or TopicStream.begin(sampler, model, key, self.n_chains)
            if t == 0:
                stream = stream.storing(self._draw_store(counts.n_features))
            stream = stream.after_batch(sampler, model, chain_workers)
        return {"_stream": stream, "_estimate": None, "_topic_counts": None, "best_chain_": stream.best_chain}
