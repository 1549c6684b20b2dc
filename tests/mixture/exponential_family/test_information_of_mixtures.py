"""The Fisher information of a mixture: singular for some exponential families, although all components differ.

Appendix D of Zaheer et al. (2016) states that it is non-singular if all components differ and have positive weights.
Here it is computed from the probabilities of all outcomes, with derivatives by complex steps, which are exact up to
rounding. The weights sum to one, so that K components have K - 1 free weights. An information matrix is singular if it
has directions in which no probability changes.
"""

from itertools import product
from math import comb, factorial

import numpy as np
import pytest

ROUNDING = 1e-10  # relative to the largest eigenvalue, after each parameter has the information 1


def trials(n_trials, n_categories):
    """Counts of the categories in independent trials, and the numbers of their orders."""
    found = np.array([each for each in product(range(n_trials + 1), repeat=n_categories) if sum(each) == n_trials])
    return found, np.array([factorial(n_trials) / np.prod([factorial(n) for n in each]) for each in found])


def multinomial(n_trials, n_categories):
    """A function of n_categories - 1 probabilities that returns the probabilities of all outcomes."""
    counts, orders = trials(n_trials, n_categories)

    def probabilities(free):
        p = np.append(free, 1 - np.sum(free))
        return orders * np.prod(p**counts, axis=1)

    return probabilities


def bernoulli(n_columns):
    """Independent events: a function of their probabilities."""
    outcomes = np.array(list(product((0, 1), repeat=n_columns)))
    return lambda p: np.prod(np.where(outcomes == 1, p, 1 - np.asarray(p)), axis=1)


def poisson(rate):
    """Of the numbers below 60."""
    numbers = np.arange(60)
    return np.exp(-rate[0]) * rate[0] ** numbers / np.array([float(factorial(n)) for n in numbers])


def gaussian(parameters):
    """Densities, times the distance of the points, for a mean and a log variance."""
    points, step = np.linspace(-15, 15, 3001, retstep=True)
    location, log_variance = parameters
    return step * np.exp(-((points - location) ** 2) / np.exp(log_variance) / 2 - log_variance / 2) / np.sqrt(2 * np.pi)


def mixture(family, n_components, free_weights=False):
    """Probabilities of all outcomes as a function of the first K - 1 weights and the parameters of the components.

    With `free_weights` it is a function of all weights, as in the paper.
    """

    def probabilities(parameters):
        weights, rest = np.split(parameters, [n_components - 1 + free_weights])
        weights = weights if free_weights else np.append(weights, 1 - np.sum(weights))
        return sum(w * family(each) for w, each in zip(weights, np.split(rest, n_components), strict=True))

    return probabilities


def eigenvalues(family, weights, components, free_weights=False):
    """Of the information, with parameters that have the information 1 each."""
    components = np.asarray(components, float)
    of_mixture = mixture(family, len(components), free_weights)
    point = np.concatenate([weights[: len(weights) - 1 + free_weights], components.ravel()])
    columns = []
    for i in range(len(point)):
        moved = point.astype(complex)
        moved[i] += 1e-30j
        columns.append(of_mixture(moved).imag / 1e-30)
    p = of_mixture(point)
    scores = np.transpose(columns)[p > 0] / np.sqrt(p[p > 0])[:, None]
    norms = np.sqrt((scores**2).sum(axis=0))
    scores = scores / np.where(norms > 0, norms, 1.0)
    return np.linalg.eigvalsh(scores.T @ scores)


def n_singular(*arguments, **options):
    """The number of directions without information."""
    values = eigenvalues(*arguments, **options)
    return int(np.sum(values < ROUNDING * values[-1]))


TWO, THREE = [0.3, 0.7], [0.2, 0.5, 0.3]


