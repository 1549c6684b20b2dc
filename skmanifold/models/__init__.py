"""What posteriors can answer: the protocols between models and samplers, and the check that they meet."""

from ._compatibility import IncompatibleError, check_compatible
from ._protocols import CollapsedModel, CollapsedVariationalModel, LatentModel, StreamModel

__all__ = [
    "CollapsedModel",
    "CollapsedVariationalModel",
    "IncompatibleError",
    "LatentModel",
    "StreamModel",
    "check_compatible",
]
