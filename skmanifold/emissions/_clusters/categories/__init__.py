"""Clusters of rows of categories, and of counts."""
