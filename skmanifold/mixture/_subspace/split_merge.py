"""Moves that split a cluster near a subspace, or merge two, with subspaces from explicit proposal densities.

Jain and Neal (2007) for families without conjugate priors. Two rows, the anchors, are chosen. If they are in one
cluster, a split is proposed, otherwise a merge. A launch state that depends on the anchors and the rows alone divides
them in two; labels are drawn given its two subspaces, and new subspaces given the labels. The odds of a merge contain
the probability that the same proposal returns to the present clusters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from ...random._keys import Purpose, subkey, uniform, uniform_each
from ...random._variates import exponential
from .family import SubspaceFamily, Subspaces, add_terms
from .frame_kernels import draw_centre
from .proposal_kernels import log_weight, propose_subspace, summarise
from .starts import nearest_rows, seed_subspaces

_N_SCANS = 3  # of a launch state, at least
_LOCAL = 0.5  # share of the launch states that begin with rows near an anchor, and not with subspaces through both


class Component(NamedTuple):
    """Parameters of one component."""

    basis: np.ndarray  # (d, m)
    ratios: np.ndarray  # (d,)
    centre: np.ndarray  # (m,)
    noise: float


class SplitMerge:
    """The moves for rows X, (n, m), centred about the location of the prior.

    `labels`, (n,), are modified in place; `components` are those by label. A shared `noise` is fixed; None is drawn.
    """

    def __init__(self, X, family: SubspaceFamily, labels, components: dict[int, Component], concentration: float):
        self.X, self.labels, self.components = X, labels, components
        self.log_concentration = math.log(concentration)
        self.variance = family.centre_variance
        of_noise = family.noise_shape, family.noise_rate, family.shared_noise
        self.prior = (family.log_dimension[0], family.ratio_shape, family.centre_variance, *of_noise)
        self.noise = next(iter(components.values())).noise if family.shared_noise else 1.0

    def move(self, n_scans: int, key: np.uint64) -> bool:
        """Propose one split or merge; returns whether it is accepted."""
        labels, n, K = self.labels, len(self.X), len(self.components)
        own = np.flatnonzero(labels == list(self.components)[int(uniform(key, 0) * K)])
        i, j = own[int(uniform(key, 1) * len(own))], int(uniform(key, 2) * (n - 1))
        j += j >= i
        first, second = labels[i], labels[j]
        is_split = first == second
        members = np.flatnonzero((labels == first) | (labels == second))
        rows, anchors = np.asarray(self.X[members]), np.searchsorted(members, [i, j])
        odds = self._launch(rows, anchors, n_scans, subkey(key, Purpose.START))
        if is_split:
            sides = self._draw_sides(odds, anchors, subkey(key, Purpose.LABELS))
        else:
            sides = labels[members] == second
        others = np.ones(len(rows), bool)
        others[anchors] = False
        log_proposal = -np.logaddexp(0.0, np.where(sides, -odds, odds))[others].sum()
        parts, log_split = [], self.log_concentration - log_proposal - gammaln(len(rows))
        for side, label in enumerate((first, second)):
            own, side_key = rows[sides == side], subkey(key, Purpose.COMPONENTS, side)
            part, log_weight_of = self._weigh(own, None if is_split else self.components[label], side_key)
            parts.append(part)
            log_split += gammaln(len(own)) + log_weight_of
        merged, of_merged = self._weigh(rows, self.components[first] if is_split else None, subkey(key, Purpose.ROWS))
        n_apart, first_size = K + is_split, len(rows) - np.count_nonzero(sides)
        log_split += math.log((n_apart - 1) * len(rows) / (n_apart * first_size)) - of_merged  # choosing i
        if -exponential(key, 3) >= (log_split if is_split else -log_split):
            return False
        if is_split:
            new = next(label for label in range(n) if label not in self.components)
            labels[members[sides]] = new
            self.components[first], self.components[new] = parts
        else:
            labels[members] = first
            self.components[first] = merged
            del self.components[second]
        return True

    def _weigh(self, rows, given: Component | None, key: np.uint64) -> tuple[Component, float]:
        """The given component, or a proposed one, and its `log_weight`."""
        summary, n = summarise(rows), len(rows)
        component = self._propose(summary, n, key) if given is None else given
        basis, ratios, _, noise = component
        has_order = given is None
        return component, log_weight(
            summary, n, basis, ratios, noise, self.prior, has_order, subkey(key, Purpose.ORDER)
        )

    def _propose(self, summary, n: int, key: np.uint64) -> Component:
        basis, ratios, noise = propose_subspace(summary, n, self.noise, self.prior, subkey(key, Purpose.FRAMES))
        centre = draw_centre(basis, ratios, noise, n, summary[0], self.variance, subkey(key, Purpose.CENTRES))
        return Component(basis, ratios, centre, noise)

    def _launch(self, rows, anchors, n_scans: int, key: np.uint64) -> np.ndarray:
        """Log odds of the second side of each row, (n,), in a launch state with the anchors on different sides."""
        if uniform(key, 0) < _LOCAL:
            size = int(math.exp(uniform(key, 1) * math.log(len(rows))))
            of_first = uniform(key, 2) < 0.5
            sides = np.full(len(rows), of_first)
            sides[nearest_rows(rows, anchors[0 if of_first else 1], size)] = not of_first
        else:
            largest = len(self.prior[0]) - 1
            size = min(1 << int(uniform(key, 1) * (1 + largest.bit_length())) >> 1, largest)
            sides = seed_subspaces(rows, key, (size, size), anchors).astype(bool)
        for scan in range(max(n_scans, _N_SCANS)):
            scan_key = subkey(key, Purpose.SWEEP, scan)
            sides[anchors] = False, True
            odds = self._odds(rows, sides, scan_key)
            sides = self._draw_sides(odds, anchors, subkey(scan_key, Purpose.LABELS))
        return self._odds(rows, sides, subkey(key, Purpose.COMPONENTS))

    def _odds(self, rows, sides, key: np.uint64) -> np.ndarray:
        """Log odds of the second side given subspaces proposed for both sides."""
        parts = []
        for side in range(2):
            own = rows[sides == side]
            parts.append(self._propose(summarise(own), len(own), subkey(key, side)))
        subspaces, terms = joined(parts), np.zeros((len(rows), 2))
        add_terms(rows, subspaces, subspaces.log_offsets() + np.log(np.bincount(sides)), terms)
        return terms[:, 1] - terms[:, 0]

    def _draw_sides(self, odds, anchors, key: np.uint64) -> np.ndarray:
        sides = uniform_each(key, np.arange(len(odds))) < expit(odds)
        sides[anchors] = False, True
        return sides


def joined(parts) -> Subspaces:
    """Components as one object."""
    bases, ratios, centres, noise = zip(*parts, strict=True)
    return Subspaces.of(bases, ratios, np.array(centres), np.array(noise))


def separated(subspaces: Subspaces) -> list[Component]:
    """The components of one object."""
    dims = subspaces.dims
    return [
        Component(subspaces.basis(k).copy(), subspaces.ratios[k, :d].copy(), subspaces.centres[k], subspaces.noise[k])
        for k, d in enumerate(dims)
    ]
