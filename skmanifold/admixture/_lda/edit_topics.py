"""Fitted estimators with some topics merged or removed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ...inference._draw_store import draws_of
from ...samplers._cir.lazy_cir_rows import make_row_prior, sum_columns
from ...samplers._cir.scir import SCIRRowsState
from ...topics.topic_word import TopicWord, as_topic_word
from ...utils._conditions import Array, Integer, Sizes
from ...utils._declared import Lacking, Saved
from ...utils._typing import ArrayLike
from ...utils._validation import of_columns
from .._tokens.topic_counts import NO_SEEDS, Seeds, TopicPrior, sum_topics, topic_word_prior
from .dirichlet_mle import prior_attributes
from .minibatch import TopicStream

Groups = list[np.ndarray]  # the former topics of each topic, ascending


_DRAWN = draws_of(
    "log_likelihood",
    "log_joint",
    "objective",
    topic_weights=Array("float64", "n_chains n_draws n_components", low=0, sums_to_one=-1),
    components=Array("float32", "n_chains n_component_draws n_components n_features", low=0, sums_to_one=-1),
    doc_topic_counts=Array("int64", "n_chains n_component_draws _ n_components", low=0),
)


class EditsTopics:
    """Methods that merge or remove topics of a fitted estimator; not public."""

    doc_topic_prior_: np.ndarray
    topic_word_prior_: Annotated[float | np.ndarray, topic_word_prior]
    _posterior: Lacking[Annotated[dict[str, np.ndarray], _DRAWN]]
    _seeds: Lacking[Seeds] = NO_SEEDS
    _estimate: Saved[TopicWord | None]
    _stream: Saved[TopicStream | None]
    n_batch_iter_: Saved[int]
    _n_counted_rows: Lacking[Annotated[int, Integer(low=1)]]  # number of documents in _topic_counts

    def _disagreement(self, sizes: Sizes) -> str | None:
        lda: Any = self
        stream = lda._stream
        if lda._estimate is None and stream is None:
            return "has no topics"
        if (lda._topic_counts is None) != (stream is not None):
            return "has both counts of topics and draws of a stream, or neither"
        if stream is not None and stream.kind is not type(lda.sampler_):
            return "has a stream of another sampler"
        lazy = stream is not None and any(state.position is None for state in stream.states)
        if lazy and lda._estimate is None and stream.row_prior is None:
            return "lacks the prior of its stream"
        if lda._topic_counts is not None and "_n_counted_rows" not in vars(lda):
            return "lacks the number of rows of its counts"
        return super()._disagreement(sizes)  # type: ignore[misc]

    def merge_topics(self, groups: Sequence[ArrayLike]) -> Self:
        r"""Merge topics, such as several topics about one subject.

        A merged topic has the sums of the counts and of the priors of its topics: for topics k and l

        .. math:: n_{kv} + n_{lv}, \qquad \alpha_k + \alpha_l, \qquad \beta_{kv} + \beta_{lv}.

        This is the aggregation property of Dirichlet distributions: :math:`\theta_k + \theta_l` has the parameter
        :math:`\alpha_k + \alpha_l`, and a mean of :math:`\phi_k \sim \mathrm{Dir}(\beta_k)` and
        :math:`\phi_l \sim \mathrm{Dir}(\beta_l)`, weighted by a beta variable with the parameters
        :math:`\sum_v \beta_{kv}` and :math:`\sum_v \beta_{lv}`, is :math:`\mathrm{Dir}(\beta_k + \beta_l)`. If topics
        have the same word probabilities, their sum in `transform` does not change.

        Parameters
        ----------
        groups : list of lists of int
            Indices of the topics of each merged topic. Topics in no group remain as they are. A merged topic has the
            place of the smallest index of its group, and the order of the others does not change. If all topics are in
            one group, the result has a single topic.

        Returns
        -------
        merged : StochasticLDA
            A new fitted estimator; this one does not change. Its parameters `n_components`, `doc_topic_prior`,
            `topic_word_prior` and `seed_words` have the values of the merged topics, so that `partial_fit` and a new
            `fit` use them.

        Raises
        ------
        ValueError
            If a group is empty, an index is out of range or occurs twice, or the sampler keeps neither counts nor sums
            of gamma variables ("sgrld", "sgrhmc", "sgld", "sghmc").

        See Also
        --------
        remove_topics : Remove topics.

        Notes
        -----
        ``posterior_`` has the draws of the best chain only, because the topics of other chains are different ones. In
        each draw the merged topic is the mean of its topics, weighted by their shares of the tokens, and shares are
        summed. Log densities are those of the fit before merging.

        Examples
        --------
        >>> from skmanifold import StochasticLDA
        >>> from skmanifold.datasets import make_lda_corpus
        >>> X = make_lda_corpus(n_samples=200, n_features=100, n_components=5, random_state=0).data
        >>> lda = StochasticLDA(6, random_state=0).fit(X)
        >>> merged = lda.merge_topics([[0, 3]])
        >>> merged.components_.shape
        (5, 100)
        >>> bool(abs(merged.topic_word_counts_.sum() - lda.topic_word_counts_.sum()) < 0.1)
        True
        """
        check_is_fitted(self)
        n_topics = len(self.doc_topic_prior_)
        if isinstance(groups, str) or not isinstance(groups, Iterable):
            raise ValueError(f"groups must be a list of lists of topics; got {groups!r}.")
        chosen = [_checked(group, n_topics, "groups must be a list of lists of topics") for group in groups]
        if any(len(group) == 0 for group in chosen):
            raise ValueError("groups has an empty group.")
        listed = np.concatenate([np.empty(0, np.int64), *chosen])
        _check_distinct(listed, "groups")
        others = np.setdiff1d(np.arange(n_topics), listed)[:, np.newaxis]
        return _edited(self, sorted([*(np.sort(group) for group in chosen), *others], key=lambda group: group[0]))

    def remove_topics(self, topics: ArrayLike) -> Self:
        """Remove topics, such as one of words without meaning.

        The counts and priors of these topics are dropped, and the other topics do not change. `transform` then explains
        all tokens of a document by the remaining topics.

        Parameters
        ----------
        topics : array-like of int
            Indices of the topics. At least one topic must remain.

        Returns
        -------
        remaining : StochasticLDA
            A new fitted estimator; this one does not change. The remaining topics keep their order. Its parameters
            `n_components`, `doc_topic_prior`, `topic_word_prior` and `seed_words` have the values of these topics.
            Seed words of a removed topic may occur in all topics from then on.

        Raises
        ------
        ValueError
            If an index is out of range or occurs twice, no topic would remain, or the sampler does not allow it; see
            `merge_topics`.

        See Also
        --------
        merge_topics : Merge topics.

        Notes
        -----
        ``posterior_`` has the draws of the best chain only; shares are divided by the sum of those that remain. Log
        densities are those of the fit with all topics.
        """
        check_is_fitted(self)
        n_topics = len(self.doc_topic_prior_)
        removed = _checked(topics, n_topics, "topics must be a list of indices of topics")
        _check_distinct(removed, "topics")
        if len(removed) == n_topics:
            raise ValueError(f"topics has all {n_topics} topics, but at least one must remain.")
        return _edited(self, list(np.setdiff1d(np.arange(n_topics), removed)[:, np.newaxis]))


def _checked(topics: Any, n_topics: int, rule: str) -> np.ndarray:
    """Indices of topics as an array."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise ValueError(f"{rule}; got {topics!r}.")
    listed = list(topics)
    if not all(isinstance(topic, int | np.integer) and not isinstance(topic, bool) for topic in listed):
        raise ValueError(f"{rule}; got {topics!r}.")
    for topic in listed:
        if not 0 <= topic < n_topics:
            raise ValueError(f"{rule}, from 0 to {n_topics - 1}; got {topic}.")
    return np.array(listed, np.int64)


