"""How the samplers of orthonormal topics are run: what they see, keep, learn and leave."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...inference._chains import Chain, best_chain
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler, ColumnGibbs
from ...utils._threads import Workers
from .._spherical.adaptation import adapter
from .._spherical.passes import SphericalMinibatchPasses, add_topics, record_draw
from .._spherical.targets import MinibatchSAM
from .initial_topics import log_evidence
from .model import OrthogonalModel, nearest_frame
from .passes import ConditionalFrames, FramePasses
from .setup import OrthogonalSetup
from .sums import add_by_number, as_sums

_FAR, _FAR_PER_ROW = 10.0, 0.1  # nats below the best evidence, of which a fit warns


class OrthogonalPlan:
    """Sweeps over all documents, or steps by minibatches."""

    def __init__(
        self,
        sampler: Any,
        setup: OrthogonalSetup,
        stride: int,
        key: np.uint64,
        *,
        batch_size: int | None,
        n_draws: int,
        n_size_moves: int,
        burn_in: int,
    ):
        self.setup = setup
        self.stride = stride
        self.sampler: Any
        if isinstance(sampler, ColumnGibbs):
            starts = {} if setup.start is None else {int(subkey(key, Purpose.CHAIN, 0)): setup.start.topics}
            self.sampler = FramePasses(sampler, n_draws, burn_in, n_size_moves, setup.log_prior, starts)
            batch_size = None
        else:
            self.sampler = SphericalMinibatchPasses(sampler, batch_size, n_draws, burn_in)
        scaled = not isinstance(sampler, ColumnGibbs)
        self.adapt = adapter((setup.is_learned, False, False), scaled, burn_in, batch_size)
        self.add = add_topics if setup.log_prior is None else add_by_number
        self._log_evidence = np.empty(0)  # of each chain when the last estimate was made, where the number is inferred

    def model(self, workers: Workers) -> OrthogonalModel:
        """What the passes ask."""
        return self.setup.model(workers)

    @staticmethod
    def target(sampler: BaseSampler, model: OrthogonalModel) -> Any:
        """What the sampler itself asks."""
        if isinstance(sampler, ColumnGibbs):
            return ConditionalFrames(model, np.empty((0, 1, model.n_components)))
        return MinibatchSAM(model, model.init_chains(0), np.uint64(0), None, 1, True)

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """A draw, with its number of topics where that is inferred."""
        draw = record_draw(chain, self.stride)
        if self.setup.log_prior is not None:
            draw["n_components"] = np.array(len(chain.state.statistics.topics))
        return draw

    def estimate(self, chains: list[Chain]) -> dict[str, Any]:
        """What inference needs, from wherever the chains stand: the best one's mean topics, for its modal number.

        Log densities given proportions rise with the number of topics. So where it is inferred chains are compared with
        proportions and topics integrated out.
        """
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
        }

    def _evidence(self, chain: Chain, frame: np.ndarray, log_prior: np.ndarray) -> float:
        number, key = len(frame), subkey(chain.state.key[0], Purpose.INFERENCE)
        return log_evidence(chain.model.sized(number), frame, key) + float(log_prior[number])

    def warn_of_low_chains(self) -> None:
        """Warn of chains whose evidence is far below that of the best start or chain."""
        if self.setup.start is None:
            return
        fall = max(self.setup.start.log_evidence, self._log_evidence.max()) - self._log_evidence
        low = np.flatnonzero(fall > _FAR + _FAR_PER_ROW * len(self.setup.rows.directed))
        if len(low) > 0:
            warnings.warn(
                f"Of chains {low.tolist()} the log evidence, topics and proportions integrated out, is up to "
                f"{fall.max():.0f} nats below the highest that was found, so these chains have not reached the best "
                "mode: ignore their draws, or raise burn_in and max_iter.",
                ConvergenceWarning,
                stacklevel=4,
            )
