r"""Reversible-jump moves between numbers of topics of an orthogonal spherical admixture, for any prior of the number.

The state is a set of K orthonormal topics, uniform on the Stiefel manifold given K, and the proportions of all
documents, Dirichlet with the same parameter alpha for every topic. A *birth* adds a topic f orthogonal to the others; a
*death* removes a topic. A *split* replaces u by two topics, cos(w) u + sin(w) f and sin(w) u - cos(w) f; a *merger*
replaces two topics by u. The density of a set of K + 1 topics, relative to one of K, has a factor K + 1. It cancels
with the probabilities of choosing the topic u that is split and the topic that is removed. For given w, (u, f) and the
pair have the same uniform distribution.

**Proportions.** The topics that both states have in common keep their proportions relative to each other. The others
get their shares one after the other: if the proportions of the topics so far are theta and the next topic gets the
share s, the new proportions are ((1 - s) theta, s). In these coordinates

    Dir(theta' | alpha 1_(K+1)) dtheta' = Dir(theta | alpha 1_K) dtheta Beta(s | alpha, K alpha) ds.

s is drawn from a distribution q that is fitted to each document (`reversible_jump_kernels`). The reverse move has the
same q, and there s is read from the state. So a document contributes the factor

    a(s) = Beta(s | alpha, K alpha) L(v | theta') / (L(v | theta) q(s))

for each added topic, and 1 / a(s) for each removed topic. This factor hardly depends on s: it is close to its integral.
Topics are orthogonal, so that the proportions of the others are nearly the same with a topic and without it. Therefore
keeping them costs little: the variance of the log ratio is 1e-4 to 2e-3 per document. Independent draws of all
proportions, from the distribution that `metrics` fits to a document, would need 20 to 200 draws for the same variance.

**Direction.** q(f), relative to the uniform distribution, may depend on everything that a move and its reverse have in
common: the K topics and u, w, and the documents. It is a mixture of von Mises-Fisher distributions with several
concentrations about the same direction. This direction is found by a fixed number of ascent steps in the documents'
likelihood at their best proportions, kappa sum_d |(beta'v_d)+| over all K + 1 topics beta, from a random document. The
largest concentration is that of the conditional distribution of f there. The choice of the document does not depend on
the state, so that each document defines a reversible move.

**Ratio.** A birth or split is accepted with probability min(1, r), a death or merger with min(1, 1 / r),

    r = p(K + 1) / p(K) * c / q(f) * prod_d prod_new a / prod_old a.

c is 1 for a birth. For a split it is the probability (density) with which the merger would choose the pair and w,
relative to a uniform choice (`_MergerProposal`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from ...distributions._bessel import log_peak
from ...distributions._generator import as_generator
from ...distributions._matrix_von_mises_fisher import draw_in_complement, project_off
from ...random._keys import Purpose, subkey, uniform
from ...sparse.directions import AnyDirections
from ...utils._threads import Workers, split_range
from .reversible_jump_kernels import birth_death_factors

_DOCUMENTS, _TASKS = 64, 32  # least documents of a task; largest number of tasks
_N_ASCENT_STEPS = 8
_LEAST_GRADIENT = 1e-12
_CONCENTRATIONS = np.array([1.0, 0.25, 0.0625, 0.0])  # of the proposal, relative to the conditional distribution's
_WEIGHTS = np.array([0.3, 0.3, 0.3, 0.1])  # of these concentrations in the mixture
_SHARPNESS, _LEAST_SIMILARITY = 4, 1e-3  # exponent of the similarity of two topics' shares; constant added to it
_RIGHT_ANGLE = 0.5 * np.pi
_GROWS, _ROTATES, _TOPIC, _NEAR, _ANGLE, _SEED = range(6)  # counters of a move's key


class SizeMove(NamedTuple):
    """Result of a move: the new state if it was accepted, else the old one."""

    topics: np.ndarray  # (K, V)
    proportions: np.ndarray  # (n_directed_rows, K)
    accepted: bool
    log_ratio: float  # log acceptance ratio; -inf if the new number of topics is not allowed
    is_birth: bool  # whether it was a birth or split
    rotates: bool  # whether it was a split or merger


class Documents:
    """Documents that are not zero, processed in parallel by ranges, with their prior and concentration."""

    def __init__(self, rows: AnyDirections, directed: np.ndarray, alpha: float, kappa: float, workers: Workers):
        self.rows = rows
        self.directed = directed
        self.alpha = alpha
        self.kappa = kappa
        self.workers = workers
        self.tasks = split_range(len(directed), max(_DOCUMENTS, -(-len(directed) // _TASKS)))

    def multiply(self, topics: np.ndarray) -> np.ndarray:
        """Inner products with topics, (n, K)."""
        products = np.empty((len(self.directed), len(topics)))
        given = (np.ascontiguousarray(topics.T), products)
        self.workers.run(self.rows.fill_products, [(self.directed, *task, *given) for task in self.tasks])
        return products

    def direction_gradient(self, *given) -> np.ndarray:
        """Gradient of the documents' likelihood with respect to a direction; see `fill_direction_gradient`."""
        parts = np.empty((len(self.tasks), self.rows.n_features))
        tasks = enumerate(self.tasks)
        of_tasks = [(self.directed, *task, *given, parts[i]) for i, task in tasks]
        self.workers.run(self.rows.fill_direction_gradient, of_tasks)
        return self.kappa * parts.sum(axis=0)

    def attach(self, common, products, new_products, key, log_odds=None) -> tuple[float, np.ndarray]:
        """Draw the shares of topics one after the other, or read them from `log_odds`.

        Returns the sum of the logarithms of the factors a, and the proportions of all topics.
        """
        theta, draws = common, log_odds is None
        log_odds = np.empty_like(new_products) if draws else log_odds
        factors = np.empty(len(theta))
        log_factor = 0.0
        for i, column in enumerate(new_products.T):
            if theta.shape[1] == 0:  # the share of a single topic is 1
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


