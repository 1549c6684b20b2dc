"""Fitted attributes of a mixture of subspaces: draws with matched components, and posterior means."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from ...base import stack_draws
from ...emissions._dense_rows import DenseRows
from ...inference._arviz import falling
from ...inference._chains import Chain, best_chain
from .._densities import FamilyRows
from .._memberships.finite import Position, PositionDraws
from .._prior import named_as_draws
from .model import SubspaceModel

DRAW_AXES = {  # axes of exported arrays after chain and draw
    "dimensions": ["component"],
    "weights": ["component"],
    "means": ["component", "feature"],
    "noise_variance": ["component"],
    "variances": ["component", "direction"],
    "leverages": ["component", "feature"],
}
_ROWS = 1000  # used to match the components of different draws


def estimate_subspaces(chains: list[Chain]) -> dict[str, Any]:
    """Fitted attributes from the current chains: matched draws, and posterior means of the best chain."""
    best = best_chain(chains)
    of_chains: list[list[Any]] = [[draw["_draw"] for draw in chain.draws if "_draw" in draw] for chain in chains]
    made = bool(of_chains[best])
    if not made:  # stopped before the first draw
        of_chains = [[draw_of_chain(chain)] for chain in chains]
    orders = match_draws(chains[best].model, of_chains, best)
    matched = [list(map(_in_order, *of_chain)) for of_chain in zip(of_chains, orders, strict=True)]
    fitted: dict[str, Any] = {}
    labels = [[draw["_labels"] for draw in chain.draws if "_draw" in draw] for chain in chains]
    if made and len(labels[best][0]):
        places = np.argsort(orders, axis=2).astype(np.int32)  # of the components of each draw in its order
        fitted["_stored_labels"] = np.take_along_axis(places, np.array(labels), axis=2)
    return {
        **fitted,
        "best_chain_": best,
        "_draws": matched[best],
        "_chains": matched if made else [[] for _ in chains],
        "_whole_draws": np.array([i for i, draw in enumerate(chains[best].draws) if "_draw" in draw], np.int64),
        **summarise_subspaces(matched[best], chains[best].model.family.max_dimension),
    }


def match_draws(model: SubspaceModel, of_chains: list[list[Position]], best: int) -> np.ndarray:
    """Order of the components of each draw that matches them across draws, (n_chains, n_draws, K).

    Components are matched by their responsibilities for a subset of the rows. They are in order of decreasing mean
    weight in the best chain.
    """
    if model.family.n_components == 1:
        return np.zeros((len(of_chains), len(of_chains[best]), 1), np.int64)
    some = model.X[:: -(-len(model.X) // _ROWS)] + model.family.location
    rows = FamilyRows(model.family, DenseRows(some))

    def responsibilities(draw: Position) -> np.ndarray:
        return draw.expected(rows, model.workers)[0]

    reference = responsibilities(of_chains[best][-1]).T
    orders = np.array(
        [[linear_sum_assignment(-(reference @ responsibilities(draw)))[1] for draw in chain] for chain in of_chains]
    )
    weights = [draw.weights[order] for draw, order in zip(of_chains[best], orders[best], strict=True)]
    return orders[:, :, np.argsort(-np.mean(weights, axis=0), kind="stable")]


def draws_as_arrays(family: Any, of_chains: list[list[Position]], example: Position) -> dict[str, np.ndarray]:
    """Draws of all chains as a dict of arrays (n_chains, n_draws, ...); `example` has their shapes."""

    def as_arrays(draw: Position) -> dict[str, np.ndarray]:
        return {"weights": draw.weights, **named_as_draws(family.attributes(draw.parameters))}

    arrays = [[as_arrays(draw) for draw in chain] for chain in of_chains]
    names = as_arrays(example).items()
    return {name: stack_draws([[draw[name] for draw in chain] for chain in arrays], like) for name, like in names}


def export_draws(posterior: dict[str, np.ndarray], whole: np.ndarray) -> dict[str, np.ndarray]:
    """The draws of ``posterior_`` for export, with leverages in place of bases.

    Only the complete draws are exported, and directions are in order of decreasing variance. The axes of a basis have
    arbitrary signs, and are not unique if variances are equal. The leverages, which are the diagonal of the projection,
    do not depend on the choice of axes.
    """
    of_components = {name: draws for name, draws in posterior.items() if name != "bases"}
    of_components["log_likelihood"] = posterior["log_likelihood"][:, whole]
    of_components["variances"] = falling(posterior["variances"])
    return {**of_components, "leverages": np.nansum(posterior["bases"] ** 2, axis=-2)}


def summarise_subspaces(draws: list[Position], max_dimension: int) -> dict[str, Any]:
    """Posterior summaries: modes of the dimensions, mean subspaces, and means of the other parameters."""
    subspaces = [draw.parameters for draw in draws]
    dims = np.array([draw.dims for draw in subspaces])
    shares = np.array([np.bincount(of, minlength=max_dimension + 1) for of in dims.T]) / len(draws)
    modal = shares.argmax(axis=1)
    return {
        "dimension_posterior_": shares,
        "dimensions_": modal,
        "bases_": [mean_basis([draw.basis(k) for draw in subspaces], int(d)) for k, d in enumerate(modal)],
        "means_": np.mean([draw.centres for draw in subspaces], axis=0),
        "weights_": PositionDraws(draws).weights,
        "noise_variance_": np.mean([1.0 / draw.noise for draw in subspaces], axis=0),
    }


def mean_basis(bases: list[np.ndarray], d: int) -> np.ndarray:
    """Orthonormal basis (d, m) of the d-dimensional subspace nearest to the mean of the projections onto `bases`.

    The axes are eigenvectors of the mean projection, in order of decreasing eigenvalue.
    """
    stacked = np.concatenate(bases)
    m = stacked.shape[1]
    if d == 0:
        return np.empty((0, m))
    # stacked' stacked is the sum of the projections.
    axes = eigh(stacked.T @ stacked, subset_by_index=(m - d, m - 1))[1].T[::-1]
    signs = np.sign(axes[np.arange(d), np.abs(axes).argmax(axis=1)])
    return axes * signs[:, None]


def draw_of_chain(chain: Chain) -> Position:
    """The current draw, with centres in the space of X."""
    weights, subspaces = chain.state.position
    return Position(weights, subspaces.moved(chain.model.family.location))


def _in_order(draw: Position, order: np.ndarray) -> Position:
    return Position(draw.weights[order], draw.parameters.in_order(order))
