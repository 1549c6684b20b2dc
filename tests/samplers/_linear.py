"""What each scheme does to a normal target, without error: its step is linear, so its stationary law is known."""

import numpy as np
from scipy.linalg import block_diag, expm, solve_discrete_lyapunov

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density
from skmanifold.samplers._density.recipe import joint_state

from ._evidence import expectations
from ._flat_targets import Noisy

PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
I = np.eye(2)  # noqa: E741
O = np.zeros((2, 2))  # noqa: E741


def normal_target(noise=None):
    """The centred normal law of covariance ``inv(PRECISION)``, with gradient noise of a declared covariance."""
    target = Density(
        Euclidean(2),
        grad_log_density=lambda x: -x @ PRECISION,
        log_density=lambda x: -0.5 * np.einsum("ci,ij,cj->c", x, PRECISION, x),
        vectorized=True,
    )
    return target if noise is None else Noisy(target, noise)


class Step:
    """A linear map z -> M z + N(0, S) of positions and momenta, to be followed by others."""

    def __init__(self, matrix, noise=None):
        self.matrix = matrix
        self.noise = np.zeros_like(matrix) if noise is None else noise

    def then(self, other):
        noise = other.matrix @ self.noise @ other.matrix.T + other.noise
        return Step(other.matrix @ self.matrix, noise)

    def stationary(self):
        return solve_discrete_lyapunov(self.matrix, self.noise)


def drift(time, root=I):
    return Step(np.block([[I, time * root], [O, I]]))


def velocity(kept, kick=O, noise=O):
    """v -> kept v + kick (-K x) + noise."""
    return Step(np.block([[I, O], [-kick @ PRECISION, kept]]), block_diag(O, noise))


def langevin(h, metric=I, gradient_noise=O, compensated=O):
    noise = 2 * h * metric + h**2 * metric @ gradient_noise @ metric - h**2 * compensated
    return Step(I - h * metric @ PRECISION, noise)


def euler(h, friction=I, root=I, gradient_noise=O, compensated=O):
    matrix = np.block([[I, h * root], [-h * root @ PRECISION, I - h * friction]])
    return Step(matrix, block_diag(O, 2 * h * friction + h**2 * root @ (gradient_noise - compensated) @ root))


def baoab(h, friction=I, root=I, gradient_noise=O, compensated=O):
    kept, kick = expm(-h * friction), h * root
    kicked = velocity(I, kick, kick @ gradient_noise @ kick)
    refreshed = velocity(kept, noise=I - kept @ kept - kept @ kick @ compensated @ kick @ kept)
    return kicked.then(drift(h / 2, root)).then(refreshed).then(drift(h / 2, root))


def aboba(h, friction=I, gradient_noise=O, compensated=O):
    kept = expm(-h / 2 * friction)
    noise = kept @ (2 * h * friction + h**2 * (gradient_noise - compensated)) @ kept
    return drift(h / 2).then(velocity(kept @ kept, h * kept, noise)).then(drift(h / 2))


def ou(h, friction=I, gradient_noise=O, compensated=O):
    kept = expm(-h * friction)
    kick = (I + kept) * (h / 2)
    noise = I - kept @ kept + kick @ (gradient_noise - compensated) @ kick
    return drift(h / 2).then(velocity(kept, kick, noise)).then(drift(h / 2))


def second_moments(sampler, target, n_steps=300, n_chains=2000):
    """E z z' of positions and momenta, from chains that begin at the mode."""

    def products(state):
        z = joint_state(state)
        return z[:, :, None] * z[:, None, :]

    return expectations(
        sampler, target, products, n_steps, burn_in=100, n_chains=n_chains, position=np.zeros(2), seed=1
    )
