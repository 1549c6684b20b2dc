"""From the chains of a mixture of subspaces to what is told of them: draws in one order of components, their means."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax

from ...base import stack_draws
from ...inference._arviz import falling
from ...inference._chains import Chain, best_chain
from .model import SubspaceModel, log_terms
from .parameters import Subspaces

DRAW_AXES = {  # of what is exported, after those of chains and draws
    "dimensions": ["component"],
    "weights": ["component"],
    "means": ["component", "feature"],
    "noise_variance": ["component"],
    "variances": ["component", "direction"],
    "leverages": ["component", "feature"],
}
_ROWS = 1000  # by which components of different draws are recognised


def record_subspaces(chain: Chain, stride: int) -> dict[str, Any]:
    """A draw: every `stride`-th time counted from the last, all of it."""
    return {"_draw": _drawn(chain)} if chain.is_whole_draw(stride) else {}


def estimate_subspaces(chains: list[Chain]) -> dict[str, Any]:
    """Fitted attributes, from wherever the chains stand: draws in one order of components, and means of the best's."""
    best = best_chain(chains)
    of_chains: list[list[Any]] = [[draw["_draw"] for draw in chain.draws if "_draw" in draw] for chain in chains]
    made = bool(of_chains[best])
    if not made:  # too early
        of_chains = [[_drawn(chain)] for chain in chains]
    orders = match_draws(chains[best].model, of_chains, best)
    matched = [list(map(Subspaces.in_order, *of_chain)) for of_chain in zip(of_chains, orders, strict=True)]
    return {
        "best_chain_": best,
        "_draws": matched[best],
        "_chains": matched if made else [[] for _ in chains],
        "_whole_draws": np.array([i for i, draw in enumerate(chains[best].draws) if "_draw" in draw], np.int64),
        **summarise_subspaces(matched[best], chains[best].model.priors.max_dimension),
    }


def match_draws(model: SubspaceModel, of_chains: list[list[Subspaces]], best: int) -> np.ndarray:
    """For each draw the order in which its components are the same throughout, (n_chains, n_draws, K).

    Components are the same that hold the same rows, as far as some rows tell; in the best chain those of the largest
    weights on average come first.
    """
    rows = model.X[:: -(-len(model.X) // _ROWS)] + model.priors.location

    def held(draw: Subspaces) -> np.ndarray:
        return softmax(log_terms(rows, draw, model.workers), axis=1)

    reference = held(of_chains[best][-1]).T
    orders = np.array([[linear_sum_assignment(-(reference @ held(draw)))[1] for draw in chain] for chain in of_chains])
    weights = [draw.weights[order] for draw, order in zip(of_chains[best], orders[best], strict=True)]
    return orders[:, :, np.argsort(-np.mean(weights, axis=0), kind="stable")]


def tell_draws(of_chains: list[list[Subspaces]], example: Subspaces) -> dict[str, np.ndarray]:
    """Draws of all chains as arrays of shape (n_chains, n_draws, ...), by name; `example` where there are none."""
    told = [[_tell(draw) for draw in chain] for chain in of_chains]
    names = _tell(example).items()
    return {name: stack_draws([[draw[name] for draw in chain] for chain in told], like) for name, like in names}


def name_draws(posterior: dict[str, np.ndarray], whole: np.ndarray) -> dict[str, np.ndarray]:
    """The draws in ``posterior_`` as they are exported: at the whole ones, of bases what does not depend on their axes.

    Directions stand in the order of falling variance. Axes of a basis have signs at random, and where variances are
    close any others do as well; the leverages, the diagonal of the projection, are the same for all.
    """
    of_components = {name: draws for name, draws in posterior.items() if name != "bases"}
    of_components["log_likelihood"] = posterior["log_likelihood"][:, whole]
    of_components["variances"] = falling(posterior["variances"])
    return {**of_components, "leverages": np.nansum(posterior["bases"] ** 2, axis=-2)}


def summarise_subspaces(draws: list[Subspaces], max_dimension: int) -> dict[str, Any]:
    """Means over draws; of the subspaces, of their projections."""
    dims = np.array([draw.dims for draw in draws])
    shares = np.array([np.bincount(of, minlength=max_dimension + 1) for of in dims.T]) / len(draws)
    modal = shares.argmax(axis=1)
    return {
        "dimension_posterior_": shares,
        "dimensions_": modal,
        "bases_": [mean_basis([draw.basis(k) for draw in draws], int(d)) for k, d in enumerate(modal)],
        "means_": np.mean([draw.centres for draw in draws], axis=0),
        "weights_": np.mean([draw.weights for draw in draws], axis=0),
        "noise_variance_": np.mean([1.0 / draw.noise for draw in draws], axis=0),
    }


def mean_basis(bases: list[np.ndarray], d: int) -> np.ndarray:
    """The subspace of dimension d nearest to the mean of the projections onto others, orthonormal rows (d, m).

    Its axes are those along which the projections agree most, the surest first.
    """
    stacked = np.concatenate(bases)
    m = stacked.shape[1]
    if d == 0:
        return np.empty((0, m))
    # Those are the eigenvectors of stacked' stacked, the sum of projections, with the largest eigenvalues.
    axes = eigh(stacked.T @ stacked, subset_by_index=(m - d, m - 1))[1].T[::-1]
    signs = np.sign(axes[np.arange(d), np.abs(axes).argmax(axis=1)])
    return axes * signs[:, None]


def _drawn(chain: Chain) -> Subspaces:
    return chain.state.position.moved(chain.model.priors.location).compact()


def _tell(draw: Subspaces) -> dict[str, np.ndarray]:
    """A draw in the words of ``posterior_``, with NaN in the places of directions that it does not have."""
    held = np.arange(draw.bases.shape[1]) < draw.dims[:, None]
    return {
        "dimensions": draw.dims,
        "weights": draw.weights,
        "means": draw.centres,
        "noise_variance": 1.0 / draw.noise,
        "bases": np.where(held[..., None], draw.bases, np.nan),
        "variances": np.where(held, 1.0 / (draw.ratios * draw.noise[:, None]), np.nan),
    }
