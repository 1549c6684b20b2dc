"""The spherical admixture model."""
