"""The sum of a quantity over the last passes, without storing all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class WindowAverage:
    """Sums, by `add(a, b)`, over windows of passes, aligned so that the last window ends with the `last` pass.

    A complete run's sum covers exactly the last `window` passes, one that ends early between half and one and a half
    times as many (fewer, if there have been fewer); never passes before `first`.
    """

    def __init__(self, window: int, last: int, first: int, add: Callable[[Any, Any], Any]):
        self.window = window
        self.offset = last % window
        self.first = first
        self.add = add
        self.sums: list[tuple[Any, int]] = []  # the current window, and until it is half full also the previous one

    def update(self, iteration: int, value: Any) -> None:
        """Add the value of pass `iteration`."""
        if iteration < self.first:
            return
        begins = (iteration - 1 - self.offset) % self.window == 0
        if begins or not self.sums:
            self.sums = [*self.sums[-1:], (value, 1)]
        else:
            total, n = self.sums[-1]
            self.sums[-1] = (self.add(total, value), n + 1)
        if 2 * self.sums[-1][1] >= self.window:  # drop the previous window, because sums of sparse counts are large
            self.sums = self.sums[-1:]

    def total(self) -> tuple[Any, int]:
        """The sum and its number of passes; (None, 0) before the first pass."""
        if not self.sums:
            return None, 0
        total, n = self.sums[0]
        for more, m in self.sums[1:]:
            total, n = self.add(total, more), n + m
        return total, n
