"""Utilities that all packages share: validation, threads, files and access to private functions of scikit-learn."""