def _check_distinct(listed: np.ndarray, name: str) -> None:
    found, how_often = np.unique(listed, return_counts=True)
    if (how_often > 1).any():
        raise ValueError(f"{name} has topic {found[how_often > 1][0]} twice.")


def _edited(lda: Any, groups: Groups) -> Any:
    """A fitted copy whose topics are the sums of groups of topics."""
    stream = lda._stream
    if stream is not None and not all(isinstance(state, SCIRRowsState) for state in stream.states):
        name = type(lda.sampler_).__name__
        raise ValueError(f"{name} keeps no counts of topics, so its topics cannot be merged or removed.")
    out, best = clone(lda), getattr(lda, "best_chain_", 0)
    out.__dict__.update({name: value for name, value in vars(lda).items() if name not in vars(out)})
    out.n_components = len(groups)
    out.doc_topic_prior = np.array([lda.doc_topic_prior_[group].sum() for group in groups])
    out.seed_words = _joined_seeds(lda.seed_words, groups)
    out._seeds = _moved_seeds(lda._seeds, groups)
    out.topic_word_prior, prior = _summed_prior(lda, groups, out._seeds)
    out.__dict__.update(prior_attributes(out.doc_topic_prior.copy(), prior))
    if hasattr(lda, "_posterior"):
        out._posterior = _posterior_of(lda, best, groups)
        out.log_density_trace_ = lda.log_density_trace_[[best]]
    if hasattr(lda, "best_chain_"):
        out.best_chain_ = 0
    if lda._topic_counts is not None:
        out._topic_counts = sum_topics(lda._topic_counts, groups)
        out._estimate = prior.smooth(out._topic_counts)
    elif lda._estimate is not None:
        shares = lda._posterior["topic_weights"][best].sum(axis=0)
        out._estimate = as_topic_word(_mean_topics(lda._estimate.toarray(np.float64), shares, groups))
    if stream is not None:
        out._stream = _stream_of(stream, best, groups, prior)
    return out


