"""Wrong samplers, those of the literature's misprints among them, are refused by name; right ones pass."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold.manifolds import Euclidean, PositiveOrthant, Sphere
from skmanifold.models import Density, IncompatibleError, LogNormalMean, circle
from skmanifold.models._reference import NoisyGradient, banana, double_well, gamma, standard_normal
from skmanifold.random._variates import fold_keys
from skmanifold.samplers import GSGNHT, SCIR, SGGMC, SGHMC, SGNHT, SGRHMC, GeometricBrownian, check_recipe
from skmanifold.samplers._base import BaseSampler
from skmanifold.samplers._density.gradient_base import GradientSampler
from skmanifold.samplers._density.langevin import SGLD, SGRLD
from skmanifold.samplers._density.noise_covariance import Covariance, fill_compensated
from skmanifold.samplers._density.recipe import InvalidRecipeError, Recipe

from ._evidence import chain_keys
from ._recipes import FRICTION, HAMILTONIAN, random_recipe


def thermostat(d, a=1.2, energy=None, excess=None):
    """The recipe of SGNHT, with another energy of points (n, 2 d + 1) or the update of the friction given."""

    def drift(z, gradient):
        r, xi = z[:, d : 2 * d], z[:, -1:]
        return np.hstack([r, gradient - xi * r, excess(r)[:, None]])

    recipe = SGNHT(friction=a).recipe(standard_normal(d))
    return recipe.set_params(hamiltonian=energy or recipe.hamiltonian, drift=excess and drift)


def printed_energy(z):
    return (z[:, 2:4] ** 2).sum(axis=1) / 2 + (z[:, 4] - 1.2) ** 2 / 4


def riemannian(g, drift=None, friction=True):
    """Riemannian (SG)HMC on the line with g = G^(-1/2)."""
    return Recipe(
        lambda z: np.diag([0.0, friction * g(z[0]) ** 2]), lambda z: g(z[0]) * HAMILTONIAN, drift=drift, n_auxiliary=1
    )


def g(theta):
    return np.sqrt(1.5) * np.abs(theta**4 - 2 * theta**2 + 1.5) ** 0.25  # G^-1 = D sqrt|U + C|, D = C = 3/2


def dg(theta, step=1e-5):
    return (g(theta + step) - g(theta - step)) / (2 * step)


class WeakNoise(SGLD):
    """Noise sqrt(h) in place of sqrt(2 h)."""

    def _move(self, model, state, h, t):
        memory, gradient = self._estimate_gradient(model, state, t)
        variance, weight = np.full(len(gradient), h), np.full(len(gradient), h * h)
        fill_compensated(self._noise(model, memory), memory.keys, variance, weight, memory.noise)
        state.position[...] += h * gradient + memory.noise
        return state._replace(memory=memory)


class OtherNoise(SGLD):
    """A right sampler whose noise changes with the step size, so that it does not cancel."""

    def _move(self, model, state, h, t):
        memory, gradient = self._estimate_gradient(model, state, t)
        rng = np.random.default_rng([int(memory.keys[0]), int(1 / h)])
        taken_off = 0.0 if memory.covariance is None else h**2 * memory.covariance.matrix()[0]
        noise = rng.standard_normal(gradient.shape) @ np.linalg.cholesky(2 * h * np.eye(2) - taken_off).T
        state.position[...] += h * gradient + noise
        return state


class HalfGradient(SGLD):
    """The gradient of half the data, not scaled up."""

    def _estimate_gradient(self, model, state, t):
        memory, gradient = super()._estimate_gradient(model, state, t)
        return memory, gradient / 2


class TwiceCompensated(SGHMC):
    """Noise of covariance h V counted as D = h V, not h V / 2."""

    def _start_memory(self, model, position):
        memory = super()._start_memory(model, position)
        if memory.covariance is None:
            return memory
        return memory._replace(covariance=Covariance(2 * memory.covariance.values, memory.covariance.vectors))


class NotCompensated(SGHMC):
    """It has noise_covariance="model", and ignores it."""

    def _start_memory(self, model, position):
        return super()._start_memory(model, position)._replace(covariance=None)


class OneMinibatch:
    """The minibatch is drawn outside of the loop over inner steps."""

    def _estimate_gradient(self, model, state, t):
        own = state.memory.keys.copy()
        fold_keys(state.key, t - t % self.n_steps, state.memory.keys)
        memory, gradient = super()._estimate_gradient(model, state, t)
        memory.keys[...] = own
        return memory, gradient


class OneMinibatchHMC(OneMinibatch, SGHMC):
    pass


class OneMinibatchNHT(OneMinibatch, SGNHT):
    pass


class OneKey(SGLD):
    """Every step draws the same noise."""

    def step(self, model, state):
        return super().step(model, state._replace(n_steps=0))


class Undeclared(SGHMC):
    """Its recipe is that of another sampler."""

    recipe = SGLD.recipe


class Billiard(PositiveOrthant):
    """Walls that mirror the position alone."""

    def reflect(self, x, momentum=None):
        super().reflect(x)


class ZeroedMomentum(SGHMC):
    """Its momentum is lost now and then."""

    period = 10

    def _move(self, model, state, h, t):
        state = super()._move(model, state, h, t)
        if t % self.period == self.period - 1:
            state.momentum[...] = 0
        return state


class RarelyZeroedMomentum(ZeroedMomentum):
    period = 100


class CappedVelocity(SGHMC):
    """Velocities are kept below five."""

    def _move(self, model, state, h, t):
        state = super()._move(model, state, h, t)
        np.clip(state.momentum, -5, 5, out=state.momentum)
        return state


class ClippedWalls(PositiveOrthant):
    """Positions are clipped into the space, and momenta turn round."""

    def reflect(self, x, momentum=None):
        if momentum is not None:
            momentum[x < 0] *= -1
        np.maximum(x, 1e-12, out=x)


def on_clipped_walls(shape):
    target = gamma(shape)
    return Density(ClippedWalls(target.manifold.shape), target._gradient, target._value, vectorized=True)


def on_billiard(shape):
    target = gamma(shape)
    return Density(Billiard(target.manifold.shape), target._gradient, target._value, vectorized=True)


def biased(target):
    target = NoisyGradient(target, 1.0)
    target.target = Density(target.manifold, lambda x: -x, lambda x: -0.5 * (x * x).sum(axis=1), vectorized=True)
    right = target.target.grad_log_density

    def gradient(position, keys, out):
        right(position, keys, out)
        if keys is not None:
            out += 0.2

    target.target.grad_log_density = gradient
    return target


def misdeclared():
    target = NoisyGradient(standard_normal(2), 1.0)
    target.noise_covariance = 2.0
    return target


INVARIANT = "drift does not leave the target invariant"
CORRECTION = "correction is not the divergence of D [+] Q"
NOISE = "step does not account for gradient noise as declared"
WRONG = {
    "D not positive": (
        Recipe([[1.0, 2.0], [2.0, 1.0]], np.zeros((2, 2))),
        banana(),
        "diffusion is not positive semi-definite: its least eigenvalue is -1 ",
    ),
    "D not symmetric": (Recipe([[1.0, 0.5], [0.0, 1.0]], np.zeros((2, 2))), banana(), "diffusion is not symmetric"),
    "Q not skew": (Recipe(np.eye(2), [[0.0, 1.0], [1.0, 0.0]]), banana(), "curl is not skew-symmetric.* size 2 "),
    "Q with a diagonal": (Recipe(np.eye(2), np.diag([0.0, 0.1])), banana(), "curl is not skew-symmetric"),
    "wrong shape": (Recipe(np.eye(3), np.zeros((2, 2))), banana(), r"diffusion must be of shape \(2, 2\)"),
    "not finite": (Recipe(np.eye(2), lambda z: [[0, np.nan], [np.nan, 0]]), banana(), "curl is not finite"),
    "sign of Gamma (1-E1)": (
        Recipe(lambda z: [[z[0]]], [[0.0]], correction=lambda z: [-1.0]),
        gamma(2.0),
        f"{CORRECTION}: its entry 0 is -1 where .* is 1,",
    ),
    "sign of Gamma in the drift (1-E1)": (
        Recipe(lambda z: [[z[0]]], [[0.0]], drift=lambda z, gradient: z * gradient - 1),
        gamma(2.0),
        f"{INVARIANT}.* differs by -2 ",
    ),
    "no Gamma": (Recipe(lambda z: [[1 + z[0] ** 2]], [[0.0]], correction=lambda z: [0.0]), double_well(), CORRECTION),
    "complex step through abs": (
        Recipe(lambda z: [[abs(z[0]) + 0.5]], [[0.0]], derivative="complex"),
        gamma(2.0),
        CORRECTION,
    ),
    "naive SGHMC (S.13)": (
        Recipe(FRICTION, HAMILTONIAN, drift=lambda z, gradient: [z[1], gradient[0]], n_auxiliary=1),
        double_well(),
        INVARIANT,
    ),
    "friction without noise": (
        Recipe(np.zeros((2, 2)), HAMILTONIAN, drift=lambda z, gradient: [z[1], gradient[0] - z[1]], n_auxiliary=1),
        double_well(),
        INVARIANT,
    ),
    "naive Riemannian HMC": (
        riemannian(g, lambda z, gradient: [g(z[0]) * z[1], g(z[0]) * gradient[0]], friction=False),
        double_well(),
        INVARIANT,
    ),
    "naive SGRHMC (16, 1-E11)": (
        riemannian(g, lambda z, gradient: [g(z[0]) * z[1], g(z[0]) * gradient[0] - g(z[0]) ** 2 * z[1]]),
        double_well(),
        INVARIANT,
    ),
    "printed SGRHMC (17, 1-E2)": (
        riemannian(g, lambda z, u: [g(z[0]) * z[1], g(z[0]) * u[0] - dg(z[0]) + g(z[0]) ** 2 * z[1]]),
        double_well(),
        INVARIANT,
    ),
    "energy of SGNHT (1-E3)": (
        thermostat(2, energy=printed_energy, excess=lambda r: (r**2).sum(axis=1) / 2 - 1),
        banana(),
        INVARIANT,
    ),
    "extra r in SGNHT (S.17)": (thermostat(1, excess=lambda r: (r[:, 0] ** 2 - 1) * r[:, 0]), double_well(), INVARIANT),
    "Riemannian kinetic energy without its determinant": (
        Recipe(np.diag([0.0, 1.0]), HAMILTONIAN, lambda z: 0.5 * z[1] ** 2 / (1 + z[0] ** 2), n_auxiliary=1),
        double_well(),
        "energy changes the distribution of the position: .* where the right value is 0 ",
    ),
    "another number of variables": (Undeclared(), double_well(), "recipe has 1 variables, but its state has 2"),
    "another curl": (
        Recipe(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]], drift=lambda z, gradient: gradient),
        banana(),
        "drift leaves the target invariant, but with a different curl",
    ),
    "gradient of the target": (
        SGLD(),
        Density(Euclidean(1), lambda x: -1.01 * x, lambda x: -0.5 * x @ x),
        "target has a wrong gradient",
    ),
    "biased minibatches": (SGLD(), biased(standard_normal(2)), "target has a biased estimate"),
    "covariance of the noise": (SGLD(), misdeclared(), "target's gradient noise is not as noisy as declared"),
    "noise sqrt(h)": (WeakNoise(), banana(), r"step is not as noisy as declared: entry \((.), \1\).* 2 D, per unit of"),
    "half the gradient": (HalfGradient(), banana(), "step does not move as declared"),
    "compensation h V (1-E5)": (
        TwiceCompensated(),
        banana(),
        f"{NOISE}: .* adds -[01][.].* times .* instead of 0 times",
    ),
    "no compensation": (
        NotCompensated(scheme="euler"),
        banana(),
        f"{NOISE}: .* adds [01][.].* times .* instead of 0 times",
    ),
    "one minibatch (0-E1)": (
        OneMinibatchHMC(n_steps=3),
        banana(),
        f"{NOISE}: .* adds [23][.].* times .* instead of 0 times",
    ),
    "one minibatch, thermostat": (
        OneMinibatchNHT(n_steps=2),
        banana(),
        f"{NOISE}: .* adds [34][.].* times .* instead of 1 times",
    ),
    "the same noise always": (OneKey(), banana(), "step is not as noisy as declared: .* per unit of time over 4 steps"),
    "momentum lost every tenth step": (ZeroedMomentum(), double_well(), "trajectory of 128 steps does not move as"),
    "momentum lost every 100th step": (RarelyZeroedMomentum(), banana(), "trajectory of 128 steps does not move as"),
    "capped velocity": (CappedVelocity(), double_well(), "step does not move as declared: the mean.* of entry 1"),
    "clipped wall": (SGRLD(), on_clipped_walls([0.7, 2.0]), "step does not reflect the position .* coordinate 0 = 0"),
    "clipped wall, momentum": (
        SGRHMC(scheme="euler"),
        on_clipped_walls([2.0]),
        "step does not reflect the position at",
    ),
    "clipped wall, recipe": (
        Recipe(np.eye(1), np.zeros((1, 1))),
        on_clipped_walls([2.0]),
        "step does not reflect the position at the boundary: .* chains to the same value 1e-12",
    ),
    "no flip (1-E9)": (SGRHMC(), on_billiard([0.5, 2.0]), "does not reverse the momentum at the boundary"),
    "no flip, Euler (1-E9)": (SGRHMC(scheme="euler"), on_billiard([2.0]), "does not reverse the momentum"),
    "flip=False": (
        Recipe(np.diag([0.0, 1.0]), HAMILTONIAN, n_auxiliary=1, flip=False),
        gamma(2.0),
        "does not reverse the momentum at the boundary: -20, which moves coordinate 0 across it, becomes -",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sampler_is_refused_in_one_sentence(name):
    sampler, target, sentence = WRONG[name]
    with pytest.raises(InvalidRecipeError, match=sentence) as caught:
        check_recipe(sampler, target)
    message = str(caught.value)
    assert message.endswith(".")
    assert ". " not in message
    assert "\n" not in message


def test_init_refuses_what_is_no_recipe():
    for sampler, target, sentence in list(WRONG.values())[:6]:
        with pytest.raises(InvalidRecipeError, match=sentence):
            sampler.init(target, chain_keys(3))


RIGHT = {
    "HMC": (Recipe(np.zeros((2, 2)), HAMILTONIAN, n_auxiliary=1), double_well()),
    "SGLD": (SGLD(step_size=0.3), double_well()),
    "SGLD with noise": (SGLD(), NoisyGradient(banana(), [[2.0, 1.0], [1.0, 3.0]])),
    "noise that does not cancel": (OtherNoise(), banana()),
    "SGHMC": (SGHMC(friction=3.0), double_well()),
    "SGHMC, Euler": (SGHMC(scheme="euler", n_steps=7), NoisyGradient(banana(), 100.0)),
    "SGHMC, matrix": (SGHMC(friction=[[2.0, 0.3], [0.3, 1.0]]), banana()),
    "SGHMC, matrix, Euler": (SGHMC(friction=[[2.0, 0.3], [0.3, 1.0]], scheme="euler", resample_every=3), banana()),
    "SGHMC as a recipe": (Recipe(FRICTION, HAMILTONIAN, n_auxiliary=1), double_well()),
    "SGHMC on the half line": (Recipe(FRICTION, HAMILTONIAN, n_auxiliary=1), gamma(2.0)),
    "SGNHT, 1": (SGNHT(friction=0.5), double_well()),
    "SGNHT, 2": (SGNHT(), banana()),
    "SGNHT, 3, Euler": (SGNHT(friction=2.0, scheme="euler"), NoisyGradient(standard_normal(3), 1.0)),
    "SGNHT as a recipe, 1": (thermostat(1), double_well()),
    "SGNHT as a recipe, 2": (thermostat(2, excess=lambda r: (r**2).sum(axis=1) / 2 - 1), banana()),
    "SGNHT as a recipe, 3": (thermostat(3), standard_normal(3)),
    "SGGMC": (SGGMC(friction=1.5), banana()),
    "SGGMC, the paper's": (SGGMC(friction=1.5, scheme="aboba"), double_well()),
    "SGGMC, baoab": (SGGMC(scheme="baoab", n_steps=1), banana()),
    "SGGMC, matrix": (SGGMC(friction=[[2.0, 0.3], [0.3, 1.0]]), banana()),
    "GSGNHT": (GSGNHT(friction=1.5), banana()),
    "GSGNHT, the paper's": (GSGNHT(scheme="aboba"), double_well()),
    "GSGNHT, baoab": (GSGNHT(scheme="baoab"), standard_normal(3)),
    "SGRLD": (SGRLD(), gamma([0.5, 2.0])),
    "SGRLD, metric": (SGRLD(inverse_metric=lambda x: 1 + x**2), double_well()),
    "SGRHMC": (SGRHMC(), gamma([0.7, 2.0])),
    "SGRHMC, Euler": (SGRHMC(scheme="euler", n_steps=2), gamma([1.5])),
    "gSGRHMC": (SGRHMC(inverse_metric=lambda x: g(x) ** 2), double_well()),
    "gSGRHMC as a recipe": (riemannian(g), double_well()),
    "gSGRHMC, algorithm 1": (
        riemannian(g, lambda z, u: [g(z[0]) * z[1], g(z[0]) * u[0] + dg(z[0]) - g(z[0]) ** 2 * z[1]]),
        double_well(),
    ),
    "Riemannian kinetic energy": (
        Recipe(
            np.diag([0.0, 1.0]),
            HAMILTONIAN,
            lambda z: 0.5 * z[1] ** 2 / (1 + z[0] ** 2) + 0.5 * np.log(1 + z[0] ** 2),
            n_auxiliary=1,
        ),
        double_well(),
    ),
    "complex step": (Recipe(lambda z: [[1 + z[0] ** 2]], [[0.0]], derivative="complex"), double_well()),
}


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize("name", RIGHT)
def test_right_sampler_passes(name):
    report = check_recipe(*RIGHT[name])
    assert report.fokker_planck < 1e-6
    for score in (report.step_mean, report.step_covariance, report.gradient_noise):
        assert score is None or 0 <= score <= report.threshold
    assert report.gradient_noise is not None or name == "HMC"


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(6))
def test_every_pair_of_matrices_is_a_sampler(seed):
    target = double_well() if seed % 2 else banana()
    recipe = random_recipe(seed, target.manifold.size, n_auxiliary=seed % 3)
    report = check_recipe(recipe, target, random_state=seed)
    assert report.fokker_planck < 1e-6
    recipe.set_params(drift=lambda z, gradient: recipe._recipe_drift(z, gradient, False) + 1e-4 * z)
    with pytest.raises(InvalidRecipeError, match=INVARIANT):
        check_recipe(recipe, target, random_state=seed)


@pytest.mark.long
def test_right_samplers_pass_whatever_the_seed():
    for seed in range(1, 21):
        check_recipe(SGHMC(), NoisyGradient(double_well(), 4.0), random_state=seed)
        check_recipe(SGRLD(), gamma([0.5, 2.0]), random_state=seed)


@pytest.mark.long
def test_wrong_samplers_are_refused_whatever_the_seed():
    for seed in range(1, 11):
        for name in ("noise sqrt(h)", "half the gradient", "compensation h V (1-E5)", "one minibatch (0-E1)"):
            sampler, target, sentence = WRONG[name]
            with pytest.raises(InvalidRecipeError, match=sentence):
                check_recipe(sampler, target, random_state=seed)


def test_the_check_leaves_the_sampler_alone_and_repeats_itself():
    sampler = SGHMC(step_size=lambda t: 0.1, noise_covariance=2.0, n_steps=5)
    before = sampler.get_params()
    target = NoisyGradient(banana(), 1.0)
    first, second = check_recipe(sampler, target), check_recipe(clone(sampler), target)
    assert sampler.get_params() == before
    assert first == second
    assert first != check_recipe(sampler, target, random_state=1)
    with pytest.raises(AttributeError):
        first.step_mean = 0.0
    text = repr(first)
    assert text.startswith("RecipeReport: SGHMC passed at 5 points (scores accepted up to ")
    assert "no boundary or no momentum" in text
    assert "score of the step's mean" in text


def test_points_can_be_given():
    report = check_recipe(SGHMC(), double_well(), points=[[0.0, 1.0], [2.0, -1.0]])
    assert report.n_points == 2
    with pytest.raises(ValueError, match=r"points must be of shape \(n_points, 2\); got \(2,\)"):
        check_recipe(SGHMC(), double_well(), points=[0.0, 1.0])
    with pytest.raises(ValueError, match="points must be finite, and inside the space"):
        check_recipe(SGRLD(), gamma(2.0), points=[[0.0]])


def test_samplers_and_targets_without_a_recipe_are_refused():
    with pytest.raises(IncompatibleError, match=r"SGGMC has a recipe on Euclidean spaces only, not on Sphere\(d=2\)"):
        check_recipe(SGGMC(), circle())

    class Other(BaseSampler):
        short_name = "other"
        requires: ClassVar = ()

    with pytest.raises(TypeError, match=r"check_recipe needs a sampler with a method recipe\(model\)"):
        check_recipe(Other(), double_well())
    with pytest.raises(TypeError, match="Recipe needs a metric for diffusions"):
        check_recipe(Recipe(np.eye(3), np.zeros((3, 3))), Density(Sphere(3), lambda x: x))
    assert issubclass(Recipe, GradientSampler)


# Completeness in the plane


@pytest.mark.parametrize(
    ("sampler", "target"),
    [(SCIR(), gamma([1.5, 3.0])), (GeometricBrownian(), LogNormalMean(0.3, 1.0, np.ones((5, 2)), 2.0))],
)
def test_exact_processes_move_as_they_declare(sampler, target):
    report = check_recipe(sampler, target)
    assert report.fokker_planck < 1e-6
    assert report.gradient_noise is None


def test_an_exact_process_of_another_gamma_is_refused():
    class Shifted(SCIR):
        def step(self, model, state):
            return super().step(gamma([2.5, 4.0]), state)

    with pytest.raises(InvalidRecipeError, match="Shifted's step does not move as declared"):
        check_recipe(Shifted(), gamma([1.5, 3.0]))
