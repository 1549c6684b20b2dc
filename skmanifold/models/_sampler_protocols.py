"""What samplers declare that they can do."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class DensitySampler(Protocol):
    """A sampler of a density on a manifold: all chains in one state, along the first axis of its arrays."""

    requires_manifold: tuple[type, ...]  # protocols of the manifold

    def stats(self, model: Any, state: Any) -> dict[str, np.ndarray]:
        """Diagnostics of the last step.

        Parameters
        ----------
        model : object
            The model or target.
        state : object
            The state after the step.

        Returns
        -------
        stats : dict of str to ndarray
            Arrays whose first axis is that of the chains.
        """
        ...
