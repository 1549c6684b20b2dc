"""Samplers of densities whose functions numba has compiled: many steps in one kernel."""
