"""Users' rows as the kernels read them: sparse counts and directions."""