# Priors and seeds


def _summed_prior(lda: Any, groups: Groups, seeds: Seeds) -> tuple[Any, TopicPrior]:
    """The parameter `topic_word_prior`, and the prior; the parameter remains if all topics share it and none merge."""
    parameter, V = of_columns(lda, "topic_word_prior"), lda.n_features_in_
    prior = lda.topic_word_prior_
    if len(lda._seeds.columns):  # the prior without seed words, which may be those of a removed topic
        prior = np.asarray(0.1 if parameter is None else parameter, np.float64)
    if np.ndim(prior) == 2 or any(len(group) > 1 for group in groups):
        rows = np.atleast_2d(prior)
        rows = np.broadcast_to(rows, (lda._n_features_out, rows.shape[1]))
        parameter = prior = np.array([rows[group].sum(axis=0) for group in groups])
    if len(seeds.columns):
        prior = seeds.restrict(prior, len(groups), V)
    return parameter, TopicPrior(prior, len(groups), V)


def _joined_seeds(seed_words: Any, groups: Groups) -> Any:
    """The parameter `seed_words`; the names of merged topics are joined."""
    if seed_words is None:
        return None
    lists = list(seed_words.values() if isinstance(seed_words, Mapping) else seed_words)
    seeded = [group[group < len(lists)] for group in groups if group[0] < len(lists)]
    joined = [[word for topic in group for word in lists[topic]] for group in seeded]
    if not isinstance(seed_words, Mapping) or not joined:
        return joined or None
    names = list(seed_words)
    return dict(zip((" + ".join(names[topic] for topic in group) for group in seeded), joined, strict=True))


def _moved_seeds(seeds: Seeds, groups: Groups) -> Seeds:
    """The seeds of topics that remain."""
    place = {int(topic): new for new, group in enumerate(groups) for topic in group}
    topics = np.array([place.get(int(topic), -1) for topic in seeds.topics], np.int64)
    return Seeds(seeds.columns[topics >= 0], topics[topics >= 0])


# Draws


def _posterior_of(lda: Any, best: int, groups: Groups) -> dict[str, np.ndarray]:
    """The best chain's draws."""
    posterior = {name: values[[best]] for name, values in lda._posterior.items()}
    shares = posterior["topic_weights"]
    if "components" in posterior:
        drawn = zip(posterior["components"][0], shares[0][lda._component_draws], strict=True)
        topics = [_mean_topics(*draw, groups) for draw in drawn]
        shape = (1, len(topics), len(groups), lda.n_features_in_)
        posterior["components"] = np.array(topics, np.float32).reshape(shape)
    posterior["topic_weights"] = _summed_shares(shares, groups)
    return posterior


def _mean_topics(topics: np.ndarray, shares: np.ndarray, groups: Groups) -> np.ndarray:
    """Word probabilities of the groups: means weighted by shares, ``(len(groups), n_features)``."""
    out = topics[[group[0] for group in groups]]
    for place, group in enumerate(groups):
        if len(group) > 1:
            weights = shares[group] if shares[group].sum() > 0 else np.ones(len(group))
            out[place] = np.average(topics[group], axis=0, weights=weights)
    return out


def _summed_shares(shares: np.ndarray, groups: Groups) -> np.ndarray:
    """Shares of the groups, which sum to 1 again if topics are removed."""
    n_topics = shares.shape[-1]
    out = np.stack([shares[..., group].sum(axis=-1) for group in groups], axis=-1)
    if sum(map(len, groups)) < n_topics:
        total = out.sum(axis=-1, keepdims=True)
        out = np.where(total > 0, out / np.where(total > 0, total, 1.0), 1.0 / len(groups))
    return out


# Streams


def _stream_of(stream: TopicStream, best: int, groups: Groups, prior: TopicPrior) -> TopicStream:
    """The best chain of SCIR; its columns are gamma processes, and a sum of these is one with the summed prior."""
    state: Any = stream.states[best]
    store = copy.copy(stream.stores[best])
    store._held = [(time, _edited_draw(draw, groups)) for time, draw in store._held]
    out = TopicStream(stream.kind, [state._replace(rows=sum_columns(state.rows, groups), latents=None)])
    out.stores, out.n_batches = [store], stream.n_batches
    out.log_likelihood = stream.log_likelihood[[best]]
    if stream.row_prior is not None:
        V, K = len(state.rows.log_theta), len(groups)
        out.row_prior = make_row_prior(*prior.strides(K, V), V, K)
    return out


def _edited_draw(draw: dict[str, np.ndarray], groups: Groups) -> dict[str, np.ndarray]:
    components = _mean_topics(draw["components"], draw["topic_weights"], groups)
    return {**draw, "components": components, "topic_weights": _summed_shares(draw["topic_weights"], groups)}
