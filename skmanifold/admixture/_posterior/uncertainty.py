"""How sure the topics are: what the posterior draws of an estimator say."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...base import draws_parameters
from ...inference._intervals import equal_tailed_intervals, reached_level, warn_of_level
from ...samplers import BaseSampler
from .topic_draws import (
    STABLE_SIMILARITY,
    TOPIC_AXES,
    TopicDiagnostics,
    diagnose_topics,
    effective_draws,
    match_chains,
    to_arviz,
)


class TopicUncertainty:
    """Methods of an estimator with posterior draws of topics; not public.

    When fitted it has what is declared here.
    """

    _samplers: ClassVar[dict[str, type[BaseSampler]]]
    sampler_: BaseSampler
    best_chain_: int
    _posterior: dict[str, np.ndarray]  # of a fit
    _component_draws: np.ndarray
    _stream: Any  # DrawStream, or None

    @property
    def _draws_topics(self) -> bool:
        """Whether the topics are drawn, or they are estimates."""
        return draws_parameters(self.sampler_)

    @property
    def posterior_(self) -> dict[str, np.ndarray]:
        """Draws, a dict of arrays of shape (n_chains, n_draws, ...)."""
        check_is_fitted(self)
        if hasattr(self, "_posterior"):
            return self._posterior
        if self._stream is None:
            name = type(self.sampler_).__name__
            raise AttributeError(f"{name} makes no draws of a stream: posterior_ comes from fit.")
        return self._stream.posterior()

    def _predictive_draws(self, n: int) -> list[np.ndarray]:
        """At most n of the best chain's draws of the topics, evenly spaced; none where none are made or kept."""
        draws: Any = []
        if self._draws_topics and hasattr(self, "_posterior"):
            draws = self._posterior["components"][self.best_chain_] if "components" in self._posterior else []
        elif self._draws_topics and self._stream is not None:
            draws = [draw["components"] for draw in self._stream.draws(self.best_chain_)]
        return [draws[i] for i in evenly_spaced(len(draws), n)]

    def _labelled_draws(self, n: int) -> list[np.ndarray]:
        """Those of them whose topics are those of ``components_``."""
        return self._predictive_draws(n)

    def credible_intervals(self, level: float = 0.9) -> np.ndarray:
        """Equal-tailed credible intervals of the topics' entries, in the order of ``components_``.

        Each interval is of one entry at a time, given the model and within one mode of the posterior: another
        chain may find other topics (see `topic_diagnostics`). Where the number of topics is inferred, the draws are
        those with as many topics as ``components_``.

        The ends are quantiles at j / (n + 1) of the n draws of the best chain, sorted. The interval from the least draw
        to the greatest has level (n - 1) / (n + 1), and more cannot be reached: 90% takes 19 draws, 95% takes 39. From
        fewer draws the intervals are these, a warning says which level they reach, and `TopicDisplay` shows it.

        Draws of one chain resemble each other, and so many draws are worth fewer independent ones. From 50 draws on,
        and where arviz-stats is installed, a warning says so where half of the topics or more have too few effective
        draws, by the median over a topic's ten most probable words; `topic_diagnostics` has the worst of each topic.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        intervals : ndarray of shape (2, n_components, n_features), float32
            Lower and upper ends, from the best chain's draws.

        Raises
        ------
        AttributeError
            If the sampler does not draw the topics.
        ValueError
            If no draws of the topics were kept, as they would take more than `max_draws_bytes`.

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
        """The level that `credible_intervals` reach with so many draws, `level` or less."""
        return reached_level(level, len(self._interval_draws()))

    def _interval_draws(self) -> np.ndarray:
        """Draws of the best chain that intervals are made of, (n_draws, n_components, n_features)."""
        return self._draws_of_topics()[self.best_chain_]

    def topic_diagnostics(self, threshold: float = STABLE_SIMILARITY) -> TopicDiagnostics:
        """R-hat, effective sample size and stability of each topic, in the order of ``components_``.

        Topics of other chains are matched to the best chain's first (`scipy.optimize.linear_sum_assignment` on the
        cosines of mean topics).

        Parameters
        ----------
        threshold : float, default=0.8
            Least cosine, in every other chain, of a topic that is called stable.

        Returns
        -------
        diagnostics : TopicDiagnostics
            With ``rhat``, ``ess``, ``similarity`` and ``is_stable``, each of shape (n_components,). NaN where there are
            too few draws or chains to tell.

        Raises
        ------
        AttributeError
            If the sampler does not draw the topics.
        ImportError
            Where arviz-stats is not installed (``pip install "skmanifold[arviz]"``).
        """
        draws = self._draws_of_topics()
        match = match_chains(draws, self.best_chain_)
        return diagnose_topics(draws, self.posterior_["topic_weights"], match, threshold=threshold)

    def to_arviz(self) -> Any:
        """The draws as ArviZ's tree of data, every chain's topics in the order of ``components_``.

        Returns
        -------
        xarray.DataTree
            Group ``posterior`` has ``components`` (axes ``chain``, ``draw``, ``topic`` and ``word``),
            ``topic_weights`` and priors that were learned; ``sample_stats`` has the log density. Where
            `max_draws_bytes` left fewer draws of the topics than of the rest, they are in a group
            ``posterior_thinned``, whose ``draw`` says which ones they are.

        Raises
        ------
        AttributeError
            If the sampler does not draw the topics.
        ImportError
            Where arviz-base is not installed (``pip install "skmanifold[arviz]"``).
        """
        match = match_chains(self._draws_of_topics(), self.best_chain_)
        kept = self._component_draws if hasattr(self, "_posterior") else None  # a stream keeps whole draws alone
        axes, names = self._draw_axes()
        return to_arviz(self.posterior_, match.permutations, names, component_draws=kept, axes=axes)

    def _draw_axes(self) -> tuple[dict[str, list[str]], Any]:
        """Axes of the draws with topics, and names of the topics' entries, if there are any."""
        return TOPIC_AXES, getattr(self, "feature_names_in_", None)

    def _draws_of_topics(self) -> np.ndarray:
        check_is_fitted(self)
        if not self._draws_topics:
            drawing = [repr(name) for name, kind in self._samplers.items() if draws_parameters(kind())]
            raise AttributeError(
                f"{type(self.sampler_).__name__} estimates the topics and does not draw them: there is no uncertainty "
                f"to tell. Use a sampler such as {' or '.join(drawing[:2])}."
            )
        draws = self.posterior_.get("components")
        if draws is None or draws.shape[1] == 0:
            raise ValueError("No draws of the topics were kept: raise max_draws_bytes, or lower burn_in or thin.")
        return draws


def evenly_spaced(n_draws: int, n: int) -> list[int]:
    """Which of `n_draws` draws to take for at most n of them, the last one among them."""
    n = min(n, n_draws)
    return [n_draws - 1 - i * n_draws // n for i in reversed(range(n))]
