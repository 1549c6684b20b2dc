"""Rows of tokens with one topic per token: layouts, counts and kernels of ESCA and Gibbs sampling."""
