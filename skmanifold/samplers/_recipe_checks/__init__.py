"""Checks that a sampler is a complete recipe."""
