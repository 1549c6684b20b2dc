"""Samplers by exact Cox-Ingersoll-Ross transitions, on rows that may be updated lazily."""
