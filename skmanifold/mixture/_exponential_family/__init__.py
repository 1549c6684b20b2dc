"""Finite mixtures of exponential families."""
