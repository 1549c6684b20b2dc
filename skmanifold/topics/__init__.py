"""Topics in the layout that kernels use, and the proportions of documents given topics."""
