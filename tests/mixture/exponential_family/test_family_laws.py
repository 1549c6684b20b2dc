"""Gibbs sampling of mixtures of exponential families: parameters, labels and rows from their joint law.

Chains begin at draws from it, made by numpy, and rows are drawn anew after every step (Geweke, 2004): what a right
sampler does leaves all prior expectations as they were. Wrong variants go through the same checks, and fail.
"""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats as st
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import digamma

from skmanifold.emissions._bernoulli import BernoulliFamily
from skmanifold.emissions._categorical import CategoricalFamily
from skmanifold.emissions._codes import category_table
from skmanifold.emissions._dense_rows import IncompleteRows
from skmanifold.emissions._gaussian.base import NormalPrior
from skmanifold.emissions._gaussian.diagonal import DiagonalFamily
from skmanifold.emissions._gaussian.emission import DenseRows
from skmanifold.emissions._gaussian.full import FullFamily
from skmanifold.emissions._gaussian.tied import TiedFamily
from skmanifold.emissions._linear import LinearRows
from skmanifold.emissions._multinomial import MultinomialFamily
from skmanifold.emissions._negative_binomial import Dispersions, NegativeBinomialFamily
from skmanifold.emissions._poisson import PoissonFamily
from skmanifold.emissions._von_mises_fisher.family import VonMisesFisherFamily, VonMisesFisherParameters
from skmanifold.emissions._von_mises_fisher.kernels import ConcentrationPrior
from skmanifold.emissions._von_mises_fisher.rows import DenseUnitRows as DirectedRows
from skmanifold.emissions._von_mises_fisher.rows import SparseRows as SparseDirectedRows
from skmanifold.mixture._exponential_family.model import FamilyModel, Position
from skmanifold.mixture._scores import fill_shares
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import Gibbs
from skmanifold.samplers._base import State
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

from ..dirichlet_process._direction_rows import DirectionRows

pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),  # interpreted 64-bit keys
    pytest.mark.skipif(not hasattr(fill_shares, "py_func"), reason="chains of kernels that are compiled"),
]
K, M, N_ROWS, ALPHA = 2, 2, 6, 1.4
ORIGIN = np.array([0.3, -0.2])
FULL = NormalPrior(np.array([1.0, -1.0]), 0.7, np.array([[2.0, 0.5], [0.5, 1.0]]), 5.0)
DIAGONAL = NormalPrior(np.array([1.0, -1.0]), 0.7, np.array([2.0, 1.0]), 6.0)
SPHERICAL = DIAGONAL._replace(covariance=np.array([2.0]))
N_TOKENS = 3


def sparse(table, n_missing_columns=0, missing=None):
    """Rows as kernels read them."""
    wide = np.hstack([table, missing]) if n_missing_columns else table
    filled = wide > 0
    indptr = np.concatenate(([0], np.cumsum(filled.sum(axis=1)))).astype(np.int64)
    indices = np.nonzero(filled)[1].astype(np.int32)
    return LinearRows(indptr, indices, wide[filled].astype(np.int32), table.shape[1], None)


class BernoulliCase:
    """Every row has its second cell missing with probability 0.3, for all we know."""

    family = BernoulliFamily(np.array([0.8, 1.5]), np.array([1.2, 0.6]), K)

    def parameters(self, rng):
        p = rng.beta(self.family.ones, self.family.zeros, (K, M)).T
        return self.family._parameters(np.log(p), np.log1p(-p))

    def rows(self, parameters, labels, rng):
        table = (rng.random((N_ROWS, M)) < parameters.means.T[labels]).astype(int)
        missing = np.zeros((N_ROWS, M), int)
        missing[:, 1] = rng.random(N_ROWS) < 0.3
        return sparse(table * (1 - missing), M, missing)

    def statistics(self, parameters):
        p = parameters.means.T
        return np.concatenate([p, p**2, np.log(p)], axis=1)

    def expectations(self):
        law = st.beta(self.family.ones, self.family.zeros)
        logs = digamma(self.family.ones) - digamma(self.family.ones + self.family.zeros)
        return np.concatenate([law.mean(), law.moment(2), logs])


