"""Admixtures of exponential families."""
