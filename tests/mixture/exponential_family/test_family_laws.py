"""Gibbs sampling of mixtures of each family: parameters, labels and rows from their joint distribution.

Chains begin at draws from it, and rows are drawn anew after every step (Geweke, 2004): what a right sampler does leaves
the distribution as it was. The contract compares the families' draws of parameters and rows with closed forms. Wrong
variants go through the same checks, and fail.
"""

import numpy as np
import pytest
from emissions._families import BUILDERS, K, case_of
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize

from skmanifold.emissions import DenseRows
from skmanifold.mixture._exponential_family.model import FamilyModel, Position
from skmanifold.mixture._scores import fill_shares
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Gibbs
from skmanifold.samplers._base import State
from skmanifold.utils._threads import Workers

pytestmark = [
    pytest.mark.extended,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),  # interpreted 64-bit keys
    pytest.mark.skipif(not hasattr(fill_shares, "py_func"), reason="chains of kernels that are compiled"),
]
N_ROWS, ALPHA = 8, 1.4
WITH_GAPS = [f"{name}, missing" for name in BUILDERS if case_of(name).cells is not None]
each = pytest.mark.parametrize("name", [*BUILDERS, *WITH_GAPS])


def key_of(rng):
    return np.uint64(rng.integers(2**63))


def draw_rows(name, parameters, labels, rng):
    """Rows of a family; each cell is missing with probability 0.4 if the name says so."""
    case = case_of(name.removesuffix(", missing"))
    X = case.family.sample(parameters, labels, key_of(rng)).astype(float)
    if name in WITH_GAPS:
        X[rng.random(X.shape) < 0.4] = np.nan
        X[0, 0] = np.nan  # so that all rows are of one type
    return case.rows(X)


def joint_draw(name, rng):
    """Parameters and labels."""
    case = case_of(name.removesuffix(", missing"))
    weights = rng.dirichlet(np.full(K, ALPHA))
    parameters = case.family.draw(case.no_sums(), key_of(rng))
    return Position(weights, parameters), rng.choice(K, N_ROWS, p=weights).astype(np.int32)


def numbers_in(attributes):
    """All numbers of nested attributes, bounded, so that they have moments."""
    if isinstance(attributes, dict):
        return np.concatenate(list(map(numbers_in, attributes.values())))
    if isinstance(attributes, list | tuple):
        return np.concatenate(list(map(numbers_in, attributes)))
    numbers = np.ravel(np.asarray(attributes, float))
    return numbers / (1.0 + np.abs(numbers))


def statistics(name, position, labels):
    """Of weights, parameters and labels, and of some pairs of them."""
    case = case_of(name.removesuffix(", missing"))
    means, own = case.means(position.parameters), case.attributes(position.parameters)
    columns = [numbers_in(own), [labels[0] == labels[1]]]
    centre = numbers_in(case.mean)
    for weight, mean, size in zip(position.weights, means, np.bincount(labels, minlength=K) / N_ROWS, strict=True):
        bounded = numbers_in(mean)
        columns += [[weight, weight**2, size, weight * size], weight * bounded, size * bounded, (bounded - centre) ** 2]
    return np.concatenate(columns)


def change_of_statistics(name, kind=FamilyModel, n_chains=80, n_steps=12, n_draws=4000):
    """Means along chains that begin at joint draws, minus those of independent draws."""
    sampler, root, means = Gibbs(), root_key(0), []
    family = case_of(name.removesuffix(", missing")).family
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        position, labels = joint_draw(name, rng)
        state, total = State(position, subkey(root, chain), 0, -np.inf, latents=labels), 0.0
        for _ in range(n_steps):
            rows = draw_rows(name, state.position.parameters, state.latents, rng)
            state = sampler.step(kind(rows, 0, ALPHA, family, state.latents, Workers(1)), state)
            total = total + statistics(name, state.position, state.latents)
        means.append(total / n_steps)
    rng = np.random.default_rng(n_chains)
    found, exact = summarize(means), summarize([statistics(name, *joint_draw(name, rng)) for _ in range(n_draws)])
    return Estimate(found.mean - exact.mean, np.hypot(found.error, exact.error) + 1e-12)


@each
def test_steps_leave_the_joint_law_alone(name):
    assert_agrees(change_of_statistics(name), 0.0)


class CountsARowTooMany(FamilyModel):
    """As if each component had one row of ones more."""

    def draw(self, statistics, key):
        return super().draw(statistics.map(lambda array: array + 1), key)


class ForgetsTheWeights(FamilyModel):
    """Labels as if all components weighed the same."""

    def sample_rows(self, position, latents, key):
        return super().sample_rows(position._replace(weights=np.full(K, 1.0 / K)), latents, key)


class TakesTheMode(FamilyModel):
    """The mode in place of a draw."""

    def draw(self, statistics, key):
        return self.mode(statistics)


class ReadsZeros(FamilyModel):
    """Missing cells are zeros for the parameters; labels use the observed cells."""

    def sample_rows(self, position, latents, key):
        labels, _, log_likelihood = super().sample_rows(position, latents, key)
        rows, self.rows, self._completes = self.rows, DenseRows(np.nan_to_num(self.rows.values)), False
        statistics = self.count(labels)
        self.rows, self._completes = rows, True
        return labels, statistics, log_likelihood


class LeavesCellsAtTheOrigin(FamilyModel):
    """Missing cells are not drawn."""

    def __init__(self, *args):
        super().__init__(*args)
        self._completes = False


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        *((CountsARowTooMany, name) for name in BUILDERS),
        *((wrong, "bernoulli") for wrong in (ForgetsTheWeights, TakesTheMode)),
        *((wrong, f"{kind}, missing") for wrong in (ReadsZeros, LeavesCellsAtTheOrigin) for kind in ("full", "tied")),
    ],
)
def test_wrong_variants_are_told(wrong, name):
    assert_disagrees(change_of_statistics(name, wrong), 0.0)
