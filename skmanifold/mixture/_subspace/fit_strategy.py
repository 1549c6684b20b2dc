"""How `SubspaceMixture` is fitted: estimates from draws with matched components."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from ...base import FitStrategy, Run
from ...emissions._dense_rows import DenseRows
from ...inference._chains import Chain, best_chain
from ...inference._draw_store import DrawStore, evenly_spaced
from ...metrics._partitions import compact_labels
from ...random._keys import Purpose, subkey
from ...samplers import FrameGibbs
from ...samplers._latent.stick_breaking import check_concentration_prior
from ...utils._threads import Workers
from .._memberships import DirichletWeights, Position, PositionDraws
from .._scores import FamilyRows, label_rows, shares_and_log_density
from .family import SubspaceFamily, bound_family
from .model import IncompleteSubspaceModel, SingleSubspaceModel, SubspaceModel
from .process import SubspaceProcess
from .starts import start_of_any_number, start_partitions

_ROWS = 1000  # used to match the components of different draws
_MANY, _LEAST_MANY = 0.75, 8  # share of directions, of at least so many, above which dimensions are no summary
_N_STEPS = 10  # with one subspace, before initial partitions of rows with missing cells


class SubspacesFit(FitStrategy):
    """The fit to all rows, from the best of several initial partitions."""

    def __init__(self, mixture: Any, X: Any, run: Run, family: SubspaceFamily | None = None):
        super().__init__(run.sampler)
        self.mixture = mixture
        self.run = run
        self.rows = mixture._read_rows(X, reset=family is None)
        self.n_rows = self.rows.n_rows
        if family is None and self.n_rows < (mixture.n_components or 1):
            raise ValueError(
                f"n_components={mixture.n_components} subspaces need as many rows, but X has n_samples={self.n_rows}."
            )
        self.family = bound_family(mixture, self.rows.values) if family is None else family

    def model(self, workers: Workers) -> Any:
        """The model of the centred rows, without initial partitions."""
        self.workers, family = workers, self.family
        rows = self.rows._replace(values=self.rows.values - family.location)
        weights = DirichletWeights.of_parameter(self.mixture.weight_prior, family.n_components)
        of_chains: tuple[Any, ...] = (family, weights, [], workers, self.run.schedule.burn_in)
        if rows.has_missing:
            # Their rows change, also those of one subspace
            return IncompleteSubspaceModel(
                rows, SubspaceModel(_filled(rows, family, self.run.key, workers), *of_chains)
            )
        of_rows = SingleSubspaceModel if self.mixture.n_components == 1 else SubspaceModel
        return of_rows(rows.values, *of_chains)

    def prepare(self, model: Any, workers: Workers) -> Any:
        """The model with its initial partitions."""
        mixture, key = self.mixture, subkey(self.run.key, Purpose.START)
        starts = start_partitions(model.complete.X, self.family, mixture.init, mixture.n_init, key)
        model = model.with_starts(starts)
        self._limit_draws(model.beginnings[0][1])
        return model

    def _limit_draws(self, example: Position) -> None:
        """Set how many draws are kept, each of about the size of the example."""
        mixture = self.mixture
        self.n_stored = min(mixture.n_stored_rows, self.n_rows)
        draw = example.weights, *example.parameters.moved(self.family.location)
        draw_bytes = sum(array.nbytes for array in draw) + 4 * self.n_stored
        # The last draw is kept even if it is too large, because the estimates are computed from draws.
        store = DrawStore.within(mixture.max_draws_bytes, mixture.n_chains * draw_bytes)
        n_draws = self.run.schedule.n_draws
        self.stride = store.stride(n_draws) or n_draws

    def record(self, chain: Chain) -> dict[str, Any]:
        """Every `stride`-th draw, counted from the last, with the labels of the first rows."""
        return self._draw(chain) if chain.is_whole_draw(self.stride) else {}

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's draws, in one order of components, and the most probable component of each row.

        If the number of components is inferred, the draws are those with the most probable number.
        """
        best = best_chain(chains)
        whole_draws = np.flatnonzero(["_draw" in draw for draw in chains[best].draws])
        made = len(whole_draws) > 0  # else the fit was stopped before the first draw
        kept = [[draw for draw in chain.draws if "_draw" in draw] if made else [self._draw(chain)] for chain in chains]
        drawn: list[list[Any]] = [[draw["_draw"] for draw in of_chain] for of_chain in kept]
        K = int(np.bincount([len(draw.weights) for draw in drawn[best]]).argmax())
        self.family = family = self._family_of(K)
        orders = self.match_draws(drawn, best)
        pairs = [zip(*of_chain, strict=True) for of_chain in zip(drawn, orders, strict=True)]
        matched = [[Position(draw.weights[k], draw.parameters.in_order(k)) for draw, k in chain] for chain in pairs]
        used = [draw for draw in matched[best] if len(draw.weights) == K]
        fitted = {
            "best_chain_": best,
            "centre_prior_mean_": family.location,
            "labels_": self._labels(used),
            "_draws": used,
            "_chains": matched if made else [[] for _ in chains],
            "_whole_draws": whole_draws,
            "_family": family,
            "_key": self.run.key,
            "n_batch_iter_": 0,
            **summarise_subspaces(used, family.max_dimension),
        }
        if made and self.n_stored:
            # Places of the components of each draw in its order
            stored = [
                [np.argsort(order)[draw["_labels"]] for draw, order in zip(*of_chain, strict=True)]
                for of_chain in zip(kept, orders, strict=True)
            ]
            fitted["_stored_labels"] = np.array(stored, np.int32)
        return fitted

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn if most directions count as dimensions, of several subspaces without a limit."""
        mixture, n_features = self.mixture, self.rows.values.shape[1]
        if mixture.n_components == 1 or mixture.dimensions is not None or mixture.max_dimension is not None:
            return
        dimensions = fitted["dimensions_"]
        sizes = np.bincount(fitted["labels_"], minlength=len(dimensions))
        spanned = np.clip(sizes - 1, 0, n_features)  # the most directions that the rows of a cluster can have
        d, most = (sizes @ of_clusters / self.n_rows for of_clusters in (dimensions, spanned))
        if most >= _LEAST_MANY and d >= _MANY * most:
            warnings.warn(
                f"Most directions count as dimensions, on average {d:.1f} of {most:.0f}, because they vary by more "
                "than the noise. So dimensions are no summary, and clusters may be worse than with fewer. Drop columns "
                "that hardly vary, fit principal components of X, or set max_dimension "
                f"(max_dimension={n_features - 1} keeps this fit, without the warning).",
                stacklevel=5,
            )

    def _family_of(self, n_components: int) -> SubspaceFamily:
        """The family with the estimated number of components."""
        return self.family

    def match_draws(self, of_chains: list[list[Position]], best: int) -> list[list[np.ndarray]]:
        """Order of the components of each draw that matches them by responsibilities; of each chain.

        A subset of the rows is used. Components are in order of decreasing mean weight in the best chain. Draws with
        another number of components keep their order.
        """
        K = self.family.n_components
        orders = [[np.arange(len(draw.weights)) for draw in chain] for chain in of_chains]
        if K == 1:
            return orders
        rows = FamilyRows(self.family, self.rows.take(np.arange(0, self.n_rows, -(-self.n_rows // _ROWS))))

        def responsibilities(draw: Position) -> np.ndarray:
            return shares_and_log_density(draw, rows, K, self.workers)[0]

        places = [(c, i) for c, chain in enumerate(of_chains) for i, draw in enumerate(chain) if len(draw.weights) == K]
        of_best = [i for c, i in places if c == best]
        reference = responsibilities(of_chains[best][of_best[-1]]).T
        for c, i in places:
            orders[c][i] = linear_sum_assignment(-(reference @ responsibilities(of_chains[c][i])))[1]
        weights = [of_chains[best][i].weights[orders[best][i]] for i in of_best]
        by_weight = np.argsort(-np.mean(weights, axis=0), kind="stable")
        for c, i in places:
            orders[c][i] = orders[c][i][by_weight]
        return orders

    def _labels(self, draws: list[Position]) -> np.ndarray:
        K = self.family.n_components
        if K == 1:
            return np.zeros(self.n_rows, np.int64)
        chosen = PositionDraws(evenly_spaced(draws, self.mixture.n_predictive_draws))
        return label_rows(chosen, FamilyRows(self.family, self.rows), K, self.workers)[0]

    def _draw(self, chain: Chain) -> dict[str, Any]:
        """The current draw, with centres in the space of X, and the labels of the first rows."""
        weights, subspaces = chain.sampler.parameters(chain.model, chain.state)
        draw = Position(weights, subspaces.moved(self.family.location))
        return {"_draw": draw, "_labels": self._drawn_labels(chain)[: self.n_stored]}

    def _drawn_labels(self, chain: Chain) -> np.ndarray:
        """The component of each row in the current draw."""
        return chain.model.labels_of(chain.state.latents)


class ProcessFit(SubspacesFit):
    """The fit with a Dirichlet process, which infers the number of subspaces."""

    draws_vary = True

    def model(self, workers: Workers) -> SubspaceProcess:
        """The model of the centred rows, without initial labels."""
        mixture = self.mixture
        prior = check_concentration_prior(mixture.concentration_prior, "concentration_prior")
        return SubspaceProcess(super().model(workers), mixture.concentration, prior, 1, None, workers)

    def prepare(self, model: SubspaceProcess, workers: Workers) -> SubspaceProcess:
        """The model with initial labels."""
        key, init, rows = subkey(self.run.key, Purpose.START), self.mixture.init, model.clusters
        start = start_of_any_number(rows.complete.X, self.family, init, key)
        begun = rows.with_components(start.max() + 1).with_starts([start])
        _, position = begun.start_model.beginnings[0]
        self._limit_draws(position)
        if start.min() < 0:
            offsets = position.log_weights() + position.parameters.log_offsets()
            drawn, _ = begun.draw_labels(position.parameters, offsets, subkey(key, Purpose.LABELS))
            start = compact_labels(np.where(start < 0, begun.labels_of(drawn), start))
        return replace(model, init=start)

    def record(self, chain: Chain) -> dict[str, Any]:
        """The number of components and the concentration of each draw, and of some draws all parameters."""
        number = np.array(np.count_nonzero(chain.state.statistics.sizes))
        return {"n_components": number, "concentration": np.array(chain.state.position), **super().record(chain)}

    def _family_of(self, n_components: int) -> SubspaceFamily:
        return self.family.with_components(n_components)

    def _drawn_labels(self, chain: Chain) -> np.ndarray:
        return chain.model.ranks(chain.state.latents, chain.state.statistics)


def _filled(rows: DenseRows, family: SubspaceFamily, key: np.uint64, workers: Workers) -> np.ndarray:
    """Rows whose missing cells are drawn from one subspace for all rows, in some steps from the means of columns."""
    X = np.where(np.isnan(rows.values), np.nanmean(rows.values, axis=0), rows.values)
    one, labels = family._replace(log_dimension=family.log_dimension[:1]), np.zeros(len(X), np.int32)
    model = IncompleteSubspaceModel(rows, SubspaceModel(X, one, DirichletWeights(1.0), [labels], workers))
    state = FrameGibbs().init(model, key)
    for _ in range(_N_STEPS):
        state = FrameGibbs().step(model, state)
    return state.latents.rows


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
    few = len(stacked) < m
    axes = (
        np.linalg.svd(stacked, full_matrices=False)[2][:d]
        if few
        else eigh(stacked.T @ stacked, subset_by_index=(m - d, m - 1))[1].T[::-1]
    )
    signs = np.sign(axes[np.arange(d), np.abs(axes).argmax(axis=1)])
    return axes * signs[:, None]
