"""Clusters of Gaussian rows."""
