"""Imputation of missing cells, and conditional distributions of columns, by fitted mixtures."""
