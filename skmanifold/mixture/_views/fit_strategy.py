"""How views are fitted: chains, the point estimate of the partition of columns, and of the rows in each view."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import FitStrategy, Run, best_chain
from ...inference._chains import Chain
from ...inference._draw_store import evenly_spaced
from ...metrics._partitions import point_partition
from ...random._keys import Purpose, subkey
from ...utils._threads import Workers
from .._dirichlet_process.fit_strategy import find_merges, find_typical_rows, point_estimate
from .._memberships import partition_draw
from .draws import ViewDraw, ViewsDraw, labels_of_columns
from .inference import ViewClusters
from .model import View, ViewModel
from .proposals import Launch, compacted
from .starts import StartOfViews, launches_of, learn_columns

_MAX_PARTITIONS = 200  # of columns, that the estimate is compared with
_MOST_DRAWS, _FEW_DRAWS = 50, 8  # of the rows in a view of the estimate, and in one of a single column
_N_VIEWS, _N_COMPONENTS = 8, 100  # in a draw, to estimate its memory


class RowsInViews(NamedTuple):
    """Rows and settings before the search for the start."""

    family: Any  # not bound to rows
    emission: Any
    rows: Any
    searched: np.ndarray | None
    start: StartOfViews  # labels of columns
    known: dict[str, Any]


class ViewFit(FitStrategy):
    """The fit with samplers of views given all rows."""

    def __init__(self, mixture: Any, run: Run, data: RowsInViews):
        super().__init__(run.sampler)
        self.mixture, self.data, self.n_rows = mixture, data, data.rows.n_rows
        self.known = {**data.known, "_key": run.key, "n_batch_iter_": 0}
        self.key = run.key
        self.clusters = data.family.clusters(data.rows)
        draw_bytes = 4 * self.n_rows * min(self.clusters.n_features, _N_VIEWS) + self.clusters.draw_bytes(_N_COMPONENTS)
        most = int(mixture.max_draws_bytes) // max(1, int(draw_bytes * mixture.n_chains))
        self.stride = max(1, -(-run.schedule.n_draws // max(1, most)))

    def model(self, workers: Workers) -> ViewModel:
        """The model before hyperparameters are learned."""
        mixture = self.mixture
        nothing = Launch(np.zeros(self.n_rows, np.int32), np.zeros(1, np.int64))
        return ViewModel(
            self.clusters,
            mixture.view_concentration,
            mixture._view_prior,
            mixture._row_prior,
            [nothing] * self.clusters.n_features,
            self.data.searched,
            self.data.start,
            mixture.batch_size,
            workers,
        )

    def prepare(self, model: ViewModel, workers: Workers) -> ViewModel:
        """The model with hyperparameters and a partition that were found for each column by itself."""
        data, before, key = self.data, self.clusters, subkey(self.key, Purpose.PRIOR)
        free = data.emission.free_hyperparameters()
        with Workers(self.mixture.n_jobs) as all_workers:
            learned, labels = learn_columns(before, data.searched, free, key, all_workers)
        emission, family = data.emission, data.family
        if free:
            emission = emission.with_prior_of(learned)
            family = emission.bind(data.rows, 1).separated()
        launches = launches_of(learned, labels)
        clusters = family.clusters(data.rows)
        has_repeats = data.searched is not None and len(data.searched) < min(
            self.n_rows, clusters.start_effort().most_rows
        )
        if free and self.mixture.hyperparameters == "draw" and not has_repeats:
            family = family.with_hyperprior(free, data.family)
            clusters = clusters.with_hyperprior(free, before)
        self.known.update(_family=family, emission_=emission)
        model.clusters, model.launches = clusters, launches
        return model

    def record(self, chain: Chain) -> dict[str, Any]:
        """Views and concentrations, and in some draws the partitions of the rows."""
        state, views = chain.state, chain.state.statistics
        record: dict[str, Any] = {
            "n_views": np.array(len(views)),
            "column_labels": labels_of_columns(views),
            "view_concentration": np.array(float(state.position)),
        }
        if chain.is_whole_draw(self.stride):
            record["_draw"] = draw_of(views)
        return record

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """All draws, and the views of the best chain's last pass."""
        draws: list[Any] = [draw["_draw"] for chain in chains for draw in chain.draws if "_draw" in draw]
        best = chains[best_chain(chains)].state
        last, self.numbers = draw_of(best.statistics), best.latents
        clusters = tuple(ViewClusters(None, np.unique(view.labels, return_index=True)[1]) for view in last.views)
        return {**self.known, "_draws": draws or [last], "_estimate": last, "_view_clusters": clusters}

    def finish(self, fitted: dict[str, Any], model: ViewModel, workers: Workers) -> dict[str, Any]:
        """The partition of columns nearest to all draws, and of the rows in each of its views, with clusters."""
        drawn = fitted["_posterior"]["column_labels"].reshape(-1, model.n_columns)
        labels: np.ndarray = fitted["_estimate"].column_labels
        if len(drawn) and model.n_columns > 1:
            evenly = np.unique(np.linspace(0, len(drawn) - 1, min(len(drawn), _MAX_PARTITIONS)).astype(int))
            labels = point_partition(drawn[evenly], n_jobs=workers.n_workers)
        labels = compacted(labels)
        groups = sorted((np.flatnonzero(labels == v) for v in range(labels.max() + 1)), key=lambda own: -len(own))
        has_draws = bool(len(drawn))
        found = [self._view_of(columns, fitted, model, has_draws, workers) for columns in groups]
        views, clusters = zip(*found, strict=True)
        return {"_estimate": ViewsDraw(views), "_view_clusters": clusters}

    def _view_of(
        self, columns: np.ndarray, fitted: dict[str, Any], model: ViewModel, has_draws: bool, workers: Workers
    ) -> tuple[ViewDraw, ViewClusters]:
        """The partition of the rows for columns of the estimate, and clusters of its components.

        Each draw has a partition of its own: that of the view with the most of these columns.
        """
        draws = evenly_spaced(fitted["_draws"], _MOST_DRAWS if len(columns) > 1 else _FEW_DRAWS)
        nearest = [max(draw.views, key=lambda view: np.isin(view.columns, columns).sum()) for draw in draws]
        own = model.given(self.numbers).of_columns(columns)
        rows = model.row_model(own)
        partitions = [partition_draw(rows.count(view.labels), view.rows.concentration) for view in nearest]
        sizes = [len(each.statistics.sizes) for each in partitions]
        posterior = {
            "labels": np.array([[view.labels for view in nearest]]),
            "n_components": np.array([sizes]),
            "concentration": np.array([[each.concentration for each in partitions]]),
            "weights": np.zeros((1, len(sizes), max(sizes))),
        }
        of_rows: dict[str, Any] = {"_posterior": posterior, "_draws": partitions}
        of_rows |= point_estimate(of_rows, rows, workers)
        labels, estimate = of_rows["component_labels_"], of_rows["_estimate"]
        typical = find_typical_rows(estimate, own, labels, workers)
        merged = find_merges(of_rows, typical, None, rows, workers) if has_draws else {"_merges": None}
        return ViewDraw(columns, labels.astype(np.int32), estimate), ViewClusters(merged["_merges"], typical)


def draw_of(views: list[View]) -> ViewsDraw:
    """Views as a draw, in the order of their first columns."""
    found = []
    for view in views:
        labels = compacted(view.labels)
        order = np.argsort(np.argsort(-np.bincount(labels), kind="stable")).astype(np.int32)
        found.append(ViewDraw(view.columns, order[labels], partition_draw(view.statistics, float(view.concentration))))
    return ViewsDraw(tuple(found))
