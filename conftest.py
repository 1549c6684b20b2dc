"""The doctest of a callback does not run before scikit-learn 1.9."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("sklearn.callback") else ["skmanifold/callbacks/_held_out.py"]
