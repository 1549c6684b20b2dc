"""Slice samplers for rows of any emission: chains that begin at exact draws, and data drawn again given the labels."""

from functools import cache

import numpy as np
from samplers._evidence import Estimate, summarize
from sklearn.base import clone

from skmanifold import DPMixture
from skmanifold.emissions._statistics import JoinedStatistics, join_statistics
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.random._keys import root_key, subkey
from skmanifold.utils._threads import Workers

from . import _tiny_partitions as tiny
from ._emission_partitions import CASES, N_ROWS, Rows
from ._slice_evidence import (
    NO_PRIOR,
    PartitionPosterior,
    clusters_and_empty_sticks,
    draw_from_the_prior,
    state_of,
    statistics,
)

GAMMA = (1.5, 1.2)
PRIORS = {"given": 1.0, "learned": GAMMA}
PAIRS = np.triu_indices(N_ROWS, 1)


# --- the package's model ---------------------------------------------------------------------------------


def clusters_of(rows: Rows):
    """The rows and the prior of their components, as the package reads them."""
    emission, reader = rows.emission, DPMixture()
    if "widths" in rows.hyper:
        emission = clone(emission).set_params(min_categories=list(rows.hyper["widths"]))
    read = emission.read(reader, rows.as_read, reset=True)
    return emission.bind(read, 1).clusters(read)


def model_of(rows, concentration, batch_size=None, kind=DPModel):
    """`concentration` is alpha, or shape and rate of its gamma prior."""
    given = (None, concentration) if isinstance(concentration, tuple) else (concentration, NO_PRIOR)
    return kind(clusters_of(rows), *given, init=3, batch_size=batch_size, workers=Workers(1))


def state_at(model, alpha, labels, key, X):
    """A sampler's state at these labels and completed rows X."""
    state = state_of(model, alpha, labels, key)
    statistics = with_completed(model.clusters, model.clusters.no_statistics(len(state.statistics.sizes)), X)
    model.clusters.count(state.latents, statistics, model.workers)
    return state._replace(statistics=statistics)


def with_completed(clusters, statistics, X):
    """Statistics of no rows, with the values of completed rows X if these are part of them."""
    if isinstance(statistics, JoinedStatistics):
        pairs = zip(clusters.blocks, clusters.places, strict=True)
        return join_statistics(
            [with_completed(block, block.no_statistics(len(statistics.sizes)), X[:, place]) for block, place in pairs]
        )
    if not hasattr(statistics, "completed"):
        return statistics
    incomplete = np.isnan(clusters.rows.values).any(axis=1)
    return statistics._replace(completed=np.ascontiguousarray(X[incomplete]))


# --- chains that begin at exact draws --------------------------------------------------------------------


def with_pairs(labels, alphas, learned):
    """`statistics`, and whether rows i < j are together."""
    together = labels[..., PAIRS[0]] == labels[..., PAIRS[1]]
    return np.concatenate([statistics(labels, alphas, learned), together], axis=-1)


class EmissionPosterior(PartitionPosterior):
    """Of labels of sticks and the concentration, given five rows."""

    def __init__(self, rows, concentration):
        self.rows = rows
        super().__init__(rows.law(concentration), N_ROWS, concentration)

    def expected(self):
        """Of `with_pairs`."""
        of_pairs = [tiny.together(self.law, i, j) for i, j in zip(*PAIRS, strict=True)]
        return np.concatenate([self.expectations, of_pairs])

    def completed(self, labels, rng):
        """The rows, with missing cells drawn if they are part of a sampler's state."""
        return self.rows.draw_missing(labels, rng) if self.rows.has_missing_draws else self.rows.X


@cache
def posterior_of(name, prior):
    return EmissionPosterior(CASES[name], PRIORS[prior])


