"""Samplers of latent-variable models: discrete latents, variational factors, sticks, subspaces."""
