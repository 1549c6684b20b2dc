"""Fits whose rows are on disk or on the workers of a cluster: shards, checkpoints, sessions."""
