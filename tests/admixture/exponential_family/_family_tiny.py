"""Grades of membership small enough to enumerate, written out in numpy, and many copies of them run at once.

Two rows answer three items. A copy has rows and items of its own, all other cells missing, so that copies in one model
are independent: components share nothing but their numbers.
"""

import itertools

import numpy as np
from scipy.special import betaln, gammaln

from skmanifold.admixture._exponential_family.model import FamilyTokenModel
from skmanifold.emissions._bernoulli import BernoulliFamily
from skmanifold.sparse.counts import Counts
from skmanifold.utils._threads import Workers

X = np.array([[1, 0, 1], [0, 1, 1]])
ROW, ITEM, VALUE = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), X.ravel()
ALPHA = np.array([0.9, 0.5])
ONES, ZEROS = np.array([0.7, 0.3, 1.2]), np.array([0.4, 0.9, 0.6])
STATES = np.array(list(itertools.product(range(2), repeat=6)))
_PAIRS = np.triu_indices(6, 1)


def counts_of(state):
    """Cells of rows in components, (2, 2), and of items in components: ones and all, (2, 3) each."""
    of_rows, ones, cells = np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((2, 3))
    np.add.at(of_rows, (ROW, state), 1)
    np.add.at(ones, (state, ITEM), VALUE)
    np.add.at(cells, (state, ITEM), 1)
    return of_rows, ones, cells


def probabilities(state):
    """Of ones, (2, 3)."""
    _, ones, cells = counts_of(state)
    return (ones + ONES) / (cells + ONES + ZEROS)


def esca_transition():
    """All six cells at once, given the counts before."""
    transition = np.ones((64, 64))
    for i, state in enumerate(STATES):
        p = probabilities(state)[:, ITEM]
        law = (counts_of(state)[0] + ALPHA)[ROW].T * np.where(VALUE, p, 1 - p)
        law /= law.sum(axis=0)
        transition[i] = law[STATES, np.arange(6)].prod(axis=1)
    return transition


def stationary(transition):
    """The left eigenvector of eigenvalue 1."""
    values, vectors = np.linalg.eig(transition.T)
    vector = vectors[:, np.argmin(np.abs(values - 1))].real
    return vector / vector.sum()


def log_joints():
    """Log p(cells, components) of all states."""
    out = np.empty(64)
    for i, state in enumerate(STATES):
        of_rows, ones, cells = counts_of(state)
        prior = gammaln(of_rows + ALPHA).sum() - 2 * gammaln(ALPHA).sum()
        out[i] = prior + (betaln(ones + ONES, cells - ones + ZEROS) - betaln(ONES, ZEROS)).sum()
    return out


def posterior():
    law = np.exp(log_joints() - log_joints().max())
    return law / law.sum()


def statistics(states, p):
    """Of states (..., 6) and probabilities (..., 2, 3): equal components, components, log joint, and probabilities."""
    same = states[..., _PAIRS[0]] == states[..., _PAIRS[1]]
    joint = log_joints()[states @ (2 ** np.arange(5, -1, -1))]
    return np.concatenate([same, states, joint[..., None], p.reshape(*p.shape[:-2], 6)], axis=-1, dtype=float)


def expected(law):
    """Of `statistics`, where states have this law and probabilities are expected given them."""
    return law @ statistics(STATES, np.array([probabilities(state) for state in STATES]))


def copied_tokens(values):
    """Copies of cells with `values`, (R, 6), as tokens."""
    n = len(values)
    item = 3 * np.arange(n)[:, None] + ITEM
    indices = (2 * item + values).astype(np.int32).ravel()
    return Counts(np.arange(0, 6 * n + 1, 3), indices, np.ones(6 * n, np.int32), 6 * n)


def copied_model(values, kind=FamilyTokenModel, family=BernoulliFamily):
    n = len(values)
    return kind(copied_tokens(values), ALPHA, family(np.tile(ONES, n), np.tile(ZEROS, n), 2), Workers(1))


def of_copies(parameters):
    """Probabilities of the copies' own items, (R, 2, 3)."""
    return np.moveaxis(parameters.means.reshape(-1, 3, 2), 2, 1)


class HalvesThePrior(BernoulliFamily):
    """Draws from counts and half of the prior."""

    def draw(self, statistics, key):
        return BernoulliFamily(self.ones / 2, self.zeros / 2, self.n_components).draw(statistics, key)
