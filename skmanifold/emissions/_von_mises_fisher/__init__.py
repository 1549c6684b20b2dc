"""The von Mises-Fisher emission of directions."""
