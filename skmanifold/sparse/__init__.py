"""Sparse counts and directions in the memory layout of the kernels, and validation of sparse matrices."""
