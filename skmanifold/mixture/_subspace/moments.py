"""Moments of the components of a stream of minibatches."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from ...utils._conditions import Array, Real


class StreamMoments(NamedTuple):
    """Shares of rows of components, means, and scatters about them, per row, of a weighted sample of rows.

    `n_rows` is the effective number of rows, the inverse of the sum of their squared weights.
    """

    shares: Annotated[np.ndarray, Array("float64", "n_components", low=0)]
    means: Annotated[np.ndarray, Array("float64", "n_components n_features")]
    scatters: Annotated[np.ndarray, Array("float64", "n_components n_features n_features")]
    n_rows: Annotated[float, Real(above=0)]

    def blend(self, new: StreamMoments, rate: float) -> StreamMoments:
        """Those of both samples, with weights 1 - rate and rate."""
        old_shares, new_shares = (1.0 - rate) * self.shares, rate * new.shares
        shares = old_shares + new_shares
        part = new_shares / np.where(shares > 0.0, shares, 1.0)
        gaps = new.means - self.means
        between = (old_shares * part)[:, None, None] * gaps[:, :, None] * gaps[:, None, :]
        scatters = (1.0 - rate) * self.scatters + rate * new.scatters + between
        n_rows = 1.0 / ((1.0 - rate) ** 2 / self.n_rows + rate**2 / new.n_rows)
        return StreamMoments(shares, self.means + part[:, None] * gaps, scatters, n_rows)
