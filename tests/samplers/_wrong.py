"""Targets that make right samplers into variants known to be wrong, which their tests must not let pass."""

import numpy as np

from skmanifold.manifolds import PositiveOrthant, Sphere


class OneMinibatchPerTrajectory:
    """The paper's algorithm 1 as printed: the minibatch is drawn outside of the loop over the `n_steps` inner steps."""

    def __init__(self, target, n_steps):
        self.target = target
        self.manifold = target.manifold
        self.noise_covariance = target.noise_covariance
        self.n_steps = n_steps
        self.n_calls = 0

    def _keys_of_the_trajectory(self, keys):
        if self.n_calls % self.n_steps == 0:
            self.keys = keys.copy()
        self.n_calls += 1
        return self.keys

    def grad_log_density(self, position, keys, out):
        self.target.grad_log_density(position, self._keys_of_the_trajectory(keys), out)

    def grad_with_deviations(self, position, keys, out):
        return self.target.grad_with_deviations(position, self._keys_of_the_trajectory(keys), out)


class SphereOfAmbientDimension(Sphere):
    """A sphere that takes the coordinates of a point for its dimension."""

    @property
    def dim(self):
        return self.size


class WallsThatKeepMomenta(PositiveOrthant):
    """Positions are mirrored, and their momenta go on into the wall."""

    def reflect(self, x, momentum=None):
        np.abs(x, out=x)
