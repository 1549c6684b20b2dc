"""The theorems of Baker et al. (2018): SCIR as a Langevin diffusion of a root, and its moment generating function."""

import numpy as np
import pytest

from skmanifold.manifolds import PositiveOrthant
from skmanifold.models import Density, gamma
from skmanifold.samplers import SCIR, Recipe, check_recipe

from ._evidence import assert_agrees, assert_disagrees, summarize, walk

SHAPES = np.array([7.0, 3.0, 1.2, 0.4])  # the estimates of four steps
START, STEP_SIZE = 5.0, 0.3


def generating_function(s, shapes):
    """E exp(s theta) after one step of each of these shapes."""
    n = len(shapes)
    passed = 1 - s * -np.expm1(-STEP_SIZE * np.arange(n + 1))  # 1 - s (1 - e^{-m h})
    ratios = passed[1:] / passed[:-1]
    power = np.prod(ratios[::-1] ** -shapes)  # the last estimate belongs to the first factor
    return power * np.exp(START * s * np.exp(-n * STEP_SIZE) / passed[-1])


def printed(s, shapes):
    """Equation (4.1) as printed: the first estimate belongs to the first factor."""
    return generating_function(s, shapes[::-1])


class Given:
    """A target whose estimate of the shape is given for each step, or drawn for each chain and step."""

    def __init__(self, shapes=None, choices=None):
        self.shapes, self.choices = shapes, choices
        self.rng, self.n_steps = np.random.default_rng(0), 0

    def __call__(self, position, keys=None):
        n = len(position)
        values = self.rng.choice(self.choices, n) if self.shapes is None else np.full(n, self.shapes[self.n_steps])
        self.n_steps += 1
        return values[:, None]


def after_four_steps(given, s):
    """Monte Carlo estimate of E exp(s theta) after four steps."""
    target = Density(PositiveOrthant(1), expected_counts=given, vectorized=True)
    *_, state = walk(SCIR(STEP_SIZE), target, 4, n_chains=40_000, position=np.array([START]), seed=3)
    return summarize(np.exp(s * state.position[:, 0]))


@pytest.mark.extended
@pytest.mark.parametrize("s", [-2.0, -0.5, 0.05])
def test_generating_function_of_theorem_4_1_with_estimates_in_reverse(s):
    estimate = after_four_steps(Given(SHAPES), s)
    assert_agrees(estimate, generating_function(s, SHAPES))
    assert_disagrees(estimate, printed(s, SHAPES))


@pytest.mark.extended
def test_printed_order_is_right_for_estimates_of_one_distribution():
    choices, s = np.array([0.5, 6.0]), -0.7
    grid = np.stack(np.meshgrid(*[choices] * 4), axis=-1).reshape(-1, 4)
    exact = np.mean([generating_function(s, shapes) for shapes in grid])
    np.testing.assert_allclose(np.mean([printed(s, shapes) for shapes in grid]), exact)
    assert_agrees(after_four_steps(Given(choices=choices), s), exact)
    assert_disagrees(after_four_steps(Given(choices=choices), s), generating_function(s, np.full(4, 3.25)))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("s", [-3.0, 0.4])
def test_lemmas_of_theorem_4_1(n, s):
    lost, kept = -np.expm1(-STEP_SIZE), np.exp(-STEP_SIZE)
    iterates = [s]
    for _ in range(n):
        iterates.append(iterates[-1] * kept / (1 - iterates[-1] * lost))
    lost_n = -np.expm1(-n * STEP_SIZE)
    np.testing.assert_allclose(iterates[-1], s * np.exp(-n * STEP_SIZE) / (1 - s * lost_n))  # lemma A.1
    np.testing.assert_allclose(np.prod([1 - r * lost for r in iterates[:-1]]), 1 - s * lost_n)  # lemma A.2


# --- theorem 3.1 -----------------------------------------------------------------------------------------

SHAPE = 1.3


def slope(u, shape=SHAPE):
    """Gradient of log f with f(u) ~ u^(2 a - 1) exp(-u^2 / 4)."""
    return (2 * shape - 1) / u - u / 2


def test_root_of_a_gamma_variable_has_the_density_of_theorem_3_1():
    root = Density(
        PositiveOrthant(1),
        grad_log_density=slope,
        log_density=lambda u: np.sum((2 * SHAPE - 1) * np.log(u) - u**2 / 4, axis=-1),
    )
    check_recipe(Recipe([[1.0]], [[0.0]]), root)


@pytest.mark.extended
@pytest.mark.short_cases("0.8")
@pytest.mark.parametrize("u", [0.8, 2.0, 4.0])
def test_root_of_a_step_moves_as_the_langevin_diffusion_of_theorem_3_1(u):
    h = 0.005
    start = np.array([u**2 / 4])
    *_, state = walk(SCIR(h), gamma(SHAPE), 1, n_chains=400_000, position=start)
    moved = 2 * np.sqrt(state.position[:, 0]) - u
    assert_agrees(summarize(moved / h), slope(u), 10 * h)
    assert_agrees(summarize(moved**2 / h), 2.0, 10 * h)
    assert_disagrees(summarize(moved / h), slope(u, 2 * SHAPE), 10 * h)  # a = 2 (alpha + sum z) of appendix A.2
