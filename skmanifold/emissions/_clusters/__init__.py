"""Clusters of rows whose parameters can be drawn or integrated out, for Dirichlet process mixtures."""
