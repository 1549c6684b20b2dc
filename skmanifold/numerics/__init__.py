"""Numerical functions of the kernels: SIMD, special functions, sums in a fixed order."""
