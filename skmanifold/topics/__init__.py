"""Topics as the kernels read them, and the proportions of documents given topics."""