class _DirectionProposal(NamedTuple):
    """Proposal of a new topic: a mixture about a direction on the sphere orthogonal to the columns of `frame`."""

    frame: np.ndarray  # (V, K)
    direction: np.ndarray  # (V,)
    concentrations: np.ndarray

    def draw(self, rng) -> np.ndarray:
        """Draw a unit vector orthogonal to the frame."""
        concentration = float(rng.choice(self.concentrations, p=_WEIGHTS))
        fixed = np.column_stack([self.frame, self.direction])
        topic = project_off(self.frame, draw_in_complement(fixed, self.direction, concentration, rng))
        return topic / np.linalg.norm(topic)

    def log_density(self, topic: np.ndarray) -> float:
        """Log density relative to the uniform distribution."""
        n_features, n_fixed = self.frame.shape
        log_densities = self.concentrations * (float(self.direction @ topic) - 1.0)
        log_densities += log_peak(n_features - n_fixed, self.concentrations)
        return float(np.logaddexp.reduce(np.log(_WEIGHTS) + log_densities))


def propose_size(
    documents: Documents, topics: np.ndarray, proportions: np.ndarray, log_prior: np.ndarray, key: np.uint64
) -> SizeMove:
    """Propose a birth, death, split or merger with equal probabilities, and accept or reject it.

    The posterior of topics, (K, V), and of the proportions of the documents, (n, K), is invariant under the move. A
    number of topics whose `log_prior` is minus infinity, or that exceeds V, is never reached: such a proposal is
    rejected. After an accepted move the topics are in random order.
    """
    grows, rotates = bool(uniform(key, _GROWS) < 0.5), bool(uniform(key, _ROTATES) < 0.5)
    before = len(topics)
    after = before + 1 if grows else before - 1
    unchanged = SizeMove(topics, proportions, False, -np.inf, grows, rotates)
    if not 0 < after < min(len(log_prior), topics.shape[1] + 1) or not log_prior[after] > -np.inf:
        return unchanged
    # The topics to remove: the one to split, the one of a death, or the pair of a merger.
    cosine, sine, log_choice = 0.0, 1.0, 0.0
    if rotates and not grows:
        merger = _MergerProposal(proportions, documents.kappa)
        removed, angle = merger.draw(key)
        log_choice = merger.log_density(removed, angle)
    else:
        removed = np.array([int(uniform(key, _TOPIC) * before)] if rotates or not grows else [], np.int64)
        angle = _RIGHT_ANGLE * uniform(key, _ANGLE)
    if rotates:
        cosine, sine = np.cos(angle), np.sin(angle)
    common, shares = np.delete(topics, removed, axis=0), np.delete(proportions, removed, axis=1)
    old, old_shares = topics[removed], proportions[:, removed]
    left = shares.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        before_each = left[:, None] + np.column_stack([np.zeros(len(left)), np.cumsum(old_shares, axis=1)[:, :-1]])
        log_odds = np.log(old_shares) - np.log(before_each[:, : len(removed)])
    undefined = np.isnan(log_odds[:, int(len(common) == 0) :]).any()
    if undefined or (len(common) > 1 and not left.min() > 0.0):  # a sum of shares is 0 after rounding
        return unchanged
    shares = shares / left[:, None] if len(common) > 1 else np.ones_like(shares)

    # The topics to add, and the direction by which the two states differ.
    products = documents.multiply(common)
    if not grows:
        new = (cosine * old[0] + sine * old[1])[None] if rotates else old[:0]
        topic = sine * old[0] - cosine * old[1] if rotates else old[0]
        proposal = _fit_direction(documents, common, products, new, cosine, sine, key)
    else:
        proposal = _fit_direction(documents, common, products, old, cosine, sine, key)
        topic = proposal.draw(as_generator(int(subkey(key, Purpose.PROPOSAL))))
        new = np.array([cosine * old[0] + sine * topic, sine * old[0] - cosine * topic] if rotates else [topic])
    log_removed, _ = documents.attach(shares, products, documents.multiply(old), subkey(key, Purpose.SHARES), log_odds)
    log_added, theta = documents.attach(shares, products, documents.multiply(new), subkey(key, Purpose.SHARES))

    if rotates and grows:
        log_choice = _MergerProposal(theta, documents.kappa).log_density(np.array([after - 2, after - 1]), angle)
    log_choice -= proposal.log_density(topic)
    log_ratio = float(
        log_added - log_removed + log_prior[after] - log_prior[before] + (log_choice if grows else -log_choice)
    )
    if not log_ratio > np.log1p(-uniform(subkey(key, Purpose.ACCEPTANCE), 0)):
        return unchanged._replace(log_ratio=log_ratio)
    order = _random_order(after, key)
    return SizeMove(
        np.concatenate([common, new])[order], np.take(theta, order, axis=1), True, log_ratio, grows, rotates
    )


