"""Callbacks of scikit-learn from version 1.9 on, and otherwise our own; other modules do not depend on the choice."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

__all__ = ["CallbackSupportMixin", "ScoringMonitor", "TaskBars", "torn_down"]

if TYPE_CHECKING or find_spec("sklearn.callback") is None:  # scikit-learn has no types
    from ._own.bars import TaskBars
    from ._own.scores import ScoringMonitor
    from ._own.support import CallbackSupportMixin, torn_down
else:
    from sklearn.callback import CallbackSupportMixin, ScoringMonitor

    from ..utils._sklearn_callbacks import torn_down
    from ._sklearn_bars import TaskBars
