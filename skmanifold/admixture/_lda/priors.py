"""The Dirichlet priors of `StochasticLDA`, from its parameters or learned by a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import Run
from ...emissions import BaseEmission
from ...topics.proportions import check_doc_topic_prior
from ...utils._validation import of_columns
from .._tokens.new_rows import DrawsFromPrior, PriorOfRows
from .._tokens.sampler_types import assigns_tokens
from .._tokens.seeds import NO_SEEDS, Seeds
from .._tokens.topic_counts import TopicPrior

Priors = tuple[np.ndarray, TopicPrior]  # of topics in documents, (K,), and of words in topics


def is_learned(lda: Any) -> tuple[bool, bool]:
    """Whether `doc_topic_prior` is "auto", and whether `topic_word_prior` is."""
    return isinstance(lda.doc_topic_prior, str), isinstance(lda.topic_word_prior, str)


def check_learned(lda: Any, run: Run) -> None:
    """Raise a ValueError if a prior is "auto" and this fit cannot learn it."""
    if not any(is_learned(lda)):
        return
    if not assigns_tokens(run.sampler):
        raise ValueError(f"'auto' priors need a sampler of the tokens' topics, such as 'esca', not {lda.sampler!r}.")
    if run.schedule.burn_in == 0:
        raise ValueError("'auto' priors are learned during burn-in, but burn_in is 0.")


def priors_of(lda: Any, n_features: int, seeds: Seeds = NO_SEEDS, *, fitted: bool = False) -> Priors:
    """Both priors; with `fitted`, a prior that is "auto" has the value that the last fit has learned."""
    K, beta = lda.n_components, of_columns(lda, "topic_word_prior")
    if isinstance(beta, str):
        beta = lda.topic_word_prior_ if fitted else None
    prior = TopicPrior(0.1 if beta is None else beta, K, n_features)
    if len(seeds.columns):
        seeds.topic_of_column(n_features)  # checks the columns
        prior = TopicPrior(seeds.restrict(prior.values, K, n_features), K, n_features)
    return doc_topic_prior_of(lda, fitted=fitted), prior


def doc_topic_prior_of(admixture: Any, *, fitted: bool = False) -> np.ndarray:
    """The Dirichlet parameters of the components in a row, (K,)."""
    K, alpha = admixture.n_components, admixture.doc_topic_prior
    if isinstance(alpha, str):
        alpha = admixture.doc_topic_prior_ if fitted else None
    alpha = 1.0 / K if alpha is None else alpha
    return check_doc_topic_prior(np.full(K, alpha) if np.ndim(alpha) == 0 else alpha, K)


def prior_attributes(doc_topic_prior: np.ndarray, topic_prior: TopicPrior) -> dict[str, Any]:
    """The priors as fitted attributes."""
    values = topic_prior.values
    return {"doc_topic_prior_": doc_topic_prior, "topic_word_prior_": float(values) if values.ndim == 0 else values}


class DrawsTopicsFromPrior(DrawsFromPrior):
    """The prior of `StochasticLDA` for `sample_prior`; not public."""

    def _prior_of_rows(self, n_features: int | None) -> PriorOfRows:
        lda: Any = self
        if n_features is None:
            alpha = lda.doc_topic_prior_
            return PriorOfRows(BaseEmission, TopicPrior(lda.topic_word_prior_, len(alpha), lda.n_features_in_), alpha)
        if any(is_learned(lda)) or lda.seed_words:
            raise ValueError(
                "'auto' priors and seed_words depend on the data: give numbers, or fit the estimator and omit "
                "n_features."
            )
        alpha, prior = priors_of(lda, n_features)
        return PriorOfRows(BaseEmission, prior, alpha)
