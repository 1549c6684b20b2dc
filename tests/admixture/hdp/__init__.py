"""Tests of the hierarchical Dirichlet process."""