class PoissonCase:
    family = PoissonFamily(np.array([0.8, 2.5]), np.array([0.5, 1.1]), K)

    def parameters(self, rng):
        return self.family._parameters(np.log(rng.gamma(self.family.shape, 1.0 / self.family.rate, (K, M))).T)

    def rows(self, parameters, labels, rng):
        missing = np.zeros((N_ROWS, M), int)
        missing[:, 1] = rng.random(N_ROWS) < 0.3
        return sparse(rng.poisson(parameters.means.T[labels]) * (1 - missing), M, missing)

    def statistics(self, parameters):
        rates = parameters.means.T
        return np.concatenate([rates, rates**2, np.log(rates)], axis=1)

    def expectations(self):
        law = st.gamma(self.family.shape, scale=1.0 / self.family.rate)
        logs = digamma(self.family.shape) - np.log(self.family.rate)
        return np.concatenate([law.mean(), law.moment(2), logs])


class NegativeBinomialCase:
    """Given dispersions; those that are drawn have their own tests."""

    inverses = np.array([3.0, 0.8])
    family = NegativeBinomialFamily(
        np.array([0.8, 2.5]), np.array([0.5, 1.1]), Dispersions(inverses[:, None], np.zeros((M, 1))), K
    )

    def laws(self):
        return st.beta(self.family.shape, 1.0 + self.family.rate * self.inverses)

    def parameters(self, rng):
        p = self.laws().rvs((K, M), random_state=rng).T
        return self.family._parameters(np.log(p) - np.log1p(-p), self.inverses)

    def rows(self, parameters, labels, rng):
        missing = np.zeros((N_ROWS, M), int)
        missing[:, 1] = rng.random(N_ROWS) < 0.3
        counts = rng.poisson(rng.gamma(self.inverses, parameters.means.T[labels] / self.inverses))
        return sparse(counts * (1 - missing), M, missing)

    def statistics(self, parameters):
        p = parameters.means.T / (parameters.means.T + self.inverses)
        return np.concatenate([p, p**2, np.log(p)], axis=1)

    def expectations(self):
        law, a = self.laws(), self.family.shape
        logs = digamma(a) - digamma(a + 1.0 + self.family.rate * self.inverses)
        return np.concatenate([law.mean(), law.moment(2), logs])


class MultinomialCase:
    family = MultinomialFamily(np.array([0.8, 2.5, 0.4]), K)

    def parameters(self, rng):
        return np.log(rng.dirichlet(self.family.prior, K)).T.copy()

    def rows(self, parameters, labels, rng):
        return sparse(np.array([rng.multinomial(N_TOKENS, np.exp(parameters[:, k])) for k in labels]))

    def statistics(self, parameters):
        phi = np.exp(parameters.T)
        return np.concatenate([phi, phi**2], axis=1)

    def expectations(self):
        prior = self.family.prior
        law = st.beta(prior, prior.sum() - prior)
        return np.concatenate([law.mean(), law.moment(2)])


class CategoricalCase:
    """Columns of two and of three categories; cells of the second are missing with probability 0.3."""

    family = CategoricalFamily(0.8, np.array([0, 2, 5]), K)

    def parameters(self, rng):
        columns = [rng.dirichlet(np.full(n, 0.8), K) for n in (2, 3)]
        return np.log(np.hstack(columns)).T.copy()

    def rows(self, parameters, labels, rng):
        columns = [np.exp(parameters[:2, labels]).T, np.exp(parameters[2:, labels]).T]
        codes = [[rng.choice(len(p), p=p / p.sum()) for p in column] for column in columns]
        table = np.stack(codes, axis=1).astype(float)
        table[rng.random(N_ROWS) < 0.3, 1] = np.nan
        return category_table(None, table, self.family.column_start, handle_unknown="error")

    def statistics(self, parameters):
        phi = np.exp(parameters.T)
        return np.concatenate([phi, phi**2, np.log(phi)], axis=1)

    def expectations(self):
        total = np.repeat([1.6, 2.4], [2, 3])
        law = st.beta(0.8, total - 0.8)
        return np.concatenate([law.mean(), law.moment(2), digamma(0.8) - digamma(total)])


