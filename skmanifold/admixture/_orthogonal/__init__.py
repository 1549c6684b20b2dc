"""The spherical admixture model with orthonormal topics."""
