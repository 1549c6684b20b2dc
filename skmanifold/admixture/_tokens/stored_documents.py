"""Counts of topics in the first documents, which draws from the posterior may hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import draws_parameters
from ...inference._distributed_fits.session import active_session
from ...samplers import BaseSampler
from .sampler_types import draws_assignments


def draws_documents(sampler: BaseSampler) -> bool:
    """Whether a sampler draws the topics of all tokens from their posterior."""
    return draws_parameters(sampler) and draws_assignments(sampler)


def n_stored_documents(estimator: Any, sampler: BaseSampler, in_memory: bool) -> int:
    """The parameter `n_stored_rows`, or 0 if the sampler does not use it; a ValueError if documents are elsewhere."""
    wanted = estimator.n_stored_rows if draws_documents(sampler) else 0
    if wanted and not (in_memory and not active_session()):
        raise ValueError("n_stored_rows needs the documents in the memory of this process: set it to 0.")
    return wanted


def record_documents(latents: Any, token_start: np.ndarray, n_rows: int, n_topics: int) -> dict[str, np.ndarray]:
    """Numbers of tokens of each topic in the first documents, as an entry of a draw.

    Parameters
    ----------
    latents : ndarray of shape (n_tokens,) or Assignments
        Topics of the tokens, document by document.
    token_start : ndarray of shape (n_documents + 1,)
        First token of each document.
    n_rows, n_topics : int
        Numbers of documents and topics; without documents there is no entry.
    """
    n_rows = min(n_rows, len(token_start) - 1)
    if not n_rows:
        return {}
    starts, topics = token_start[: n_rows + 1], getattr(latents, "topics", latents)
    cells = np.repeat(np.arange(n_rows), np.diff(starts)) * n_topics + topics[: starts[-1]].astype(np.int64)
    return {"doc_topic_counts": np.bincount(cells, minlength=n_rows * n_topics).reshape(n_rows, n_topics)}
