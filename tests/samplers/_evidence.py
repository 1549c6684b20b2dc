"""Expectations under a sampler, with the standard error that independent chains give, and exact draws to begin from."""

from typing import NamedTuple

import numpy as np

from skmanifold.random._keys import Purpose, root_key, subkey

N_ERRORS = 4.5  # a true statement fails once in 150,000; the seeds are fixed all the same


class Estimate(NamedTuple):
    mean: np.ndarray
    error: np.ndarray  # standard error of the mean


def chain_keys(n_chains, seed=0):
    """The keys that `sample` gives to its chains."""
    root = root_key(seed)
    return np.array([subkey(root, Purpose.CHAIN, chain) for chain in range(n_chains)], np.uint64)


def walk(sampler, target, n_steps, *, n_chains=1000, position=None, seed=0, state=None):
    """States after each step; a step may write over the one before."""
    if state is None:
        if position is not None:
            position = np.broadcast_to(position, (n_chains, *target.manifold.shape))
        state = sampler.init(target, chain_keys(n_chains, seed), position)
    for _ in range(n_steps):
        state = sampler.step(target, state)
        yield state


def expectations(sampler, target, statistics, n_steps, *, burn_in=0, **options):
    """Means over chains and steps of ``statistics(state)``, with errors from the spread of the chains."""
    total = 0.0
    for n, state in enumerate(walk(sampler, target, burn_in + n_steps, **options)):
        if n >= burn_in:
            total = total + statistics(state)
    return summarize(total / n_steps)


def summarize(of_chains):
    of_chains = np.asarray(of_chains, float)
    return Estimate(of_chains.mean(axis=0), of_chains.std(axis=0, ddof=1) / np.sqrt(len(of_chains)))


def variance(x):
    """Variance of independent values, by column, and its error."""
    return summarize((x - x.mean(axis=0)) ** 2 * len(x) / (len(x) - 1))


def assert_agrees(estimate, exact, bias=0.0):
    """Within `N_ERRORS` Monte Carlo standard errors, and what discretisation may add."""
    mean, error = estimate
    excess = np.abs(mean - exact) - bias - N_ERRORS * error
    assert np.all(excess <= 0), f"{mean} +- {error}, not {exact} within a bias of {bias}"


def assert_disagrees(estimate, exact, bias=0.0):
    """The check of `assert_agrees` can fail, and does."""
    try:
        assert_agrees(estimate, exact, bias)
    except AssertionError:
        return
    raise AssertionError(f"{estimate.mean} +- {estimate.error} passes for {exact} within a bias of {bias}")


def accept_all(keys, kinetic, kinetic_after, log_density, proposed, accepted):
    """A wrong Metropolis test, which accepts every proposal with a finite energy."""
    accepted[:] = np.isfinite(proposed - log_density + kinetic - kinetic_after)
    log_density[accepted] = proposed[accepted]
