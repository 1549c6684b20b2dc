"""A plugin of pytest: skmanifold uses its own hooks, as before scikit-learn 1.9."""

import importlib
import sys


def pytest_configure():
    """Import skmanifold's choice of callbacks as if there were no `sklearn.callback`."""
    hidden = importlib.import_module("sklearn.callback")
    sys.modules["sklearn.callback"] = None  # type: ignore[assignment]
    support = importlib.import_module("skmanifold.callbacks._support")
    sys.modules["sklearn.callback"] = hidden  # scikit-learn itself needs it
    assert support.CallbackSupportMixin.__module__.startswith("skmanifold")
