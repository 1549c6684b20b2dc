"""Exact laws of a subspace of few directions, chains of transitions, and kernels with a piece exchanged."""

import inspect
from functools import cache

import numpy as np
import pytest
from samplers._evidence import summarize
from scipy.special import gammainc, gammaln, log_softmax

from skmanifold.mixture._subspace import frame_kernels as frames
from skmanifold.random._keys import fold_in, fold_in_each, root_key, subkey

KEY = root_key(11)
upper = cache(np.triu_indices)
compiled = pytest.mark.skipif(not hasattr(frames.move_frame, "py_func"), reason="chains of kernels that are compiled")


def altered(kernel, old="", new="", **names):
    """The kernel with a piece of its source exchanged, and others for the functions that it calls."""
    function = getattr(kernel, "py_func", kernel)
    source = inspect.getsource(function).split("\n", 1)[1]
    assert old in source
    scope = {**function.__globals__, "fold_in": lambda *key: np.uint64(fold_in(*key)), **names}
    exec(source.replace(old, new), scope)
    return scope[function.__name__]


def in_order(kernel):
    """`move_directions` with a scan that begins with the directions of the subspace, which is wrong."""

    def fill_in_order(key, out):
        out[:] = np.arange(len(out))

    return altered(kernel, fill_permutation=fill_in_order)


def keys_of(n, *purpose):
    return fold_in_each(subkey(KEY, *purpose), np.arange(n))


def log_unit_gamma(shape, rate):
    rate = np.maximum(rate, 1e-12)
    return gammaln(shape) + np.log(gammainc(shape, rate)) - shape * np.log(rate)


def gains(n, scatters, noise, shape):
    """Log gains of directions, and their ratios' means."""
    rate = 0.5 * noise * scatters
    log_z = log_unit_gamma(shape + 0.5 * n, rate)
    return np.log(shape) + log_z + rate, np.exp(log_unit_gamma(shape + 0.5 * n + 1.0, rate) - log_z)


@cache
def all_frames(m, n_nodes=40):
    """Nodes (N, m, m) and weights of the uniform law of frames, for functions that signs of directions do not move."""
    angles = 2.0 * np.pi * np.arange(n_nodes) / n_nodes
    if m == 2:
        angles = np.pi * np.arange(8 * n_nodes) / (8 * n_nodes)
        cosines, sines = np.cos(angles), np.sin(angles)
        return np.stack([cosines, sines, -sines, cosines], axis=1).reshape(-1, 2, 2), np.full(len(angles), 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    about, tilt = np.zeros((n_nodes, 3, 3)), np.zeros((n_nodes, 3, 3))
    about[:, 0, 0] = about[:, 1, 1] = np.cos(angles)
    about[:, 1, 0] = np.sin(angles)
    about[:, 0, 1] = -about[:, 1, 0]
    about[:, 2, 2] = tilt[:, 1, 1] = 1.0
    tilt[:, 0, 0] = tilt[:, 2, 2] = nodes
    tilt[:, 0, 2] = np.sqrt(1.0 - nodes**2)
    tilt[:, 2, 0] = -tilt[:, 0, 2]
    turned = np.einsum("iab,jbc,kcd->ijkad", about, tilt, about).reshape(-1, 3, 3)
    return turned, np.tile(np.repeat(weights, n_nodes), n_nodes)


def scatter_of(Y):
    return Y.T @ Y


def of_subspace(basis, ratios, m):
    """What is compared of a subspace: which dimension, the entries of its projection, the sum of its ratios."""
    return np.concatenate([np.arange(m + 1) == len(basis), (basis.T @ basis)[upper(m)], [ratios.sum()]])


def exact_of_subspace(Y, n, noise, log_dimension, shape, n_nodes=40):
    """Expectations of `of_subspace` in two or three dimensions."""
    m = Y.shape[1]
    turned, weights = all_frames(m, n_nodes)
    log_gains, means = gains(n, np.einsum("nja,ab,njb->nj", turned, scatter_of(Y), turned), noise, shape)
    rows, logs = [], []
    for d, log_prior in enumerate(log_dimension):
        mass = weights * np.exp(log_gains[:, :d].sum(axis=1))
        projections = np.einsum("n,nja,njb->ab", mass, turned[:, :d], turned[:, :d]) / mass.sum()
        at = np.concatenate([projections[upper(m)], [mass @ means[:, :d].sum(axis=1) / mass.sum()]])
        rows.append(np.concatenate([np.arange(m + 1) == d, at]))
        logs.append(log_prior + np.log(mass.sum()))
    return np.exp(log_softmax(logs)) @ np.array(rows)


def walk(transition, m, statistic, n_steps=200, n_chains=60, basis=None, burn_in=20):
    """An estimate from chains of ``transition(basis, ratios, key) -> (basis, ratios, ...)``."""
    rows = []
    for chain in range(n_chains):
        at = (np.zeros((0, m)), np.zeros(0)) if basis is None else (basis, np.full(len(basis), 0.5))
        total = 0.0
        for t, key in enumerate(keys_of(burn_in + n_steps, chain)):
            at = transition(*at, key)[:2]
            if t >= burn_in:
                total = total + statistic(*at)
        rows.append(total / n_steps)
    return summarize(rows)