def _random_order(n_topics: int, key: np.uint64) -> np.ndarray:
    """A uniform permutation: if the newest topics were last, a sweep over topics in order would depend on the state."""
    return as_generator(int(subkey(key, Purpose.ORDER))).permutation(n_topics)


class _MergerProposal:
    """Distribution of the two topics that a merger replaces, and of the angle w, given all proportions.

    Pairs with similar shares are more probable. With probability 1/2 the angle is near the principal axis of the two
    shares, within their uncertainty; otherwise uniform, as for a split.
    """

    def __init__(self, proportions: np.ndarray, kappa: float):
        self._inner = proportions.T @ proportions
        scale = np.sqrt(np.maximum(np.diag(self._inner), np.finfo(np.float64).tiny))
        probabilities = (self._inner / np.multiply.outer(scale, scale)) ** _SHARPNESS + _LEAST_SIMILARITY
        np.fill_diagonal(probabilities, 0.0)
        self._probabilities = probabilities / probabilities.sum()
        self._width = 0.5 / np.sqrt(1.0 + kappa)

    def _interval(self, pair: np.ndarray) -> tuple[float, float]:
        (a, c), (_, b) = self._inner[np.ix_(pair, pair)]
        axis = 0.5 * np.arctan2(2.0 * c, a - b)
        return max(axis - self._width, 0.0), min(axis + self._width, _RIGHT_ANGLE)

    def draw(self, key: np.uint64) -> tuple[np.ndarray, float]:
        """Draw an ordered pair of topics, and the angle."""
        index = np.searchsorted(
            np.cumsum(self._probabilities.ravel()), uniform(key, _TOPIC) * (1.0 - 1e-9), side="right"
        )
        pair = np.array(np.unravel_index(int(index), self._probabilities.shape))
        low, high = self._interval(pair) if uniform(key, _NEAR) < 0.5 else (0.0, _RIGHT_ANGLE)
        return pair, low + (high - low) * uniform(key, _ANGLE)

    def log_density(self, pair: np.ndarray, angle: float) -> float:
        """Log of the pair's probability times the angle's density, relative to uniform ones."""
        n_topics = len(self._probabilities)
        low, high = self._interval(pair)
        near = _RIGHT_ANGLE / (high - low) if low <= angle <= high else 0.0
        return float(np.log(n_topics * (n_topics - 1) * self._probabilities[tuple(pair)] * 0.5 * (1.0 + near)))


def _fit_direction(documents, common, products, rotated, cosine, sine, key) -> _DirectionProposal:
    """Fit the proposal of a topic f, given the topics `common` and, for a split, `rotated`, which holds u."""
    rows, directed = documents.rows, documents.directed
    frame = np.ascontiguousarray(np.concatenate([common, rotated]).T)
    rotated_products = documents.multiply(rotated)[:, 0] if len(rotated) > 0 else np.zeros(len(directed))
    squares = np.square(np.maximum(products, 0.0)).sum(axis=1)
    seed = directed[int(uniform(key, _SEED) * len(directed))]
    gradient = rows.dense(np.array([seed]))[0]
    size = 0.0
    for step in range(_N_ASCENT_STEPS + 1):
        gradient = project_off(frame, gradient)
        size = float(np.linalg.norm(gradient))
        if not size > _LEAST_GRADIENT or step == _N_ASCENT_STEPS:
            break
        gradient = documents.direction_gradient(squares, rotated_products, gradient / size, cosine, sine)
    if not size > _LEAST_GRADIENT:  # the gradient is zero: a random direction, the same for the reverse move
        rng = as_generator(int(subkey(key, Purpose.DIRECTION)))
        gradient = project_off(frame, rng.standard_normal(len(gradient)))
        return _DirectionProposal(frame, gradient / np.linalg.norm(gradient), np.zeros(len(_WEIGHTS)))
    return _DirectionProposal(frame, gradient / size, size * _CONCENTRATIONS)
