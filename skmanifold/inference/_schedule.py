"""Which passes over the data are burn-in, and which are kept."""

from __future__ import annotations

from typing import NamedTuple


class Schedule(NamedTuple):
    """`max_iter` passes; the first `burn_in` are discarded, then every `thin`-th pass is a draw."""

    max_iter: int
    burn_in: int
    thin: int

    @classmethod
    def from_params(cls, max_iter: int, burn_in: int | None, thin: int) -> Schedule:
        """Apply the default of `burn_in`, half of the passes; raise a ValueError if it leaves no passes."""
        burn_in = max_iter // 2 if burn_in is None else burn_in
        if burn_in >= max_iter:
            raise ValueError(f"burn_in={burn_in} leaves none of the max_iter={max_iter} passes over the data.")
        return cls(max_iter, burn_in, thin)

    @property
    def n_kept_passes(self) -> int:
        """Passes after burn-in."""
        return self.max_iter - self.burn_in

    @property
    def n_draws(self) -> int:
        """Draws kept in each chain."""
        return self.n_kept_passes // self.thin

    def is_draw(self, iteration: int) -> bool:
        """Whether pass `iteration` (the first is 1) is kept as a draw."""
        return iteration > self.burn_in and (iteration - self.burn_in) % self.thin == 0