def estimate(sampler, posterior, batch_size=None, *, rows=None, kind=DPModel, n_chains=60, n_steps=30, seed=0):
    """Of `with_pairs` along chains that begin at exact draws, for the posterior's rows unless others are given."""
    rng, root = np.random.default_rng(seed), root_key(seed)
    alphas, starts = posterior.draws(n_chains, rng)
    model = model_of(rows or posterior.rows, posterior.concentration, batch_size, kind)
    labels = np.empty((n_chains, n_steps, N_ROWS), np.int64)
    concentrations = np.empty((n_chains, n_steps))
    for chain in range(n_chains):
        X = posterior.completed(starts[chain], rng)
        state = state_at(model, alphas[chain], starts[chain], subkey(root, chain), X)
        for n in range(n_steps):
            state = sampler.step(model, state)
            labels[chain, n], concentrations[chain, n] = state.latents, state.position
    return summarize(with_pairs(labels, concentrations, posterior.learned).mean(axis=1))


# --- data drawn again ------------------------------------------------------------------------------------


def draw_data(rows, labels, rng):
    """Complete rows given labels, their components integrated out."""
    _, compact = np.unique(labels, return_inverse=True)
    return rows.draw_rows(rows.draw_components(compact.max() + 1, rng), compact, rng)


def joint_statistics(alphas, labels, X):
    """Of concentrations (...), labels (..., n_rows) and rows (..., n_rows, n_features): with bounded functions of the
    cells, since normal cells with a random variance may have no moments.
    """
    n_clusters, empty = clusters_and_empty_sticks(labels)
    together = labels[..., PAIRS[0]] == labels[..., PAIRS[1]]
    columns = [alphas, n_clusters, n_clusters**2, empty, alphas * empty]
    columns += [together.mean(axis=-1), alphas * together.mean(axis=-1)]
    cells = np.nan_to_num(X / (1 + np.abs(X)))
    products = cells[..., PAIRS[0], :] * cells[..., PAIRS[1], :]
    gaps = (cells[..., PAIRS[0], :] - cells[..., PAIRS[1], :]) ** 2
    of_cells = [cells.mean(axis=-2), (cells**2).mean(axis=-2), products.mean(axis=-2)]
    of_cells += [(together[..., None] * gaps).mean(axis=-2), n_clusters[..., None] * gaps.mean(axis=-2)]
    return np.concatenate([np.stack(columns, axis=-1), *of_cells], axis=-1)


def joint_difference(
    sampler, rows, batch_size=None, *, wrong=None, kind=DPModel, n_chains=60, n_steps=40, n_of_data=4, n_forward=4000
):
    """Means of `joint_statistics` in Geweke's successive-conditional simulator, `n_of_data` steps and then data drawn
    given the labels, less those where all comes from the prior. `wrong(rows)` are the rows that the model gets.
    """
    rng, root = np.random.default_rng(5), root_key(5)
    alphas, _, labels = draw_from_the_prior(n_forward, N_ROWS, rng, GAMMA)
    complete = np.array([draw_data(rows, drawn, rng) for drawn in labels])
    forward = summarize(joint_statistics(alphas, labels, np.where(rows.missing, np.nan, complete)))

    def begin(alpha, labels, X, key):
        seen = rows.changed(X=np.where(rows.missing, np.nan, X))
        model = model_of(wrong(seen) if wrong else seen, GAMMA, batch_size, kind)
        return seen.X, model, state_at(model, alpha, labels, key, X)

    series = []
    for chain in range(n_chains):
        X, model, state = begin(alphas[chain], labels[chain], complete[chain], subkey(root, chain))
        drawn = []
        for n in range(1, n_steps + 1):
            state = sampler.step(model, state)
            drawn.append((state.position, state.latents.copy(), X))
            if n % n_of_data == 0:
                again = draw_data(rows, state.latents, rng)
                X, model, after = begin(state.position, state.latents, again, state.key)
                state = after._replace(n_steps=state.n_steps)  # other random numbers than before
        series.append(joint_statistics(*map(np.array, zip(*drawn, strict=True))).mean(axis=0))
    successive = summarize(series)
    return Estimate(successive.mean - forward.mean, np.hypot(successive.error, forward.error))
