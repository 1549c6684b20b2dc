"""Topics in the memory layout of the kernels, and the proportions of documents given topics."""
