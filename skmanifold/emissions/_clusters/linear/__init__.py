"""Clusters of rows whose log densities are linear in the cells: events and counts."""
