"""Gaussian rows: the emission, and its families of covariances."""
