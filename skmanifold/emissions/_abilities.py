"""What a family of an emission may be able to do beside its protocol, and what of all that one lacks, in words.

A family has the methods of a protocol or it has not: no method only raises. Whoever needs one asks before a fit begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..numerics.block_sums import BlockSums
from ..utils._protocol_check import members
from ._protocols import Arrays, Parameters


@runtime_checkable
class HasDraw(Protocol):
    """Parameters can be drawn from their posterior."""

    def draw(self, statistics: Arrays, key: np.uint64) -> Parameters:
        """Draw the parameters from their posterior given statistics.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.
        key : uint64
            Of the random numbers.

        Returns
        -------
        parameters : object
            Parameters of all components.
        """
        ...


@runtime_checkable
class HasParametersOf(Protocol):
    """Parameters can be computed from fitted attributes, as stored draws of an admixture are."""

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> Parameters:
        """The parameters that have these attributes.

        Parameters
        ----------
        attributes : dict of str to ndarray
            As `attributes` returns them.

        Returns
        -------
        parameters : object
            Parameters of all components.
        """
        ...


@runtime_checkable
class HasShares(Protocol):
    """Expected statistics of rows, given their membership probabilities."""

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of rows first to stop given their membership probabilities, (stop - first, K).

        Parameters
        ----------
        rows : object
            What the emission's `read` returned.
        first : int
            The first row.
        stop : int
            The row after the last.
        first_block : int
            Number of the block that the first row begins.
        shares : ndarray of shape (stop - first, K)
            Membership probabilities of these rows.

        Returns
        -------
        sums : BlockSums
            The statistics, by blocks of rows.
        """
        ...


@runtime_checkable
class HasLogJoint(Protocol):
    """The function that `mode` maximises."""

    def log_prior(self, parameters: Parameters) -> float:
        """Log of the prior's density in the natural parametrisation, up to a constant.

        Parameters
        ----------
        parameters : object
            Parameters of all components.

        Returns
        -------
        log_density : float
            Summed over components, up to a constant.
        """
        ...

    def log_likelihood(self, statistics: Arrays, parameters: Parameters) -> float:
        """Log density of rows with these statistics, without their ``log_base``, given their components.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.
        parameters : object
            Parameters of all components.

        Returns
        -------
        log_density : float
            Summed over rows, in nats.
        """
        ...


@runtime_checkable
class HasHighestLogDensities(Protocol):
    """How well any parameters could explain a row."""

    def highest_log_densities(self, rows: Any) -> np.ndarray:
        """The highest log density that any parameters give each row, without ``log_base``, (n_rows,).

        Parameters
        ----------
        rows : object
            What the emission's `read` returned.

        Returns
        -------
        log_densities : ndarray of shape (n_rows,)
            In nats.
        """
        ...


@runtime_checkable
class HasSeeds(Protocol):
    """Initial labels from seeds that are spread over the rows: ``init="k-means++"``."""

    def seed_labels(self, rows: Any, key: np.uint64) -> np.ndarray:
        """Initial labels, (n_rows,) int32.

        Parameters
        ----------
        rows : object
            What the emission's `read` returned.
        key : uint64
            Of the random numbers.

        Returns
        -------
        labels : ndarray of shape (n_rows,), int32
            Components.
        """
        ...


@runtime_checkable
class HasNewRows(Protocol):
    """New rows can be drawn."""

    def sample(self, parameters: Parameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw rows of components `labels`.

        Parameters
        ----------
        parameters : object
            Parameters of all components.
        labels : ndarray of shape (n_rows,), int32
            Components of the rows.
        key : uint64
            Of the random numbers.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            New rows.
        """
        ...


@runtime_checkable
class HasParameterCount(Protocol):
    """The number of free parameters is known: information criteria."""

    def n_parameters(self) -> int:
        """Number of free parameters of all components.

        Returns
        -------
        n_parameters : int
            Of all components together.
        """
        ...


@runtime_checkable
class HasParts(Protocol):
    """Rows that can be cut and hashed, as shards on a cluster are."""

    def part(self, start: int, stop: int) -> Any:
        """The rows `start` to `stop`, or to the last.

        Parameters
        ----------
        start : int
            The first row.
        stop : int
            The row after the last; beyond the last row, all that there are.

        Returns
        -------
        rows : object
            These rows alone.
        """
        ...

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows, of which the first is number `first_row`; those of ranges add up, modulo 2**64.

        Parameters
        ----------
        key : uint64
            Of the random numbers.
        first_row : int
            Number of the first row in the whole data.

        Returns
        -------
        hash : int
            Modulo 2**64.
        """
        ...


_WORDS = {
    "mode": "a mode of the parameters",
    "attributes": "fitted attributes",
    "check_parameters": "a check of stored parameters",
    "shapes": "shapes of its statistics",
    "n_cells": "the size of its statistics",
    "n_components": "a number of components",
    "n_features": "a number of features",
    "add_log_densities": "log densities of rows",
    "sum_labels": "statistics of labelled rows",
    "sum_shares": "statistics of rows with membership probabilities",
    "statistics_of_tokens": "statistics of tokens",
    "token_table": "log densities of tokens",
    "token_prior": "a Dirichlet prior of tokens",
    "start_of_tokens": "initial components of tokens",
    "draw": "draws of the parameters",
    "parameters_of": "parameters from fitted attributes",
    "log_prior": "a log prior density",
    "log_likelihood": "a log likelihood of statistics",
    "seed_labels": "initial labels from seeds",
    "sample": "new rows",
    "n_parameters": "a number of free parameters",
    "part": "ranges of rows",
    "hash_rows": "a hash of rows",
    "read": "a reader of rows",
    "bind": "a family of rows",
    "read_tokens": "a reader of tokens",
    "bind_tokens": "a family of tokens",
}


def missing_members(thing: Any, protocols: Iterable[type]) -> list[str]:
    """Names that these protocols ask for, and that an emission or its family, or the class of one, lacks.

    Parameters
    ----------
    thing : object
        An emission, a family or the class of one.
    protocols : iterable of type
        What is asked for.

    Returns
    -------
    names : list of str
        In the order of the protocols.
    """
    names = dict.fromkeys(name for protocol in protocols for name in members(protocol))
    return [name for name in names if getattr(thing, name, False) is False]


def in_words(names: Iterable[str]) -> str:
    """Members of protocols in words, each with its name.

    Parameters
    ----------
    names : iterable of str
        Members of protocols.

    Returns
    -------
    words : str
        Joined by "and".
    """
    return " and ".join(f"{_WORDS.get(name, name)} ({name})" for name in names)


def needs_of_family(needs_of_method: dict[str, tuple[type, ...]], protocols: Iterable[type]) -> list[type]:
    """What a family must offer so that its model offers these protocols.

    Parameters
    ----------
    needs_of_method : dict of str to tuple of type
        For methods of the model, the protocols of the family that they need.
    protocols : iterable of type
        Protocols of models.

    Returns
    -------
    needs : list of type
        Protocols of families.
    """
    methods = [name for protocol in protocols for name in members(protocol)]
    return [need for name in methods for need in needs_of_method.get(name, ())]
