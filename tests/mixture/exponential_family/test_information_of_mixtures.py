"""The Fisher information of a mixture: singular for some exponential families, although all components differ.

Appendix D of Zaheer et al. (2016) states that it is non-singular if all components differ and have positive weights.
Here it is computed from the probabilities of all outcomes, with derivatives by complex steps, which are exact up to
rounding. The weights sum to one, so that K components have K - 1 free weights. An information matrix is singular if it
has directions in which no probability changes.
"""

from itertools import product

import numpy as np
import pytest

ROUNDING = 1e-10  # relative to the largest eigenvalue, after each parameter has the information 1


def multinomial(n_trials, n_categories):
    """A function of n_categories - 1 probabilities that returns the probabilities of all sequences of trials."""
    sequences = np.array(list(product(range(n_categories), repeat=n_trials)))
    return lambda free: np.prod(np.append(free, 1 - np.sum(free))[sequences], axis=1)


def bernoulli(n_columns):
    """Independent events: a function of their probabilities."""
    outcomes = np.array(list(product((0, 1), repeat=n_columns)))
    return lambda p: np.prod(np.where(outcomes == 1, p, 1 - np.asarray(p)), axis=1)


def n_singular(family, weights, components):
    """The number of directions without information on the first K - 1 weights and the parameters of K components.

    Each parameter is scaled so that its information is 1.
    """
    components = np.asarray(components, float)
    point = np.concatenate([weights[:-1], components.ravel()])

    def probabilities(parameters):
        first, rest = np.split(parameters, [len(weights) - 1])
        pairs = zip(np.append(first, 1 - np.sum(first)), rest.reshape(components.shape), strict=True)
        return sum(weight * family(each) for weight, each in pairs)

    moved = point + 1e-30j * np.eye(len(point))
    p, derivatives = probabilities(point), np.array([probabilities(row).imag / 1e-30 for row in moved])
    scores = derivatives.T / np.sqrt(p)[:, None]
    norms = np.sqrt((scores**2).sum(axis=0))
    scores /= np.where(norms > 0, norms, 1.0)
    values = np.linalg.eigvalsh(scores.T @ scores)
    return int(np.sum(values < ROUNDING * values[-1]))


TWO = [0.3, 0.7]


def points(n_components, n_parameters, seed=0):
    """Parameters of components that all differ, as probabilities."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_parameters + 1), n_components)[:, :-1]


@pytest.mark.parametrize("n_categories", [2, 3, 4])
def test_two_components_need_three_trials(n_categories):
    components = points(2, n_categories - 1)
    found = [n_singular(multinomial(n, n_categories), TWO, components) for n in (1, 2, 3, 4)]
    assert found[0] == 1 + components.size - (n_categories - 1)
    assert found[0] > found[1] > 0 == found[2] == found[3]


@pytest.mark.parametrize("n_columns", [3, 5])
def test_classes_that_differ_in_one_column_have_singular_information_with_any_number_of_columns(n_columns):
    components = np.full((2, n_columns), 0.4)
    components[1, 0] = 0.9
    assert n_singular(bernoulli(n_columns), TWO, components) >= 2
    components[1] = 0.9
    assert n_singular(bernoulli(n_columns), TWO, components) == 0