class FullCase:
    family = FullFamily(FULL, K, ORIGIN)

    def parameters(self, rng):
        covariances = st.invwishart.rvs(FULL.degrees, FULL.covariance, K, random_state=rng)
        noise = np.einsum("kab,kb->ka", np.linalg.cholesky(covariances), rng.standard_normal((K, M)))
        return self.family._parameters(FULL.mean + noise / np.sqrt(FULL.mean_precision) - ORIGIN, covariances)

    def rows(self, parameters, labels, rng):
        roots = np.linalg.cholesky(parameters.covariances)[labels]
        return DenseRows(parameters.means[labels] + np.einsum("iab,ib->ia", roots, rng.standard_normal((N_ROWS, M))))

    def statistics(self, parameters):
        precisions = np.linalg.inv(parameters.covariances)
        gaps = parameters.means - FULL.mean
        spread = np.einsum("ka,kab,kb->k", gaps, precisions, gaps)[:, None]
        return np.concatenate([parameters.means, precisions.reshape(K, -1), spread], axis=1)

    def expectations(self):
        precision = FULL.degrees * np.linalg.inv(FULL.covariance)
        return np.array([*FULL.mean, *precision.ravel(), M / FULL.mean_precision])


class DiagonalCase:
    family = DiagonalFamily(DIAGONAL, K, ORIGIN)

    def parameters(self, rng):
        prior = self.family.prior
        shape = (K, len(prior.covariance))
        variances = 0.5 * prior.covariance / rng.gamma(0.5 * prior.degrees, 1.0, shape)
        noise = rng.standard_normal((K, M)) * np.sqrt(variances / prior.mean_precision)
        return self.family._parameters(prior.mean + noise - ORIGIN, variances)

    def rows(self, parameters, labels, rng):
        noise = rng.standard_normal((N_ROWS, M))
        return DenseRows(parameters.means[labels] + noise * np.sqrt(parameters.covariances[labels]))

    def statistics(self, parameters):
        gaps = (parameters.means - self.family.prior.mean) ** 2 / parameters.covariances
        return np.concatenate([parameters.means, 1.0 / parameters.covariances, gaps], axis=1)

    def expectations(self):
        prior = self.family.prior
        precisions = np.broadcast_to(prior.degrees / prior.covariance, M)
        return np.array([*prior.mean, *precisions, *np.full(M, 1.0 / prior.mean_precision)])


class SphericalCase(DiagonalCase):
    family = DiagonalFamily(SPHERICAL, K, ORIGIN)


class TiedCase(FullCase):
    family = TiedFamily(FULL, K, ORIGIN)

    def parameters(self, rng):
        covariance = st.invwishart.rvs(FULL.degrees, FULL.covariance, random_state=rng)
        noise = rng.standard_normal((K, M)) @ np.linalg.cholesky(covariance).T
        return self.family._parameters(FULL.mean + noise / np.sqrt(FULL.mean_precision) - ORIGIN, covariance)

    def rows(self, parameters, labels, rng):
        return super().rows(self.of_each(parameters), labels, rng)

    def statistics(self, parameters):
        return super().statistics(self.of_each(parameters))

    def of_each(self, parameters):
        return parameters._replace(covariances=np.repeat(parameters.covariances, K, axis=0))


class WithHoles:
    """Each cell is missing with probability 0.4."""

    def rows(self, parameters, labels, rng):
        values = super().rows(parameters, labels, rng).values
        return IncompleteRows.of_values(np.where(rng.random(values.shape) < 0.4, np.nan, values))


class IncompleteFullCase(WithHoles, FullCase): ...


class IncompleteTiedCase(WithHoles, TiedCase): ...


class IncompleteDiagonalCase(WithHoles, DiagonalCase): ...


class IncompleteSphericalCase(WithHoles, SphericalCase): ...


class DirectionCase:
    """Directions in three dimensions; each component has its own concentration."""

    five = DirectionRows(np.eye(3), concentration="per_component", cosine=0.7, strength=1.5)
    family = VonMisesFisherFamily(ConcentrationPrior(1.5, 0.7), "per_component", K, 3)

    def parameters(self, rng):
        directions, concentrations = self.five.draw_components(K, rng)
        return VonMisesFisherParameters.of(np.ascontiguousarray(directions.T), concentrations.copy())

    def rows(self, parameters, labels, rng):
        return DirectedRows(self.five.draw_rows((parameters.directions.T, parameters.concentrations), labels, rng))

    def statistics(self, parameters):
        directions, concentrations = parameters.directions.T, parameters.concentrations[:, None]
        bounded = concentrations / (3.0 + concentrations)
        return np.concatenate([directions, bounded, bounded**2, np.log(concentrations), bounded * directions], axis=1)

    def expectations(self):
        grid = np.exp(np.linspace(-14.0, 9.0, 20_001))
        weights = np.exp(self.five.log_prior(grid)) * grid
        bounded = grid / (3.0 + grid)
        return np.array(
            [0, 0, 0, *(weights @ np.stack([bounded, bounded**2, np.log(grid)]).T / weights.sum()), 0, 0, 0]
        )


