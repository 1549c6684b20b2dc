"""Bayesian latent-variable estimators on manifolds, with scikit-learn's interface and pluggable samplers."""

import lazy_loader as _lazy

# What is named here is imported when it is asked for: each estimator brings kernels of its own.
__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
