"""Sparse counts and directions in the layout that kernels use, and validation of sparse matrices."""
