"""Compile kernels ahead of their first use: ``python -m skmanifold.compile_kernels [ESTIMATOR ...]``."""

from ._compile import CompiledKernels, KernelsNotSavedError, compile_kernels

__all__ = ["CompiledKernels", "KernelsNotSavedError", "compile_kernels"]
