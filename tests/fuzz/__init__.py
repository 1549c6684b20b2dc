"""Seeded fuzzers of every door: altered files, malformed matrices, corpora, checkpoints and text formats."""
