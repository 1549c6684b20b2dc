"""Doctests do not import the modules that need scikit-learn 1.9 if it is older."""

from importlib.util import find_spec

NEED_CALLBACKS = ["skmanifold/callbacks/_sklearn_bars.py", "skmanifold/utils/_sklearn_callbacks.py"]
collect_ignore = [] if find_spec("sklearn.callback") else NEED_CALLBACKS
