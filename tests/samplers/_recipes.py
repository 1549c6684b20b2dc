"""Matrices and recipes that several tests use."""

import numpy as np

from skmanifold.samplers._density.recipe import Recipe

HAMILTONIAN = np.array([[0.0, -1.0], [1.0, 0.0]])


FRICTION = np.diag([0.0, 1.5])


def random_recipe(seed, size, n_auxiliary):
    """Any smooth D(z) = L L' and Q(z) = S - S', and an energy in which the auxiliary variables depend on each other."""
    rng = np.random.default_rng(seed)
    nz = size + n_auxiliary
    L, S = rng.normal(size=(2, 2, nz, nz)) / 2
    wave = rng.normal(size=(2, nz))
    mass = rng.normal(size=(n_auxiliary, n_auxiliary))
    mass = mass @ mass.T + np.eye(n_auxiliary)

    def field(matrices, w, z):
        return matrices[0] + np.sin(z @ w)[..., None, None] * matrices[1]

    def diffusion(z):
        root = field(L, wave[0], z)
        return root @ root.mT

    def curl(z):
        matrix = field(S, wave[1], z)
        return matrix - matrix.mT

    def energy(z):  # normal given x, with a mean that depends on x
        a = z[..., size:] - 0.3 * np.sin(z[..., :1])
        return np.einsum("...i,ij,...j->...", a, mass, a) / 2

    return Recipe(diffusion, curl, energy if n_auxiliary else None, n_auxiliary=n_auxiliary, vectorized=True)
