"""CrossCat: a partition of the columns, and in each of its views a Dirichlet process mixture of the rows."""
