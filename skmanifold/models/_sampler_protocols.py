"""What samplers declare that they can do."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class DensitySampler(Protocol):
    """A sampler of a density on a manifold: all chains in one state, along the first axis of its arrays."""

    requires_manifold: tuple[type, ...]  # protocols of the manifold

    def stats(self, model: Any, state: Any) -> dict[str, np.ndarray]:
        """Statistics of a step, one value for each chain."""
        ...
