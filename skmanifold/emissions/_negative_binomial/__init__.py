"""Rows of overdispersed counts: the emission, its family, and the distribution of the dispersions."""
