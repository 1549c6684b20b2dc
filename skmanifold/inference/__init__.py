"""Running a sampler on a model: passes, chains, traces; and inference for new rows given what was learned."""

from ._distributed import distributed
from ._draws import Draws
from ._sample import sample

__all__ = ["Draws", "distributed", "sample"]