def points(n_components, n_parameters, seed=0):
    """Parameters of components that all differ, as probabilities."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_parameters + 1), n_components)[:, :-1]


@pytest.mark.parametrize("free_weights", [False, True])
@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_one_trial_has_no_information_on_its_components(n_categories, free_weights):
    components = points(2, n_categories - 1)
    n_parameters = 1 + free_weights + components.size
    found = n_singular(multinomial(1, n_categories), TWO, components, free_weights=free_weights)
    assert found == n_parameters - (n_categories - 1 + free_weights) > 0


def test_different_mixtures_have_the_same_distribution_of_one_trial():
    family = multinomial(1, 3)
    one = mixture(family, 2)(np.array([0.5, 0.2, 0.3, 0.4, 0.5]))
    other = mixture(family, 2)(np.array([0.25, 0.9, 0.0, 0.1, 0.4 / 0.75]))
    np.testing.assert_allclose(one, other, atol=1e-15)


@pytest.mark.parametrize("n_categories", [2, 3, 4])
def test_two_components_need_three_trials(n_categories):
    components = points(2, n_categories - 1)
    found = [n_singular(multinomial(n, n_categories), TWO, components) for n in (1, 2, 3, 4)]
    assert found[0] > found[1] > 0 == found[2] == found[3]
    n_outcomes = comb(2 + n_categories - 1, 2)
    assert n_categories < 4 or n_outcomes - 1 > 1 + components.size  # two trials: not for want of outcomes


def test_three_binomial_components_need_five_trials():
    components = [[0.15], [0.4], [0.8]]
    assert [n_singular(multinomial(n, 2), THREE, components) for n in (3, 4, 5, 6)] == [2, 1, 0, 0]


def test_two_latent_classes_need_three_columns():
    components = np.array([[0.2, 0.6, 0.3, 0.7], [0.7, 0.1, 0.5, 0.4]])
    found = [n_singular(bernoulli(m), TWO, components[:, :m]) for m in (1, 2, 3, 4)]
    assert found == [2, 2, 0, 0]


@pytest.mark.parametrize("n_columns", [3, 5])
def test_classes_that_differ_in_one_column_have_singular_information_with_any_number_of_columns(n_columns):
    components = np.full((2, n_columns), 0.4)
    components[1, 0] = 0.9
    assert n_singular(bernoulli(n_columns), TWO, components) >= 2
    components[1] = 0.9
    assert n_singular(bernoulli(n_columns), TWO, components) == 0


HOLDS = {
    "Gaussian": (gaussian, [[-1.0, 0.2], [1.5, -0.3]]),
    "Gaussian, same mean": (gaussian, [[0.0, -0.7], [0.0, 0.9]]),
    "Poisson": (poisson, [[2.0], [7.0]]),
    "Bernoulli, three columns": (bernoulli(3), [[0.2, 0.6, 0.3], [0.7, 0.1, 0.5]]),
    "multinomial, three trials": (multinomial(3, 3), [[0.2, 0.3], [0.6, 0.1]]),
}


@pytest.mark.parametrize(("family", "components"), HOLDS.values(), ids=HOLDS)
def test_where_the_statement_holds_both_of_its_conditions_are_needed(family, components):
    assert n_singular(family, TWO, components) == 0
    assert n_singular(family, TWO, components, free_weights=True) == 0
    assert n_singular(family, TWO, [components[0]] * 2) > 0
    assert n_singular(family, [1.0, 0.0], components) > 0


def test_the_information_agrees_with_the_formula_for_a_weight():
    """The information on the weight of two known Bernoulli components is (p - q)^2 / (m (1 - m)) for the mean m."""
    p, q, w = 0.2, 0.7, 0.3
    m = w * p + (1 - w) * q
    family = bernoulli(1)
    derivative = mixture(family, 2)(np.array([w + 1e-30j, p, q])).imag / 1e-30
    probabilities = mixture(family, 2)(np.array([w, p, q]))
    assert (derivative**2 / probabilities).sum() == pytest.approx((p - q) ** 2 / (m * (1 - m)), rel=1e-12)
