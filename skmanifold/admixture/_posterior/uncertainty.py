"""Posterior uncertainty of topics: credible intervals, diagnostics and export of an estimator's draws."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.validation import check_is_fitted

from ...inference._draw_store import evenly_spaced
from ...inference._draws import equal_tailed_intervals, reached_level, warn_of_level
from ...samplers import BaseSampler
from .topic_draws import (
    STABLE_SIMILARITY,
    TOPIC_AXES,
    ChainMatch,
    TopicDiagnostics,
    diagnose_topics,
    effective_draws,
    match_chains,
    to_arviz,
)


class TopicUncertainty:
    """Methods of an estimator with posterior draws of topics; not public.

    The estimator has the attributes declared here when it is fitted.
    """

    _samplers: ClassVar[dict[str, type[BaseSampler]]]
    sampler_: BaseSampler
    best_chain_: int
    _posterior: dict[str, np.ndarray]  # of a fit
    _component_draws: np.ndarray
    _stream: Any  # DrawStream, or None

    @property
    def _draws_topics(self) -> bool:
        """Whether the sampler draws topics (True) or estimates them."""
        return self.sampler_.draws_parameters

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Posterior draws.

        Returns
        -------
        posterior : dict of str to ndarray of shape (n_chains, n_draws, ...)
            Draws of each variable; see the attributes of the class.

        Raises
        ------
        AttributeError
            If the estimator was fitted by `partial_fit` with a sampler that does not draw the topics.
        """
        check_is_fitted(self)
        if hasattr(self, "_posterior"):
            return self._posterior
        if self._stream is None:
            name = type(self.sampler_).__name__
            raise AttributeError(f"{name} makes no draws in partial_fit: posterior_ is available after fit.")
        return self._stream.posterior()

    def _predictive_draws(self, n: int) -> list[np.ndarray]:
        """At most n of the best chain's draws of the topics, evenly spaced; empty if no draws were kept."""
        draws: Any = []
        if self._draws_topics and hasattr(self, "_posterior"):
            draws = self._posterior["components"][self.best_chain_] if "components" in self._posterior else []
        elif self._draws_topics and self._stream is not None:
            draws = [draw["components"] for draw in self._stream.draws(self.best_chain_)]
        return evenly_spaced(draws, n)

    def _labelled_draws(self, n: int) -> list[np.ndarray]:
        """The predictive draws whose topics correspond to those of ``components_``."""
        return self._predictive_draws(n)

    def credible_intervals(self, level: float = 0.9) -> np.ndarray:
        """Equal-tailed credible intervals of the topics' entries, in the order of ``components_``.

        Each interval is for a single entry, given the model and within one mode of the posterior. Another chain may
        find other topics (see `topic_diagnostics`). If the number of topics is inferred, only draws with as many topics
        as ``components_`` are used.

        The k-th smallest of the n draws of the best chain is the quantile at k / (n + 1). So the range of the draws is
        an interval of level (n - 1) / (n + 1), which is the highest possible level: 90% needs 19 draws, 95% needs 39.
        With fewer draws the intervals are the range, a warning states their level, and `TopicDisplay` shows it.

        Draws of a chain are autocorrelated, so that their effective number is smaller. With at least 50 draws, and if
        arviz-stats is installed, a warning is given if half of the topics or more have too few effective draws. The
        effective number of a topic is here the median over its ten most probable words; `topic_diagnostics` has the
        minimum.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, between 0 and 1.

        Returns
        -------
        intervals : ndarray of shape (2, n_components, n_features), float32
            Lower and upper ends, from the best chain's draws.

        Raises
        ------
        AttributeError
            If the sampler does not draw the topics.
        ValueError
            If no draws of the topics were kept, because they need more memory than `max_draws_bytes`.

        Warns
        -----
        UserWarning
            If the draws, or the effective draws of half of the topics, are too few for `level`.
        """
        draws = self._interval_draws()
        intervals = equal_tailed_intervals(draws, level)
        warn_of_level(level, len(draws), effective_draws(draws))
        return intervals

    def _reached_level(self, level: float) -> float:
        """Level that `credible_intervals` attain with the available draws; at most `level`."""
        return reached_level(level, len(self._interval_draws()))

    def _match_chains(self) -> ChainMatch | None:
        """The topics of all chains, matched to those of the best chain; None if topics of draws need not correspond."""
        return match_chains(self.posterior_["components"], self.best_chain_)

    def _interval_draws(self) -> np.ndarray:
        """Draws of the best chain for the intervals, (n_draws, n_components, n_features)."""
        return self._draws_of_topics()[self.best_chain_]

    def topic_diagnostics(self, threshold: float = STABLE_SIMILARITY) -> TopicDiagnostics:
        """R-hat, effective sample size and stability of each topic, in the order of ``components_``.

        First the topics of the other chains are matched to those of the best chain, by the cosines of mean topics
        (:func:`scipy.optimize.linear_sum_assignment`).

        Parameters
        ----------
        threshold : float, default=0.8
            Smallest cosine with the matched topic of every other chain for which a topic is called stable.

        Returns
        -------
        diagnostics : TopicDiagnostics
            NamedTuple with ``rhat``, ``ess``, ``similarity`` and ``is_stable``, each of shape (n_components,). Values
            that need more draws or chains are NaN.

        Raises
        ------
        AttributeError
            If the sampler does not draw the topics.
        ValueError
            If no draws of the topics were kept, because they need more memory than `max_draws_bytes`.
        """
        check_scalar(threshold, "threshold", Real)
        draws = self._draws_of_topics()
        match = match_chains(draws, self.best_chain_)
        return diagnose_topics(draws, self.posterior_["topic_weights"], match, threshold=threshold)

    def to_arviz(self) -> Any:
        """Export the posterior draws to ArviZ, with every chain's topics in the order of ``components_``.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has ``components`` (axes ``chain``, ``draw``, ``topic`` and ``word``),
            ``topic_weights`` and learned priors. Group ``sample_stats`` has the log density. If `max_draws_bytes`
            allows fewer draws of the topics than of the rest, these are in a group ``posterior_thinned``, whose
            coordinate ``draw`` has their indices.

        Raises
        ------
        AttributeError
            If the sampler does not draw the topics.
        ValueError
            If no draws of the topics were kept, because they need more memory than `max_draws_bytes`.
        """
        match = match_chains(self._draws_of_topics(), self.best_chain_)
        kept = self._component_draws if hasattr(self, "_posterior") else None  # all draws of a stream have topics
        axes, names = self._draw_axes()
        return to_arviz(self.posterior_, match.permutations, names, component_draws=kept, axes=axes)

    def _draw_axes(self) -> tuple[dict[str, list[str]], Any]:
        """Axes of the variables with topics, and the names of the topics' entries or None."""
        return TOPIC_AXES, getattr(self, "feature_names_in_", None)

    def _draws_of_topics(self) -> np.ndarray:
        check_is_fitted(self)
        if not self._draws_topics:
            drawing = [repr(name) for name, kind in self._samplers.items() if kind.draws_parameters]
            raise AttributeError(
                f"{type(self.sampler_).__name__} estimates the topics and does not draw them, so there is no posterior "
                f"uncertainty. Use a sampler such as {' or '.join(drawing[:2])}."
            )
        draws = self.posterior_.get("components")
        if draws is None or draws.shape[1] == 0:
            raise ValueError("No draws of the topics were kept: increase max_draws_bytes, or decrease burn_in or thin.")
        return draws
