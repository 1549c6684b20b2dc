"""Admixtures whose number of topics is inferred: the hierarchical Dirichlet process."""
