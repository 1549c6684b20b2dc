"""Families of rows of categories: counts and codes, with Dirichlet priors."""
