"""Dirichlet-process mixtures of counts and categories."""
