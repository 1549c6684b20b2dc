"""Display of the top words of topics, with credible intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from ..admixture import (
    ExponentialFamilyAdmixture,
    HDPAdmixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
)
from ..admixture._posterior.topic_draws import STABLE_SIMILARITY
from ..admixture._posterior.topic_frame import largest_first, topic_shares, topic_stability
from ..inference._draws import check_level
from ..mixture import DPCategoricalMixture, DPMixture, ExponentialFamilyMixture, VonMisesFisherMixture
from ..topics.top_words import column_names, top_columns, top_words_by_sign
from ..utils._typing import ArrayLike
from ._axes import AGAINST, MAIN, QUIET, Axes, check_estimator, is_alone, percent, plain, pyplot, several_panels, strip

if TYPE_CHECKING:  # no circle of imports
    from ._class_words import ClassWords

_MAX_COLUMNS = 4
_MOST_SHOWN = 12  # topics, unless the caller chooses them
_MEASURE_NAMES = {"log-odds": "log odds ratio", "c-tf-idf": "c-tf-idf", "lift": "lift"}
_LONGEST_WORD = 20  # maximum number of characters of a word in a panel


@dataclass(kw_only=True, eq=False, repr=False)
class TopicDisplay:
    """Top words of each topic, in one panel per topic, with credible intervals if the sampler draws topics.

    Use :meth:`from_estimator` or :meth:`from_class_words` to create it. All parameters are stored as attributes.

    Parameters
    ----------
    topics : array-like of int of shape (n_topics,)
        Indices of the topics, rows of ``components_``.
    words : list of n_topics lists of str
        Words of each topic, from top to bottom.
    values : list of n_topics arrays
        Entries of these words in the topic.
    intervals : list of n_topics arrays of shape (2, n_words of the topic), default=None
        Lower and upper ends of their credible intervals. None shows no intervals.
    level : float, default=None
        Posterior probability of each interval: the level that the draws reach, which may be less than the `level` of
        :meth:`from_estimator`.
    shares : array-like of shape (n_topics,), default=None
        Fraction of the data of each topic.
    is_stable : array-like of bool of shape (n_topics,), default=None
        Whether all chains found the topic. None if there is only one chain.
    value_name : str, default="value"
        Name of the entries.
    topic_name : str, default="topic"
        Name of the topics.
    n_components : int, default=None
        Number of all topics, which the figure states if it is larger than `n_topics`.

    Attributes
    ----------
    axes_ : ndarray of matplotlib axes of shape (n_topics,)
    figure_ : matplotlib figure

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from skmanifold import StochasticLDA
    >>> from skmanifold.inspection import TopicDisplay
    >>> texts = ["ball bat ball run", "run bat pitch", "orbit moon launch", "launch orbit fuel", "bat pitch ball"]
    >>> vectorizer = CountVectorizer()
    >>> lda = StochasticLDA(2, sampler="gibbs", max_iter=100, random_state=0).fit(vectorizer.fit_transform(texts))
    >>> display = TopicDisplay.from_estimator(lda, feature_names=vectorizer.get_feature_names_out(), n_words=4)
    >>> len(display.axes_)
    2
    """

    topics: Sequence[Any] | np.ndarray
    words: Sequence[Sequence[str]]
    values: Sequence[ArrayLike]
    intervals: Sequence[Any] | None = None
    level: float | None = None
    shares: Sequence[float] | np.ndarray | None = None
    is_stable: Sequence[bool] | np.ndarray | None = None
    value_name: str = "value"
    topic_name: str = "topic"
    n_components: int | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        feature_names: ArrayLike | None = None,
        n_words: int = 8,
        topics: ArrayLike | None = None,
        level: float = 0.9,
        ax: Axes | Sequence[Axes] | np.ndarray | None = None,
    ) -> Self:
        """Plot the topics of a fitted estimator.

        Bars show entries of ``components_`` (``mean_directions_`` of VonMisesFisherMixture). For topics with negative
        entries they are posterior means, ``components_`` times ``resultant_lengths_``, so that they are comparable with
        the intervals; words with negative weight have another colour and point to the left. Lines on the bars are
        credible intervals of single entries. There are none if the sampler does not draw the topics, and none for
        mixtures. The title of a panel has the share of the topic in per cent. If there are several chains, it also
        shows whether all chains found the topic (with a cosine of at least 0.8).

        Parameters
        ----------
        estimator : estimator instance
            Fitted StochasticLDA, HDPAdmixture, SphericalAdmixture, OrthogonalSphericalAdmixture,
            ExponentialFamilyAdmixture, VonMisesFisherMixture, DPCategoricalMixture of counts, DPMixture or
            ExponentialFamilyMixture. Estimators with a choice of emissions may have any except "categorical" and
            "gaussian".
        feature_names : array-like of shape (n_features,), default=None
            Names of the columns, such as ``vectorizer.get_feature_names_out()``; None uses ``feature_names_in_``, or
            the column indices.
        n_words : int, default=8
            Maximum number of words of a topic; for topics with negative entries, of each sign.
        topics : int or array-like of int, default=None
            Topics to show, in this order; ``range(n_components)`` shows all. None shows the twelve topics with the
            largest shares, in descending order; if the estimator does not store shares, the first twelve.
        level : float, default=0.9
            Posterior probability of each interval. With too few draws it is lower; `credible_intervals` of the
            estimator then warns, and the plot states the level that is reached.
        ax : matplotlib axes, or array of one for each topic, default=None
            Axes to draw on. A single axes object is divided into panels. None creates a new figure.

        Returns
        -------
        display : TopicDisplay

        Raises
        ------
        ValueError
            If the estimator has no topics of words, or a parameter is not valid for it.

        Warns
        -----
        UserWarning
            If the draws are too few for intervals of `level`.
        """
        of_words = StochasticLDA, HDPAdmixture, ExponentialFamilyAdmixture, ExponentialFamilyMixture, DPMixture
        of_directions = SphericalAdmixture, OrthogonalSphericalAdmixture, VonMisesFisherMixture
        check_estimator(cls, estimator, (*of_words, DPCategoricalMixture, *of_directions), "topics of words")
        entries, has_signs, value_name, topic_name = _topics_of(estimator)
        names = column_names(estimator, entries.shape[1], feature_names)
        check_level(level)
        shares = topic_shares(estimator)
        ranked = largest_first(shares, len(entries))[:_MOST_SHOWN]
        chosen = ranked if topics is None else np.atleast_1d(topics)
        if not len(chosen) or chosen.dtype.kind not in "iu" or chosen.min() < 0 or chosen.max() >= len(entries):
            raise ValueError(f"topics must be whole numbers from 0 to {len(entries) - 1}; got {topics!r}.")
        shown = [_top_words(entries[topic], n_words, has_signs) for topic in chosen]
        ends = _intervals(estimator, level)
        stability = topic_stability(estimator)
        return cls(
            topics=chosen,
            words=[[str(names[i]) for i in words] for words in shown],
            values=[entries[topic, words] for topic, words in zip(chosen, shown, strict=True)],
            intervals=ends and [ends[0][:, topic, words] for topic, words in zip(chosen, shown, strict=True)],
            level=None if ends is None else estimator._reached_level(level),
            shares=None if shares is None else shares[chosen],
            is_stable=None if stability is None else stability[chosen] >= STABLE_SIMILARITY,
            value_name=value_name,
            topic_name=topic_name,
            n_components=len(entries),
        ).plot(ax=ax)

    @classmethod
    def from_class_words(
        cls,
        class_words: ClassWords,
        *,
        classes: ArrayLike | None = None,
        ax: Axes | Sequence[Axes] | np.ndarray | None = None,
    ) -> Self:
        """Plot the words that characterise clusters.

        Bars show posterior medians of the measure, and lines on them are credible intervals. The title of a panel has
        the share of the cluster in the memberships, in per cent.

        Parameters
        ----------
        class_words : ClassWords
        classes : int or array-like of int, default=None
            Clusters to show, in this order, from ``class_words.classes``. None shows the twelve largest clusters, in
            descending order of size.
        ax : matplotlib axes, or array of one for each cluster, default=None
            Axes to draw on. A single axes object is divided into panels. None creates a new figure.

        Returns
        -------
        display : TopicDisplay

        Raises
        ------
        ValueError
            If one of `classes` does not exist.
        """
        pyplot(f"{cls.__name__}.from_class_words")
        known = class_words.classes
        shares = class_words.sizes / class_words.sizes.sum()
        wanted = known[largest_first(shares, len(known))[:_MOST_SHOWN]] if classes is None else np.atleast_1d(classes)
        is_mask = wanted.dtype == bool and known.dtype != bool
        if not len(wanted) or is_mask or not np.isin(wanted, known).all():
            raise ValueError(f"classes must be labels from class_words.classes; got {classes!r}.")
        places = np.searchsorted(known, wanted)
        return cls(
            topics=known[places],
            words=[[str(word) for word in class_words.words[i]] for i in places],
            values=[class_words.values[i] for i in places],
            intervals=[np.array([class_words.low[i], class_words.high[i]]) for i in places],
            level=class_words.level,
            shares=shares[places],
            value_name=_MEASURE_NAMES[class_words.measure],
            topic_name="cluster",
            n_components=len(known),
        ).plot(ax=ax)

    def plot(
        self, ax: Axes | Sequence[Axes] | np.ndarray | None = None, *, sharex: bool = False, **bar_kwargs: Any
    ) -> Self:
        """Plot the panels.

        Parameters
        ----------
        ax : matplotlib axes, or array of one for each topic, default=None
            Axes to draw on. A single axes object is divided into panels. None creates a new figure.
        sharex : bool, default=False
            Whether all panels have the same scale. By default each panel has its own, so that the words of a topic with
            small probabilities can be compared. It has no effect on an array of axes.
        **bar_kwargs
            Keyword arguments of ``barh`` of matplotlib.

        Returns
        -------
        self : TopicDisplay

        Raises
        ------
        ValueError
            If the number of axes differs from the number of topics.
        """
        n_topics = len(self.topics)
        n_rows = -(-n_topics // _MAX_COLUMNS)
        n_columns = -(-n_topics // n_rows)
        tallest = max(len(words) for words in self.words)
        scale = 0.2 if not sharex else 0.0  # height of the numbers below a panel
        size = (max(2.6 * n_columns, 3.6), n_rows * (0.18 * max(tallest, 3) + 0.45 + scale) + 0.35)
        self.axes_, self.figure_ = several_panels(self, ax, n_topics, (n_rows, n_columns), size, sharex=sharex)
        value_name = plain(self.value_name)
        if self.intervals is not None and self.level is not None:
            value_name += f", {100 * self.level:.3g}% interval"
        for place, panel in enumerate(self.axes_):
            self._draw_topic(panel, place, bar_kwargs)
            is_lowest = place + n_columns >= n_topics
            if is_lowest:
                panel.set_xlabel(value_name, parse_math=False)
            elif sharex and is_alone(ax):
                panel.tick_params(labelbottom=False)
        if ax is None and self.n_components is not None and n_topics < self.n_components:
            title = f"{n_topics} of {self.n_components} {plain(self.topic_name)}s"
            self.figure_.suptitle(title, fontsize=9, color=QUIET, x=0.01, ha="left", parse_math=False)
        return self

    def _draw_topic(self, panel, place: int, bar_kwargs: dict) -> None:
        values, words = np.asarray(self.values[place]), self.words[place]
        heights = np.arange(len(values))
        colors = np.where(values < 0, AGAINST, MAIN)
        panel.barh(heights, values, **{"color": colors, "height": 0.72, "alpha": 0.55, **bar_kwargs})
        if self.intervals is not None:
            low, high = self.intervals[place]
            panel.hlines(heights, low, high, colors=colors, linewidth=1.8)
        if (values < 0).any():
            panel.axvline(0.0, color="black", linewidth=0.6)
        panel.set_yticks(heights, [_shortened(word) for word in words], fontsize=8, parse_math=False)
        panel.set_ylim(max(len(values), 1) - 0.4, -0.6)
        panel.tick_params(axis="y", length=0)
        panel.tick_params(axis="x", labelsize=7)
        panel.locator_params(axis="x", nbins=4)
        panel.set_title(plain(self._title(place)), fontsize=9, parse_math=False)
        panel.xaxis.label.set_size(8)
        strip(panel, "top", "right", "left")

    def _title(self, place: int) -> str:
        parts = [f"{self.topic_name} {self.topics[place]}"]
        if self.shares is not None:
            parts.append(percent(self.shares[place]))
        if self.is_stable is not None:
            parts.append("stable" if self.is_stable[place] else "not stable")
        return ", ".join(parts)


def _topics_of(estimator: Any) -> tuple[np.ndarray, bool, str, str]:
    """Entries of the topics, (n_topics, n_features), whether they have signs, and names of an entry and of a topic."""
    if isinstance(estimator, VonMisesFisherMixture):
        directions = estimator.mean_directions_
        return directions, bool((directions < 0).any()), "entry of mean direction", "component"
    if isinstance(estimator, (SphericalAdmixture, OrthogonalSphericalAdmixture)):
        means = estimator.components_ * estimator.resultant_lengths_[:, np.newaxis]
        return means, True, "mean entry", "topic"
    if isinstance(estimator, (StochasticLDA, HDPAdmixture)):
        return estimator.components_, False, "probability", "topic"
    if isinstance(estimator, DPCategoricalMixture):
        if not isinstance(estimator.components_, np.ndarray):
            raise ValueError("TopicDisplay shows topics of words, but this DPCategoricalMixture has tables.")
        return estimator.components_, False, "probability", "component"
    emission = estimator.emission_.short_name
    is_mixture = isinstance(estimator, (ExponentialFamilyMixture, DPMixture))
    names = {
        "multinomial": "probability",
        "bernoulli": "probability of a one",
        "negative_binomial": "expected count",
        "poisson": "expected count" if is_mixture else "probability",
    }
    if emission not in names or isinstance(estimator.components_, list):
        kind = type(estimator).__name__
        raise ValueError(f"TopicDisplay shows topics of words, but this {kind} has emission={emission!r}.")
    return estimator.components_, False, names[emission], "component" if is_mixture else "topic"


def _top_words(entries: np.ndarray, n_words: int, has_signs: bool) -> np.ndarray:
    """Columns in descending order of their entries; for topics with negative entries, the most negative is last."""
    if not has_signs:
        return top_columns(entries[np.newaxis], n_words)[0]
    high, low = top_words_by_sign(entries, n_words)
    return np.concatenate([high, low[::-1]])


def _intervals(estimator: Any, level: float) -> list[np.ndarray] | None:
    """Credible intervals of all entries, in a list; None without draws."""
    if not hasattr(estimator, "credible_intervals"):
        return None
    try:
        return [estimator.credible_intervals(level)]
    except (AttributeError, ValueError):  # the sampler draws no topics, or none were kept
        return None


def _shortened(word: str) -> str:
    word = plain(word).replace("\n", r"\n")
    return word if len(word) <= _LONGEST_WORD else word[: _LONGEST_WORD - 1] + "…"
