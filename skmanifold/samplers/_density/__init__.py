"""Samplers of a density on a manifold: Langevin, Hamiltonian, geodesic, Metropolis, recipes."""
