"""Callbacks for scikit-learn before 1.9, with the public interface of `sklearn.callback`."""
