"""Exact passes over the documents: proportions given topics, topics given proportions, and the number of topics."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from ...metrics import match_topics
from ...random._keys import Purpose, subkey
from ...samplers import ColumnGibbs, State
from .._spherical.model import DocumentTerms, ProportionChains
from .._spherical.passes import BlockwisePasses, TopicStatistics, no_scales
from .._spherical.proportion_kernels import place_proportions
from .._spherical.targets import ConditionalSAM, PassSums
from .model import OrthogonalModel
from .reversible_jump import propose_size


class ConditionalFrames(ConditionalSAM):
    """Posterior of orthonormal topics given all proportions, a matrix von Mises-Fisher distribution."""

    model: OrthogonalModel

    def linear_parameter(self) -> np.ndarray:
        """F in tr(F'X), (V, K), X the position: sum_d kappa(theta_d) v_d theta_d' / |theta_d|, over the radius."""
        out = np.zeros(self.manifold.shape)
        self.model.add_parameter(self.model.directed, self.model.weights(self.draws), out)
        return out


class FramePasses(BlockwisePasses):
    """Proportions of all documents given the topics, topics given proportions, then birth and death moves of topics.

    The topics are drawn given the last of `n_draws` transitions of proportions. In each pass there are `n_size_moves`
    proposals of a birth or death, with the log probability `log_prior`, (K_max + 1,), of each number of topics; None
    keeps the number. `starts` has initial topics by the chain's key; other chains begin at the centres of clusters.
    """

    target_type = ConditionalFrames

    def __init__(
        self,
        sampler: ColumnGibbs,
        n_draws: int,
        n_adapting: int,
        n_size_moves: int = 0,
        log_prior: np.ndarray | None = None,
        starts: dict[int, np.ndarray] | None = None,
    ):
        super().__init__(sampler, None, n_draws, n_adapting)
        self.n_size_moves = n_size_moves
        self.log_prior = log_prior
        self.starts = starts or {}

    def init(self, model: Any, key: np.uint64) -> State:
        """The initial topics of this key, or the orthonormal topics nearest to the centres of clusters."""
        return self.begin(model, key, self.starts[int(key)] if int(key) in self.starts else model.initial_topics(key))

    def step(self, model: Any, state: State) -> State:
        """One pass; ``log_density`` is log p(documents | topics, proportions), relative to uniform directions."""
        model = model.sized(len(state.statistics.topics))
        state, draws = self._pass(model, state)
        return state if self.log_prior is None else self._resize(model, state, draws[:, -1], self.log_prior)

    def _move_topics(
        self,
        model: Any,
        state: State,
        keys: np.ndarray,
        draws: np.ndarray,
        terms: DocumentTerms,
        word_topic: np.ndarray,
    ) -> tuple[np.ndarray, PassSums, float | None]:
        """An exact draw needs no gradient: the running means are updated at the topics before it."""
        sums = PassSums(model.n_components)
        sums.add(terms, model.prior(word_topic))
        target = ConditionalFrames(model, draws[:, -1:])
        moving = self.sampler.step(target, self.sampler.init(target, keys, state.position))
        return moving.position, sums, None

    def _resize(self, model: OrthogonalModel, state: State, proportions: np.ndarray, log_prior: np.ndarray) -> State:
        """Birth and death moves of topics, at the current proportions of the documents."""
        statistics = state.statistics
        alpha, kappa = float(model.alpha[0]), cast(float, model.concentrations.document)
        topics, moved = statistics.topics, False
        key = subkey(state.key[0], Purpose.SIZE_MOVES, statistics.n_passes)
        for i in range(self.n_size_moves):
            state_of_move = topics, proportions, alpha, kappa, log_prior
            move = propose_size(model.rows, model.directed, *state_of_move, subkey(key, i), model.workers)
            topics, proportions, moved = move.topics, move.proportions, moved or move.accepted
        if not moved:
            return state
        model = model.sized(len(topics))
        # Exact sweeps have no step sizes: of the running means they need only the cosine, for the concentration.
        scales = no_scales(len(topics))._replace(cosine=statistics.scales.cosine)
        return state._replace(
            position=model.to_position(topics)[None],
            latents=_chains_at(model, proportions, state.latents.log_steps, subkey(key, self.n_size_moves)),
            statistics=statistics._replace(topics=topics, scales=scales),
        )


def _chains_at(
    model: OrthogonalModel, proportions: np.ndarray, log_steps: np.ndarray, key: np.uint64
) -> ProportionChains:
    """Chains of all documents at the given proportions, which have one row for each document with a direction."""
    chains = model.init_chains(0)._replace(log_steps=log_steps)
    place_proportions(
        np.ascontiguousarray(proportions), model.directed, model.alpha, key, model.on_sphere, chains.points
    )
    return chains


class SumsByNumber(NamedTuple):
    """Sums of topics over passes, separately for each number of topics."""

    by_number: dict[int, tuple[np.ndarray, int]]  # number of topics -> sum of the topics, (K, V), and number of passes

    @property
    def modal(self) -> int:
        """Most frequent number of topics; the smallest if several are equally frequent."""
        return max(sorted(self.by_number), key=lambda number: self.by_number[number][1])

    @property
    def probabilities(self) -> np.ndarray:
        """Relative frequencies of passes with 0, 1, 2, ... topics."""
        counts = np.zeros(max(self.by_number) + 1)
        for number, (_, n) in self.by_number.items():
            counts[number] = n
        return counts / counts.sum()


def as_sums(value: TopicStatistics | SumsByNumber, n: int = 1) -> SumsByNumber:
    """Convert the statistics of `n` passes with the same number of topics to `SumsByNumber`."""
    return value if isinstance(value, SumsByNumber) else SumsByNumber({len(value.topics): (value.topics, n)})


def add_by_number(left: TopicStatistics | SumsByNumber, right: TopicStatistics | SumsByNumber) -> SumsByNumber:
    """Add two sums, with the topics of `right` matched to those of `left`.

    Topics come and go at any index, so that their order may differ between passes of the same number.
    """
    sums = dict(as_sums(left).by_number)
    for number, (topics, n) in as_sums(right).by_number.items():
        if number in sums:
            total, m = sums[number]
            topics, n = total + topics[match_topics(total, topics).other], m + n
        sums[number] = topics, n
    return SumsByNumber(sums)
