"""Checks of a sampler against its complete recipe."""
