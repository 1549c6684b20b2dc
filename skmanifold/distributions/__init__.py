"""Distributions on spheres, Stiefel manifolds and simplexes, right in high dimensions and far in the tails."""

from ._bessel import bessel_ratio, bessel_ratio_derivative, inverse_bessel_ratio, log_iv, log_vmf_normalizer
from ._log_gamma import averaged_ks_distance, dirichlet_rosenblatt, sample_log_dirichlet, sample_log_gamma
from ._matrix_von_mises_fisher import MatrixVonMisesFisher, gibbs_sweep
from ._truncated_gamma import sample_truncated_gamma
from ._von_mises_fisher import VonMisesFisher

__all__ = [
    "MatrixVonMisesFisher",
    "VonMisesFisher",
    "averaged_ks_distance",
    "bessel_ratio",
    "bessel_ratio_derivative",
    "dirichlet_rosenblatt",
    "gibbs_sweep",
    "inverse_bessel_ratio",
    "log_iv",
    "log_vmf_normalizer",
    "sample_log_dirichlet",
    "sample_log_gamma",
    "sample_truncated_gamma",
]
