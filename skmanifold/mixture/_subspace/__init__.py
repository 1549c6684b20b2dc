"""Mixtures of affine subspaces."""
