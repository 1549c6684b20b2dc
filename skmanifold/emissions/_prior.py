"""Families of an emission without rows, from whose priors parameters and rows are drawn."""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ._columns.family import ColumnsFamily
from ._protocols import Arrays


@runtime_checkable
class HasPriorFamily(Protocol):
    """An emission that makes a family without rows."""

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> Any:
        """Make a family whose hyperparameters do not depend on rows.

        Parameters
        ----------
        n_features : int
            Number of columns.
        n_components : int
            Number of components K.
        n_tokens : int
            Number of tokens of each row, for emissions whose rows have a given number of them.

        Returns
        -------
        family : Family
            The family.

        Raises
        ------
        ValueError
            If a hyperparameter is None that `bind` would compute from rows.
        """
        ...


def with_components(family: Any, n_components: int) -> Any:
    """The same family with another number of components.

    Parameters
    ----------
    family : Family
        A family of rows.
    n_components : int
        Number of components K.

    Returns
    -------
    family : Family
        A copy; arrays are shared.
    """
    other = copy(family)
    if isinstance(family, ColumnsFamily):
        other.blocks = tuple(with_components(block, n_components) for block in family.blocks)
    other.n_components = n_components
    return other


def no_statistics(family: Any) -> Arrays:
    """Statistics of no rows.

    Parameters
    ----------
    family : Family
        A family of rows or tokens.

    Returns
    -------
    statistics : tuple of ndarray
        Zeros, with the shapes of the family's statistics.
    """
    return tuple(np.zeros(shape) for shape in family.shapes())