class SharedDirectionCase(DirectionCase):
    five = DirectionCase.five.changed(concentration="shared")
    family = VonMisesFisherFamily(ConcentrationPrior(1.5, 0.7), "shared", K, 3)


class SparseDirectionCase(SharedDirectionCase):
    def rows(self, parameters, labels, rng):
        return SparseDirectedRows(*as_directions(sp.csr_array(super().rows(parameters, labels, rng).values)))


INCOMPLETE = [IncompleteFullCase(), IncompleteTiedCase(), IncompleteDiagonalCase(), IncompleteSphericalCase()]
CASES = [BernoulliCase(), CategoricalCase(), NegativeBinomialCase(), PoissonCase(), MultinomialCase()]
CASES += [FullCase(), DiagonalCase(), SphericalCase(), TiedCase()]
CASES += INCOMPLETE
CASES += [DirectionCase(), SharedDirectionCase(), SparseDirectionCase()]
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: type(case).__name__)


def statistics(case, position, labels):
    """Of weights, parameters and labels, and of some pairs of them."""
    of_components = case.statistics(position.parameters)
    columns = []
    for k, weight in enumerate(position.weights):
        of_labels = np.mean(labels == k)
        columns += [weight, weight**2, of_labels, *of_components[k], *(weight * of_components[k])]
        columns += [*(of_labels * of_components[k])]
    return np.array([*columns, labels[0] == labels[1]], float)


def expectations(case):
    square = (ALPHA + 1.0) / (2.0 * (2.0 * ALPHA + 1.0))
    of_components = case.expectations()
    columns = [0.5, square, 0.5, *of_components, *(0.5 * of_components), *(0.5 * of_components)]
    return np.array([*columns, *columns, 2.0 * square])


def joint_draw(case, rng):
    position = Position(rng.dirichlet(np.full(K, ALPHA)), case.parameters(rng))
    labels = rng.choice(K, N_ROWS, p=position.weights).astype(np.int32)
    return position, labels, case.rows(position.parameters, labels, rng)


def joint_estimate(case, kind=FamilyModel, n_chains=80, n_steps=12):
    """Of `statistics` along chains that begin at draws from the joint law."""
    sampler, root, means = Gibbs(), root_key(0), []
    for chain in range(n_chains):
        rng = np.random.default_rng(chain)
        position, labels, rows = joint_draw(case, rng)
        model = kind(rows, 0, ALPHA, case.family, labels, Workers(1))
        state, total = State(position, subkey(root, chain), 0, -np.inf, latents=labels), 0.0
        for _ in range(n_steps):
            state = sampler.step(model, state)
            model.rows = case.rows(state.position.parameters, state.latents, rng)
            total = total + statistics(case, state.position, state.latents)
        means.append(total / n_steps)
    return summarize(means)


@pytest.mark.extended
@EACH
def test_draws_from_the_joint_law_have_its_expectations(case):
    rng = np.random.default_rng(5)
    assert_agrees(summarize([statistics(case, *joint_draw(case, rng)[:2]) for _ in range(800)]), expectations(case))


@pytest.mark.extended
@EACH
def test_steps_leave_the_joint_law_alone(case):
    assert_agrees(joint_estimate(case), expectations(case))


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


@pytest.mark.extended
@pytest.mark.every(3)
@EACH
def test_wrong_counts_are_told(case):
    assert_disagrees(joint_estimate(case, CountsARowTooMany), expectations(case))


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


@pytest.mark.extended
@pytest.mark.parametrize("case", INCOMPLETE[:2], ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("wrong", [ReadsZeros, LeavesCellsAtTheOrigin])
def test_missing_cells_that_are_not_drawn_are_told(case, wrong):
    assert_disagrees(joint_estimate(case, wrong), expectations(case))


@pytest.mark.extended
@pytest.mark.parametrize("wrong", [ForgetsTheWeights, TakesTheMode])
def test_wrong_weights_and_parameters_are_told(wrong):
    assert_disagrees(joint_estimate(BernoulliCase(), wrong), expectations(BernoulliCase()))
