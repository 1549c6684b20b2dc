"""Checks of targets that the tests of this folder share: finite differences, and all minibatches of few rows."""

import itertools

import numpy as np

from skmanifold.manifolds import PositiveOrthant, Simplex, Sphere
from skmanifold.models import DirichletPosterior, LogNormalMean

STENCIL = np.array([-2.0, -1.0, 1.0, 2.0])
WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12


def small_posterior():
    return DirichletPosterior([0.5, 1.0, 2.0], [0, 0, 1, 2, 0])


def small_log_normal():
    z = np.random.default_rng(0).standard_normal((5, 2, 3))
    return LogNormalMean(0.3, [[1.0, 2.0, 3.0], [0.5, 0.7, 0.9]], z, 1.5)


def gradient_of(target, position, keys=None):
    out = np.full_like(position, np.nan)
    target.grad_log_density(position, keys, out)
    return out


def random_positions(target, n_chains=3, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([target.manifold.random_point(rng) for _ in range(n_chains)])


def check_gradient(target, position, rtol=1e-6):
    """The gradient along every coordinate curve of the manifold is the difference quotient of the log density."""
    gradients = gradient_of(target, position)
    assert np.isfinite(gradients).all()
    for x, gradient in zip(position, gradients, strict=True):
        curves, expected = coordinate_curves(target.manifold, x, gradient)
        values = target.log_density(np.concatenate(curves)).reshape(len(curves), 4)
        steps = [step for _, step in expected]
        measured = values @ WEIGHTS / steps
        np.testing.assert_allclose(measured, [g for g, _ in expected], rtol=rtol, atol=rtol * np.abs(gradient).max())


def coordinate_curves(manifold, x, gradient):
    """Points of curves through `x` at the stencil's times; their derivatives as `gradient` has them, and steps."""
    curves, expected = [], []
    if isinstance(manifold, Sphere):
        gradient = gradient - x * (x * gradient).sum(axis=-1, keepdims=True)
    for index in np.ndindex(x.shape):
        direction = np.zeros_like(x)
        direction[index] = 1
        step = 1e-3
        if isinstance(manifold, Simplex):
            last = (*index[:-1], int(np.argmax(x[index[:-1]])))
            if last == index:
                continue
            direction[last] = -1
            step *= x[index]
            derivative = gradient[index] - gradient[last]
        else:
            step *= x[index] if isinstance(manifold, PositiveOrthant) else 0.1 if isinstance(manifold, Sphere) else 1
            derivative = gradient[index]
        points = x + np.multiply.outer(step * STENCIL, direction)
        if isinstance(manifold, Sphere):
            points /= np.linalg.norm(points, axis=-1, keepdims=True)
        curves.append(points)
        expected.append((derivative, step))
    return curves, expected


def keys_of_all_subsets(n_samples, n):
    """One key for each subset of n rows, as an array of keys."""
    from skmanifold.random._keys import Purpose
    from skmanifold.random._variates import sample_rows

    keys = np.arange(4000, dtype=np.uint64)
    rows = np.empty((len(keys), n), np.int64)
    sample_rows(keys, Purpose.MINIBATCH, n_samples, rows)
    found = {}
    for key, subset in zip(keys, map(frozenset, rows.tolist()), strict=True):
        found.setdefault(subset, key)
    assert len(found) == len(list(itertools.combinations(range(n_samples), n)))
    return np.array(list(found.values()), np.uint64)


def check_minibatches(target, position, n=2):
    """Over all minibatches: the gradient's mean is the full gradient, and deviations give its covariance on average."""
    keys = keys_of_all_subsets(target.n_samples, n)
    exact = gradient_of(target, position[np.newaxis])[0]
    positions = np.repeat(position[np.newaxis], len(keys), axis=0)
    small = target.minibatched(n)
    assert small.batch_size == n
    assert target.batch_size is None
    gradients = gradient_of(small, positions, keys)
    assert np.ptp(gradients, axis=0).max() > 0.01
    np.testing.assert_allclose(gradients.mean(axis=0), exact, rtol=1e-11, atol=1e-11 * np.abs(gradients).max())

    again = np.empty_like(gradients)
    deviations = small.grad_with_deviations(positions, keys, again)
    assert deviations.shape == (len(keys), n, *position.shape)
    np.testing.assert_allclose(again, gradients, rtol=1e-12, atol=1e-12 * np.abs(gradients).max())
    flat = deviations.reshape(len(keys), n, -1)
    estimates = np.einsum("cni,cnj->cij", flat, flat)
    covariance = np.cov(gradients.reshape(len(keys), -1).T, ddof=0).reshape(estimates.shape[1:])
    np.testing.assert_allclose(estimates.mean(axis=0), covariance, rtol=1e-10, atol=1e-12 * covariance.max())

    # of all rows there is no noise, and without keys no minibatch
    full = target.grad_with_deviations(positions, keys, again)
    assert np.abs(full).max() <= 1e-12 * np.abs(gradients).max()
    np.testing.assert_allclose(again[0], exact, rtol=1e-12, atol=1e-12 * np.abs(exact).max())
    np.testing.assert_array_equal(gradient_of(small, positions), gradient_of(target, positions))
    np.testing.assert_array_equal(
        gradient_of(small.minibatched(None), positions, keys), gradient_of(target, positions, keys)
    )


def check_chains_do_not_mix(target, position, keys=None):
    """Chains beside each other get what they would get alone, bit for bit."""
    together = gradient_of(target, position, keys)
    for c in range(len(position)):
        alone = gradient_of(target, position[c : c + 1], None if keys is None else keys[c : c + 1])
        np.testing.assert_array_equal(alone[0], together[c])


def expectations(target, position, weights, functions):
    """Means of functions of the points under ``exp(log_density) * weights``, and its log normaliser."""
    logs = np.concatenate([target.log_density(p) for p in np.array_split(position, max(1, len(position) // 20000))])
    top = logs.max()
    mass = np.exp(logs - top) * weights
    total = mass.sum()
    return [np.tensordot(mass, f, 1) / total for f in functions], np.log(total) + top


def square_grid(low, high, n, dim):
    """Midpoints of a cube cut into ``n ** dim`` cells, ``(n ** dim, dim)``, and a cell's volume."""
    step = (high - low) / n
    axis = low + step * (np.arange(n) + 0.5)
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim), step**dim
