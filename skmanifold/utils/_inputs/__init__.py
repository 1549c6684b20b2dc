"""Conversion and validation of X: tables and arrays of other libraries, and the structure of sparse matrices."""
