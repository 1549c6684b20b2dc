r"""Moves between numbers of topics of an orthogonal spherical admixture, exact for any prior of their number.

The state is a set of K orthonormal topics, uniform on its Stiefel manifold given K, and the proportions of all
documents, Dirichlet with one parameter alpha throughout. A *birth* adds a topic f orthogonal to the others, a *death*
takes one. A *split* puts two topics, cos(w) u + sin(w) f and sin(w) u - cos(w) f, in the place of u, and a *merger* u
in the place of two. Of a set of K + 1, relative to one of K, the density has a factor K + 1, which the choices of the
topic u that is split and of the one that dies cancel; for given w, (u, f) and the pair have the same uniform law.

**Proportions.** The topics that are not touched, common to both states, keep their proportions among each other. The
others get their shares one after the other: the topics so far keep their proportions theta, and the next gets s, so
that the new ones are ((1 - s) theta, s). In these coordinates

    Dir(theta' | alpha 1_(K+1)) dtheta' = Dir(theta | alpha 1_K) dtheta Beta(s | alpha, K alpha) ds.

s comes from a law q that is fitted to each document (`_orthogonal_size_kernels`), which the reverse move has, too:
there s is read from the state. So a document brings the factor

    a(s) = Beta(s | alpha, K alpha) L(v | theta') / (L(v | theta) q(s))

for each topic that comes, and one over it for each that goes: next to the integral over s, whatever s was drawn. Topics
are orthogonal, so that the proportions of the others are nearly the same with a topic as without it, and little is lost
by keeping them: a variance of the log ratio of 1e-4 to 2e-3 for each document. Independent draws of all proportions,
from the law that `metrics` fits to a document, would have to be 20 to 200 for as little.

**Direction.** q(f), relative to the uniform law, may depend on all that a move and its reverse have in common: the K
topics and u, w, and the documents. It is a mixture of von Mises-Fisher laws of several concentrations about one
direction. That is a fixed number of steps uphill in the documents' likelihood at their best proportions,
kappa sum_d |(beta'v_d)+| over all K + 1 topics beta, from a document chosen at random; the greatest concentration is
that of the conditional law of f there. The document is chosen whatever the state: each gives a reversible move of its
own.

**Ratio.** A birth or split is accepted with probability min(1, r), a death or merger with min(1, 1 / r),

    r = p(K + 1) / p(K) * c / q(f) * prod_d prod_new a / prod_old a.

c is 1, but for a split the probability (density) with which the merger would choose the pair and w, as a multiple of
what it is where all are as likely (`_MergerLaw`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ...distributions._bessel import log_density_at_mode
from ...distributions._generator import as_generator
from ...distributions._matrix_von_mises_fisher import _project_off
from ...distributions._von_mises_fisher import sample_cosine_complement
from ...random._keys import Purpose, subkey, uniform
from ...sparse.directions import Directions
from ...topics.spherical_kernels import gather_products
from ...utils._threads import Workers, split_range
from .reversible_jump_kernels import birth_death_factors, pull_direction

_DOCUMENTS, _TASKS = 64, 32  # in a task, at least; at most
_N_CLIMBS = 8
_LEAST_PULL = 1e-12
_CONCENTRATIONS = np.array([1.0, 0.25, 0.0625, 0.0])  # of the proposal, as fractions of the conditional law's
_WEIGHTS = np.array([0.3, 0.3, 0.3, 0.1])
_SHARPNESS, _LEAST_LIKENESS = 4, 1e-3  # power of the likeness of two topics' shares, and what is added to it
_RIGHT = 0.5 * np.pi
_GROWS, _TURNS, _TOPIC, _NEAR, _ANGLE, _SEED = range(6)  # counters of a move's key


class SizeMove(NamedTuple):
    """What became of the state."""

    topics: np.ndarray  # (K, V)
    proportions: np.ndarray  # (n_directed_rows, K)
    accepted: bool
    log_ratio: float  # of the acceptance; -inf where the number was not allowed
    is_birth: bool  # or a split
    turns: bool  # whether it was a split or merger


class _Documents:
    """Documents with a direction, as threads go through them."""

    def __init__(self, rows: Directions, directed: np.ndarray, alpha: float, kappa: float, workers: Workers):
        self.rows = rows
        self.directed = directed
        self.alpha = alpha
        self.kappa = kappa
        self.workers = workers
        self.tasks = split_range(len(directed), max(_DOCUMENTS, -(-len(directed) // _TASKS)))

    def multiply(self, topics: np.ndarray) -> np.ndarray:
        """Products with topics, (n, K)."""
        products = np.empty((len(self.directed), len(topics)))
        given = (np.ascontiguousarray(topics.T), products)
        self.workers.run(gather_products, [(*self.rows[:3], self.directed, *task, *given) for task in self.tasks])
        return products

    def pull(self, *given) -> np.ndarray:
        """See `pull_direction`."""
        parts = np.empty((len(self.tasks), self.rows.n_features))
        tasks = enumerate(self.tasks)
        self.workers.run(
            pull_direction, [(*self.rows[:3], self.directed, *task, *given, parts[i]) for i, task in tasks]
        )
        return self.kappa * parts.sum(axis=0)

    def attach(self, common, products, new_products, key, log_odds=None) -> tuple[float, np.ndarray]:
        """Give topics their shares one after the other, or read them; log of the factors a, and all proportions."""
        theta, draws = common, log_odds is None
        log_odds = np.empty_like(new_products) if draws else log_odds
        factors = np.empty(len(theta))
        log_factor = 0.0
        for i, column in enumerate(new_products.T):
            if theta.shape[1] == 0:  # the first topic of all has no choice
                log_factor += self.kappa * column.sum()
                theta, products = np.ones((len(theta), 1)), column[:, None]
                continue
            odds = np.ascontiguousarray(log_odds[:, i])
            given = (theta, np.ascontiguousarray(products), column, self.alpha, self.kappa, subkey(key, i), odds)
            self.workers.run(birth_death_factors, [(draws, *task, *given, factors) for task in self.tasks])
            log_factor += factors.sum()
            theta = np.column_stack([expit(-odds)[:, None] * theta, expit(odds)])
            products = np.column_stack([products, column])
        return float(log_factor), theta


class _DirectionLaw(NamedTuple):
    """Proposal of a new topic: laws about one direction on the sphere orthogonal to the columns of `frame`."""

    frame: np.ndarray  # (V, K)
    direction: np.ndarray  # (V,)
    concentrations: np.ndarray

    @property
    def dim(self) -> int:
        return self.frame.shape[0] - self.frame.shape[1]

    def draw(self, rng) -> np.ndarray:
        """A unit vector orthogonal to the frame."""
        concentration = float(rng.choice(self.concentrations, p=_WEIGHTS))
        if self.dim == 1:
            return self.direction if rng.logistic() < 2.0 * concentration else -self.direction
        fixed = np.column_stack([self.frame, self.direction])
        tangent = _project_off(fixed, rng.standard_normal(len(fixed)))
        complement = sample_cosine_complement(self.dim, concentration, 1, rng)[0]
        tangent *= np.sqrt(complement * (2.0 - complement)) / np.linalg.norm(tangent)
        topic = _project_off(self.frame, (1.0 - complement) * self.direction + tangent)
        return topic / np.linalg.norm(topic)

    def log_density(self, topic: np.ndarray) -> float:
        """Relative to the uniform law."""
        fall = self.concentrations * (float(self.direction @ topic) - 1.0)
        if self.dim == 1:
            of_each = fall - np.logaddexp(0.0, -2.0 * self.concentrations) + np.log(2.0)
        else:
            of_each = fall + log_density_at_mode(self.dim, self.concentrations) - log_density_at_mode(self.dim, 0.0)
        return float(np.logaddexp.reduce(np.log(_WEIGHTS) + of_each))


def propose_size(
    rows: Directions,
    directed: np.ndarray,
    topics: np.ndarray,
    proportions: np.ndarray,
    alpha: float,
    kappa: float,
    log_prior: np.ndarray,
    key: np.uint64,
    workers: Workers,
) -> SizeMove:
    """A birth, death, split or merger, with equal chances, and its test.

    The law of topics and proportions given the documents is left as it is. A number of topics whose `log_prior` is
    minus infinity is never reached; where a topic more or less is not allowed, nothing moves. New topics come last.

    Parameters
    ----------
    rows : Directions
        Documents.
    directed : ndarray of shape (n,)
        Those that have a direction: the proportions of others stay out of the state.
    topics : ndarray of shape (K, V)
        Orthonormal rows.
    proportions : ndarray of shape (n, K)
        Of the directed rows; they sum to 1.
    alpha : float
        The Dirichlet parameter.
    kappa : float
        Concentration of the documents.
    log_prior : ndarray of shape (K_max + 1,)
        Log probabilities of each number of topics, but for a constant. Numbers above V are never reached.
    key : uint64
        Of this move.
    workers : Workers
        Threads; the result is the same for every number.
    """
    grows, turns = bool(uniform(key, _GROWS) < 0.5), bool(uniform(key, _TURNS) < 0.5)
    before = len(topics)
    after = before + 1 if grows else before - 1
    stays = SizeMove(topics, proportions, False, -np.inf, grows, turns)
    if not 0 < after < min(len(log_prior), topics.shape[1] + 1) or not log_prior[after] > -np.inf:
        return stays
    documents = _Documents(rows, directed, alpha, kappa, workers)

    # The topics that go: the one to split, the one to die, or a pair.
    cosine, sine, log_chance = 0.0, 1.0, 0.0
    if turns and not grows:
        merger = _MergerLaw(proportions, kappa)
        gone, angle = merger.draw(key)
        log_chance = merger.log_chance(gone, angle)
    else:
        gone = np.array([int(uniform(key, _TOPIC) * before)] if turns or not grows else [], np.int64)
        angle = _RIGHT * uniform(key, _ANGLE)
    if turns:
        cosine, sine = np.cos(angle), np.sin(angle)
    common, shares = np.delete(topics, gone, axis=0), np.delete(proportions, gone, axis=1)
    old, old_shares = topics[gone], proportions[:, gone]
    left = shares.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        passed = left[:, None] + np.column_stack([np.zeros(len(left)), np.cumsum(old_shares, axis=1)[:, :-1]])
        log_odds = np.log(old_shares) - np.log(passed[:, : len(gone)])
    lost = np.isnan(log_odds[:, int(len(common) == 0) :]).any()
    if lost or (len(common) > 1 and not left.min() > 0.0):  # to rounding: nobody knows how what is 0 is shared
        return stays
    shares = shares / left[:, None] if len(common) > 1 else np.ones_like(shares)

    # The topics that come, and the direction by which the two states differ.
    products = documents.multiply(common)
    if not grows:
        new = (cosine * old[0] + sine * old[1])[None] if turns else old[:0]
        topic = sine * old[0] - cosine * old[1] if turns else old[0]
        law = _fit_direction(documents, common, products, new, cosine, sine, key)
    else:
        law = _fit_direction(documents, common, products, old, cosine, sine, key)
        topic = law.draw(as_generator(int(subkey(key, Purpose.PROPOSAL))))
        new = np.array([cosine * old[0] + sine * topic, sine * old[0] - cosine * topic] if turns else [topic])
    taken, _ = documents.attach(shares, products, documents.multiply(old), subkey(key, Purpose.SHARES), log_odds)
    given, theta = documents.attach(shares, products, documents.multiply(new), subkey(key, Purpose.SHARES))

    if turns and grows:
        log_chance = _MergerLaw(theta, kappa).log_chance(np.array([after - 2, after - 1]), angle)
    log_choice = log_chance - law.log_density(topic)
    log_ratio = float(given - taken + log_prior[after] - log_prior[before] + (log_choice if grows else -log_choice))
    if not log_ratio > np.log1p(-uniform(subkey(key, Purpose.ACCEPTANCE), 0)):
        return stays._replace(log_ratio=log_ratio)
    return SizeMove(np.concatenate([common, new]), theta, True, log_ratio, grows, turns)


class _MergerLaw:
    """How a merger chooses its two topics and the angle of what it puts in their place, by all proportions.

    Topics are the likelier the more alike their shares are. Half of the angles are near the principal axis of the two
    shares, within what documents can tell; the others are uniform, as all of a split are.
    """

    def __init__(self, proportions: np.ndarray, kappa: float):
        self._inner = proportions.T @ proportions
        scale = np.sqrt(np.maximum(np.diag(self._inner), np.finfo(np.float64).tiny))
        chances = (self._inner / np.multiply.outer(scale, scale)) ** _SHARPNESS + _LEAST_LIKENESS
        np.fill_diagonal(chances, 0.0)
        self._chances = chances / chances.sum()
        self._width = 0.5 / np.sqrt(1.0 + kappa)

    def _interval(self, pair: np.ndarray) -> tuple[float, float]:
        (a, c), (_, b) = self._inner[np.ix_(pair, pair)]
        axis = 0.5 * np.arctan2(2.0 * c, a - b)
        return max(axis - self._width, 0.0), min(axis + self._width, _RIGHT)

    def draw(self, key: np.uint64) -> tuple[np.ndarray, float]:
        """Topics, in their order, and the angle."""
        place = np.searchsorted(np.cumsum(self._chances.ravel()), uniform(key, _TOPIC) * (1.0 - 1e-9), side="right")
        pair = np.array(np.unravel_index(int(place), self._chances.shape))
        low, high = self._interval(pair) if uniform(key, _NEAR) < 0.5 else (0.0, _RIGHT)
        return pair, low + (high - low) * uniform(key, _ANGLE)

    def log_chance(self, pair: np.ndarray, angle: float) -> float:
        """Log of the pair's probability and the angle's density, over what they are if both are uniform."""
        n_topics = len(self._chances)
        low, high = self._interval(pair)
        near = _RIGHT / (high - low) if low <= angle <= high else 0.0
        return float(np.log(n_topics * (n_topics - 1) * self._chances[tuple(pair)] * 0.5 * (1.0 + near)))


def _fit_direction(documents, common, products, turned, cosine, sine, key) -> _DirectionLaw:
    """The proposal of a topic f besides `common` and `turned`, the topic u of a split, if any."""
    rows, directed = documents.rows, documents.directed
    frame = np.ascontiguousarray(np.concatenate([common, turned]).T)
    along = documents.multiply(turned)[:, 0] if len(turned) > 0 else np.zeros(len(directed))
    squares = np.square(np.maximum(products, 0.0)).sum(axis=1)
    seed = directed[int(uniform(key, _SEED) * len(directed))]
    entries = slice(rows.indptr[seed], rows.indptr[seed + 1])
    pull = np.zeros(rows.n_features)
    pull[rows.indices[entries]] = rows.data[entries]
    size = 0.0
    for climb in range(_N_CLIMBS + 1):
        pull = _project_off(frame, pull)
        size = float(np.linalg.norm(pull))
        if not size > _LEAST_PULL or climb == _N_CLIMBS:
            break
        pull = documents.pull(squares, along, pull / size, cosine, sine)
    if not size > _LEAST_PULL:  # no document points there: any direction, the same for the reverse move
        rng = as_generator(int(subkey(key, Purpose.DIRECTION)))
        pull = _project_off(frame, rng.standard_normal(len(pull)))
        return _DirectionLaw(frame, pull / np.linalg.norm(pull), np.zeros(len(_WEIGHTS)))
    return _DirectionLaw(frame, pull / size, size * _CONCENTRATIONS)
