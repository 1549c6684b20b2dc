"""Distributions of single cells of rows given a component and the observed cells, for imputation."""
