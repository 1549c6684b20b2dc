"""Dirichlet process mixture of counts or codes, with samplers by minibatches."""
