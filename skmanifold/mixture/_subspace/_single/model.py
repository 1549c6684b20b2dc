"""The posterior of a single affine subspace, whose updates do not read the rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....random._keys import Purpose, subkey
from ..frame_kernels import complete_frame
from ..model import SubspaceModel
from ..parameters import Subspaces
from .kernels import best_dimension, move_subspace, sum_of_squares

_MOST_FEATURES = 64  # of a subspace whose whole frame is rotated
_LEAST_RATIO = 1e-12  # of precisions in the initial state


class SingleSubspaceModel(SubspaceModel):
    """`SubspaceModel` for one component: all rows are in it, so that their scatter is computed once.

    With few features the bases of its states have m rows, an orthonormal frame. Directions from ``dims[0]`` on are the
    complement. With many features the whole frame would be too large, and states are those of `SubspaceModel`.
    """

    @cached_property
    def _labels(self) -> np.ndarray:
        return np.zeros(len(self.X), np.int32)

    @cached_property
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean of the rows, their scatters along the principal axes, decreasing, and these axes, as rows."""
        moments = self.moments(self._labels, np.zeros((1, self.n_features)))
        values, vectors = np.linalg.eigh(moments.scatters[0])
        return moments.means[0], np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors.T[::-1])

    @cached_property
    def _rows(self) -> tuple[np.ndarray, np.ndarray, int]:
        """A factor Y of the scatter of the rows about their mean, the mean, and the number of rows."""
        mean, scatters, axes = self._spectrum
        kept = scatters > 0.0
        return np.sqrt(scatters[kept])[:, None] * axes[kept], mean, len(self.X)

    @property
    def start_model(self) -> SingleSubspaceModel:
        """The same model: there is only one partition."""
        return self

    def draw_labels(self, subspaces: Subspaces, offsets: np.ndarray, key: np.uint64) -> tuple[np.ndarray, float]:
        """Labels, which are 0, and the sum of the log densities."""
        factor, mean, n = self._rows
        d = subspaces.dims[0]
        of_subspace = subspaces.bases[0, :d], subspaces.ratios[0, :d], subspaces.centres[0]
        squares = sum_of_squares(factor, mean, n, *of_subspace)
        return self._labels, float(n * offsets[0] - 0.5 * subspaces.noise[0] * squares)

    def draw_subspaces(self, subspaces: Subspaces, labels: np.ndarray, n_sweeps: int, key: np.uint64) -> Subspaces:
        """Update the centre, the frame, the dimension and the noise."""
        if self.n_features > _MOST_FEATURES:
            return super().draw_subspaces(subspaces, labels, n_sweeps, key)
        prior = self.priors
        frame, d = subspaces.bases[0], int(subspaces.dims[0])
        if len(frame) < self.n_features:
            frame = complete_frame(frame[:d], self.n_features, subkey(key, Purpose.COMPLETION))
        of_prior = prior.ratio_shape, prior.centre_variance, prior.noise_shape, prior.noise_rate
        frame, d, ratios, centre, noise = move_subspace(
            *self._rows,
            frame,
            d,
            subspaces.ratios[0],
            subspaces.noise[0],
            prior.log_dimension[0],
            *of_prior,
            n_sweeps,
            key,
        )
        return Subspaces(frame[None], np.array([d]), ratios[None], centre[None], np.array([noise]), np.ones(1))

    def fit_subspaces(self, labels: np.ndarray) -> Subspaces:
        """The subspace along the first principal axes whose dimension has the highest posterior density."""
        prior, (mean, scatters, axes), n = self.priors, self._spectrum, len(self.X)
        d, noise = best_dimension(
            scatters, n, prior.log_dimension[0], prior.ratio_shape, prior.noise_shape, prior.noise_rate
        )
        ratios = np.ones(self.n_features)
        ratios[:d] = np.clip(n / (noise * np.maximum(scatters[:d], 1e-300)), _LEAST_RATIO, 1.0)
        return Subspaces(axes[None], np.array([d]), ratios[None], mean[None], np.array([noise]), np.ones(1))
