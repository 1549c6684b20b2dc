"""Topic models of counts: `StochasticLDA`, `HDPAdmixture` and `ExponentialFamilyAdmixture`."""

from __future__ import annotations

import numpy as np

from skmanifold import ExponentialFamilyAdmixture, HDPAdmixture, StochasticLDA
from skmanifold.emissions import Gaussian

from . import _quantities as q
from ._settings import Setting

TITLE = "StochasticLDA, HDPAdmixture and ExponentialFamilyAdmixture"
OF_WORDS = {"fit of the words": q.fit_of_tokens}
OF_TOPICS = {"squared components": q.squared_components, "first column": q.first_column}
OF_COUNTS = {"squared shares": q.squared_shares, "squared counts": q.squared_counts}
SHAPE = {"n_samples": 10, "n_features": 6, "n_tokens": 12}


def as_vectors(estimator, X, rng):
    """Counts of words that each occur once, whose vectors the estimator has."""
    lengths = list(map(len, X))
    estimator.set_params(word_vectors=np.concatenate(X))
    counts = np.zeros((len(X), sum(lengths)))
    counts[np.repeat(np.arange(len(X)), lengths), np.arange(sum(lengths))] = 1
    return counts


def _lda(name, title, sampler, quantities, **others):
    estimator = StochasticLDA(3, doc_topic_prior=0.5, topic_word_prior=0.5, sampler=sampler)
    return Setting(f"lda_{name}", f"{title}, StochasticLDA", estimator, SHAPE, quantities, **others)


def _stores(setting):
    return setting._replace(estimator=setting.estimator.set_params(n_stored_rows=10))


def _hdp(name, title, **others):
    estimator = HDPAdmixture(topic_word_prior=0.5, topic_concentration_prior=(1.0, 1.0), n_stored_rows=10)
    quantities = {
        "number of components": q.number("n_components"),
        "concentration": q.number("concentration"),
        "topic concentration": q.number("topic_concentration"),
        **OF_WORDS,
        **OF_TOPICS,
        **OF_COUNTS,
    }
    return Setting(name, title, estimator, SHAPE, quantities, **others)


def _family(emission, quantities, n_features=6, **others):
    name = emission if isinstance(emission, str) else type(emission).short_name
    rate = 0.1 if name == "poisson" else None
    estimator = ExponentialFamilyAdmixture(
        2, emission=emission, sampler="gibbs", doc_topic_prior=0.7, intensity_rate=rate, n_stored_rows=10
    )
    shape = {**SHAPE, "n_features": n_features}
    title = f"gibbs, {name}, ExponentialFamilyAdmixture"
    return Setting(f"admixture_{name}", title, estimator, shape, quantities, **others)


_OF_GIBBS = {**OF_WORDS, **OF_TOPICS, **OF_COUNTS}
SETTINGS = [
    _stores(_lda("gibbs", "gibbs", "gibbs", _OF_GIBBS)),
    _stores(_lda("collapsed_gibbs", "collapsed_gibbs", "collapsed_gibbs", _OF_GIBBS)),
    _hdp("hdp", "gibbs, HDPAdmixture"),
    _family("bernoulli", {**OF_TOPICS, **OF_COUNTS}),
    _family("multinomial", _OF_GIBBS),
    _family("poisson", _OF_GIBBS),
    _family(
        Gaussian("full", np.zeros(2), 0.3, 1.0, 5.0),
        {**OF_TOPICS, **OF_COUNTS, "log variances": q.log_determinants},
        n_features=2,
        prepare=as_vectors,
    ),
]
for sampler in ("scir", "sgrld", "sgrhmc", "sghmc", "sgld", "esca", "cvb0", "vb"):
    SETTINGS.append(_lda(sampler, f"{sampler}, default settings", sampler, OF_TOPICS, kind="approximate", thin=50))
SETTINGS += [
    _stores(
        _lda(
            "wrong_prior",
            "gibbs, another doc_topic_prior",
            "gibbs",
            _OF_GIBBS,
            kind="wrong",
            fit={"doc_topic_prior": 2.0},
        )
    ),
    _hdp(
        "hdp_wrong_prior", "gibbs, another topic_word_prior, HDPAdmixture", kind="wrong", fit={"topic_word_prior": 1.5}
    ),
    _family("multinomial", _OF_GIBBS, kind="wrong", fit={"doc_topic_prior": 3.0})._replace(
        name="admixture_wrong_prior", title="gibbs, another doc_topic_prior, ExponentialFamilyAdmixture"
    ),
]
