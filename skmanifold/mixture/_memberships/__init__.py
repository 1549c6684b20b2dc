"""How the rows of a mixture choose their components: priors of labels, weights, and draws of both with parameters."""
