"""Minibatches of a stream for mixtures of directions: EM with statistics that forget old rows."""

from __future__ import annotations

from .em import DirectionStatistics, Mixture, VonMisesFisherEM

_FIRST_ITERATIONS = 10  # of EM on the first minibatch


def learn_minibatch(
    em: VonMisesFisherEM, mixture: Mixture, old: DirectionStatistics, rate: float, total: float
) -> tuple[Mixture, DirectionStatistics]:
    """One E step on a minibatch, and the M step with blended statistics.

    Parameters
    ----------
    em : VonMisesFisherEM
        Of the minibatch.
    mixture : Mixture
        Parameters before.
    old : DirectionStatistics
        Of these parameters.
    rate : float
        Weight of the minibatch.
    total : float
        Number of rows of the whole stream, to which statistics are scaled.

    Returns
    -------
    mixture : Mixture
    statistics : DirectionStatistics
    """
    em.mean_cosine = old.prior_ratio
    em.expect(mixture)
    before, now = (1.0 - rate) * total / old.total, rate * total / em.total
    em.sums[0] = before * old.lengths * mixture.directions + now * em.sums[0]
    em.sizes[0] = before * old.total * mixture.weights + now * em.sizes[0]
    return em.maximize(mixture.directions), em.statistics


def begin_stream(em: VonMisesFisherEM, mixture: Mixture, total: float) -> tuple[Mixture, DirectionStatistics]:
    """A few iterations of EM on the first minibatch, from initial parameters."""
    for _ in range(_FIRST_ITERATIONS):
        em.expect(mixture)
        mixture = em.maximize(mixture.directions)
    scale = total / em.statistics.total
    return mixture, em.statistics._replace(lengths=scale * em.statistics.lengths, total=total)
