"""Posterior of orthonormal topics, a spherical admixture with a Stiefel manifold, and exact passes over documents."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, cast

import numpy as np

from ...distributions._matrix_von_mises_fisher import nearest_frame
from ...manifolds import Stiefel
from ...metrics import match_topics
from ...random._keys import Purpose, subkey
from ...samplers import ColumnGibbs, State
from ...sparse.directions import AnyDirections
from ...topics.document_densities import relative_concentrations
from .._spherical.concentrations import Concentrations
from .._spherical.documents import initialize_topics
from .._spherical.model import DocumentTerms, Prior, ProportionChains, SphericalModel, WordMajor
from .._spherical.passes import BlockwisePasses, TopicStatistics, no_scales
from .._spherical.setup import Setup
from .._spherical.targets import ConditionalSAM, PassSums, place_proportions
from .reversible_jump import Documents, propose_size


class OrthogonalModel(SphericalModel):
    r"""Topics of an orthogonal spherical admixture, given documents as unit vectors :math:`v_d`.

    .. math:: \phi \sim \mathrm{Uniform}(\phi' \phi = I), \quad
        \theta_d \sim \mathrm{Dir}(\alpha, \ldots, \alpha), \quad
        v_d \sim \mathrm{vMF}(\phi \theta_d / |\theta_d|, \kappa(\theta_d)).

    As :math:`|\phi \theta| = |\theta|`, the log likelihood is linear in the topics, :math:`\mathrm{tr}(F' \phi)` with
    :math:`F = \sum_d \kappa(\theta_d) v_d \theta_d' / |\theta_d|`. The position is :math:`R \phi`, (V, K), with words
    as rows. All topics have the same radius: a constant metric, under which the same step size works for all data.

    The parameters are those of `SphericalModel`, with equal numbers in `alpha` and one radius; see `unit_setup`.
    """

    def _set_metric(self, radii: np.ndarray, noise: np.ndarray) -> None:
        self.radii, self.noise = radii, noise
        self.manifold = Stiefel(self.rows.n_features, self.n_components, float(radii[0]))

    def sized(self, n_components: int) -> OrthogonalModel:
        """A copy with another number of topics."""
        if n_components == self.n_components:
            return self
        other = copy.copy(self)
        other.alpha = np.full(n_components, self.alpha[0])
        other._set_metric(self.radii, np.zeros(n_components))
        return other

    def initial_topics(self, key: np.uint64) -> np.ndarray:
        """Initial topics, (K, V): the orthonormal ones nearest to the centres of clusters."""
        return self.nearest(initialize_topics(self.rows, self.n_components, subkey(key, Purpose.START)).topics)

    def nearest(self, topics: np.ndarray) -> np.ndarray:
        """The orthonormal topics nearest to these unit vectors."""
        return nearest_frame(topics)

    def topics(self, position: np.ndarray) -> np.ndarray:
        """Topics as unit vectors, (K, V), of one chain's position."""
        return np.ascontiguousarray(position.T) / self.radii

    def to_position(self, topics: np.ndarray) -> np.ndarray:
        """Position of the given orthonormal topics, (K, V)."""
        return np.ascontiguousarray(topics.T) * self.radii

    def noise_covariance(self) -> np.ndarray:
        """Variances of the coordinates of the minibatch gradient at the position, (V K,); larger for frequent words."""
        return np.multiply.outer(self._word_power, self.noise / self.radii**2).ravel()

    def curvature_plus_noise(self, coupling: np.ndarray, noise: np.ndarray) -> np.ndarray:
        r"""Largest curvature of the log posterior with respect to unit topics, plus the gradient's variance, (1,)."""
        largest = self.document_density.reference * self.total_samples * np.linalg.eigvalsh(coupling)[-1]
        return np.array([largest + self.rows.n_features + noise.max()])

    # Parts of the log posterior

    def to_word_major(self, position: np.ndarray) -> WordMajor:
        """The topics of one chain's position, whose Gram matrix is the identity."""
        return WordMajor(position / self.radii, np.eye(self.n_components))

    def prior(self, word_topic: np.ndarray) -> Prior:
        """The uniform prior, whose gradient is zero."""
        return Prior(self.mean_direction, 0.0, np.zeros(2))

    def fill_gradient(self, rows: np.ndarray, terms: DocumentTerms, word_topic: np.ndarray, out: np.ndarray) -> Prior:
        """Write the gradient of the log posterior at the position, (V, K), as estimated from documents `rows`."""
        out[:] = 0.0
        self.add_parameter(rows, terms.weights, out)
        return self.prior(word_topic)

    def document_gradients(self, rows: np.ndarray, draws: np.ndarray, turned: WordMajor) -> np.ndarray:
        """Gradients of each document's log likelihood at the position, (n, V, K): means over draws of proportions."""
        scale = self.document_density.reference / float(self.radii[0])
        return scale * np.einsum("nv,nk->nvk", self.rows.dense(rows), self.weights(draws))

    def weights(self, draws: np.ndarray) -> np.ndarray:
        """Weights of documents in the topics, (n, K): means over draws of their proportions, (n, n_draws, K)."""
        shares = draws / np.sqrt(np.einsum("nsk,nsk->ns", draws, draws))[:, :, None]
        return np.mean(relative_concentrations(self.document_density, draws)[:, :, None] * shares, axis=1)

    def add_parameter(self, rows: np.ndarray, weights: np.ndarray, out: np.ndarray) -> None:
        """Add F / R, estimated from the weights, (n, K), of documents `rows`."""
        scale = self.document_density.reference * self.total_samples / (len(rows) * float(self.radii[0]))
        self.rows.add_pulls(rows, weights, scale, out)


def unit_setup(
    rows: AnyDirections, n_components: int, alpha: float, concentration: Any, is_learned: bool, scaled: bool = False
) -> Setup:
    """Documents and priors of an `OrthogonalModel` of uniform topics, on the unit sphere and without noise.

    `concentration` is a number, or an array with one for each topic; `scaled` says whether the radius is learned.
    """
    alphas, no_mean, concentrations = np.full(n_components, alpha), np.zeros(rows.n_features), (concentration, 0.0, 0.0)
    metric, learned = (np.ones(1), np.zeros(n_components)), (is_learned, False, False)
    return Setup(rows, alphas, no_mean, Concentrations(*concentrations), learned, *metric, scaled)


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
        self, model: Any, state: State, keys: np.ndarray, draws: np.ndarray, before: PassSums
    ) -> tuple[np.ndarray, PassSums, float | None]:
        """An exact draw needs no gradient: the running means are updated at the topics before it."""
        target = ConditionalFrames(model, draws[:, -1:])
        moving = self.sampler.step(target, self.sampler.init(target, keys, state.position))
        return moving.position, before, None

    def _resize(self, model: OrthogonalModel, state: State, proportions: np.ndarray, log_prior: np.ndarray) -> State:
        """Birth and death moves of topics, at the current proportions of the documents."""
        statistics = state.statistics
        alpha, kappa = float(model.alpha[0]), cast(float, model.concentrations.document)
        documents = Documents(model.rows, model.directed, alpha, kappa, model.workers)
        topics, moved = statistics.topics, False
        key = subkey(state.key[0], Purpose.SIZE_MOVES, statistics.n_passes)
        for i in range(self.n_size_moves):
            move = propose_size(documents, topics, proportions, log_prior, subkey(key, i))
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
