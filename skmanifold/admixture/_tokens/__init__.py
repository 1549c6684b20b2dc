"""Rows of tokens that each have a topic: layouts, counts and kernels of ESCA and Gibbs sampling."""
