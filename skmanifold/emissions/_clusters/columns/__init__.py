"""Clusters of rows of tables whose columns have different emissions."""
