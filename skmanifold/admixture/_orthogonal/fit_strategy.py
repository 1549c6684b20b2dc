"""How the orthogonal admixture is fitted: by sweeps over all documents, or by minibatches."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...base import FitStrategy, Run, best_chain
from ...inference._chains import Chain
from ...inference._convergence import warn_temperature
from ...inference._draw_store import DrawStore
from ...random._keys import Purpose, subkey
from ...sparse.dense_directions import read_directions
from ...utils._threads import Workers
from .._spherical.adaptation import adapter
from .._spherical.passes import SphericalMinibatchPasses, SphericalPasses, add_topics, record_draw
from .._spherical.targets import MinibatchSAM
from .initial_topics import log_evidence
from .model import OrthogonalModel, nearest_frame
from .passes import ConditionalFrames, FramePasses
from .setup import OrthogonalSetup, samples_frames, set_up
from .sums import add_by_number, as_sums
from .uncertainty import matched_shares

_FAR, _FAR_PER_ROW = 10.0, 0.1  # a fit warns about chains that are more nats than this below the best evidence


def fit_strategy(admixture: Any, X: Any, run: Run) -> OrthogonalFit:
    """The strategy of `fit` for this sampler."""
    rows = read_directions(admixture, X, reset=True)
    by_frames = samples_frames(run.sampler)
    setup = set_up(admixture, run.sampler, rows, run.key, None if by_frames else admixture.batch_size)
    return (FrameFit if by_frames else MinibatchFit)(admixture, run, setup)


class OrthogonalFit(FitStrategy):
    """What all fits have in common."""

    def __init__(
        self, admixture: Any, run: Run, setup: OrthogonalSetup, passes: SphericalPasses, batch_size: int | None
    ):
        super().__init__(run.sampler, passes)
        self.run = run
        self.setup = setup
        self.n_rows = setup.rows.n_rows
        self.n_stored = admixture.n_stored_rows
        draw_bytes = (setup.draw_bytes + 8 * setup.n_most * self.n_stored) * admixture.n_chains
        store = DrawStore.within(admixture.max_draws_bytes, draw_bytes, admixture.thin)
        self.stride = store.stride(run.schedule.n_draws)
        scaled = not samples_frames(run.sampler)
        self._adapt = adapter(passes, (setup.is_learned, False, False), scaled, run.schedule.burn_in, batch_size)
        self._log_evidence = np.empty(0)  # of each chain at the last estimate, if the number of topics is inferred

    def model(self, workers: Workers) -> OrthogonalModel:
        """The posterior of the topics."""
        model = self.setup.model(workers)
        self._n_coordinates = model.manifold.dim
        return model

    def add(self, left: Any, right: Any) -> Any:
        """Sum of the topics of two passes; if the number of topics is inferred, a sum for each number."""
        return (add_topics if self.setup.log_prior is None else add_by_number)(left, right)

    def adapt(self, model: Any, state: Any) -> Any:
        """The model with new estimates of the concentration and the radii, where they are learned."""
        return self._adapt(model, state)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """A draw, with its number of topics if that is inferred."""
        draw = record_draw(chain, self.stride, self.n_stored)
        if self.setup.log_prior is not None:
            draw["n_components"] = np.array(len(chain.state.statistics.topics))
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """The best chain's mean topics over the draws with its most frequent number of topics."""
        sums = [as_sums(*chain.estimate()) for chain in chains]
        frames = [nearest_frame(of_chain.by_number[of_chain.modal][0]) for of_chain in sums]
        best = best_chain(chains)
        log_prior = self.setup.log_prior
        if log_prior is not None:
            self._log_evidence = np.array(
                [self._evidence(chain, frame, log_prior) for chain, frame in zip(chains, frames, strict=True)]
            )
            best = int(self._log_evidence.argmax())
        number = sums[best].modal
        total, n_passes = sums[best].by_number[number]
        lengths = np.sqrt(np.einsum("kv,kv->k", total, total))
        return {
            "best_chain_": best,
            "components_": frames[best],
            "resultant_lengths_": lengths / n_passes,
            "n_components_": number,
            "n_components_posterior_": sums[best].probabilities,
            "doc_topic_prior_": np.full(number, self.setup.alpha),
            "document_concentration_": chains[best].model.concentrations.document,
            "_key": self.run.key,
        }

    def finish(self, fitted: dict[str, Any], model: Any, workers: Workers) -> dict[str, Any]:
        """The topics in descending order of their shares, if their number is inferred and draws of them were kept."""
        names = "components_", "_posterior", "best_chain_", "_component_draws"
        shares = None if self.setup.log_prior is None else matched_shares(*(fitted[name] for name in names))
        if shares is None:
            return {}
        order = np.argsort(-shares, kind="stable")
        return {name: fitted[name][order] for name in ("components_", "resultant_lengths_")}

    def _evidence(self, chain: Chain, frame: np.ndarray, log_prior: np.ndarray) -> float:
        number, key = len(frame), subkey(chain.state.key[0], Purpose.INFERENCE)
        return log_evidence(chain.model.sized(number), frame, key) + float(log_prior[number])

    def warn(self, fitted: dict[str, Any]) -> None:
        """Warn about chains that have not reached the best mode, and about a kinetic temperature that is not 1."""
        self._warn_of_low_chains()
        warn_temperature(fitted["_posterior"]["temperature"], self._n_coordinates, stacklevel=6)

    def _warn_of_low_chains(self) -> None:
        """Warn about chains whose log evidence is far below that of the best initialisation or chain."""
        if self.setup.start is None:
            return
        fall = max(self.setup.start.log_evidence, self._log_evidence.max()) - self._log_evidence
        low = np.flatnonzero(fall > _FAR + _FAR_PER_ROW * len(self.setup.rows.directed))
        if len(low) > 0:
            warnings.warn(
                f"The log evidence of chains {low.tolist()}, topics and proportions integrated out, is up to "
                f"{fall.max():.0f} nats below the highest that was found, so these chains have not reached the best "
                "mode: ignore their draws, or raise burn_in and max_iter.",
                ConvergenceWarning,
                stacklevel=6,
            )


class FrameFit(OrthogonalFit):
    """The fit by sweeps over all documents, which redraw all topics, and by moves that change their number."""

    def __init__(self, admixture: Any, run: Run, setup: OrthogonalSetup):
        starts = {} if setup.start is None else {int(subkey(run.key, Purpose.CHAIN, 0)): setup.start.topics}
        passes = FramePasses(
            run.sampler,
            admixture.n_doc_samples,
            run.schedule.burn_in,
            admixture.n_size_moves,
            setup.log_prior,
            starts,
        )
        super().__init__(admixture, run, setup, passes, None)

    def target(self, model: OrthogonalModel) -> ConditionalFrames:
        """The posterior of the topics given the proportions."""
        return ConditionalFrames(model, np.empty((0, 1, model.n_components)))


class MinibatchFit(OrthogonalFit):
    """The fit with samplers whose steps read minibatches of documents."""

    def __init__(self, admixture: Any, run: Run, setup: OrthogonalSetup):
        batch_size, burn_in = admixture.batch_size, run.schedule.burn_in
        passes = SphericalMinibatchPasses(run.sampler, batch_size, admixture.n_doc_samples, burn_in)
        super().__init__(admixture, run, setup, passes, batch_size)

    def target(self, model: OrthogonalModel) -> MinibatchSAM:
        """The posterior of the topics, estimated from minibatches."""
        return MinibatchSAM(model, model.init_chains(0), np.uint64(0), None, 1, True)
