"""The posterior of a single affine subspace, for tables with few features."""
