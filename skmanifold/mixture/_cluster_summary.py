"""What the summaries of mixtures are made of: data frames of the clusters and of the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._install import install_command
from ..emissions._cells import distribution_of_columns
from ..topics.top_words import column_names
from ..utils._threads import limit_threads
from ..utils._typing import ArrayLike

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

QUANTILES = {"": 0.5, "_low": 0.05, "_high": 0.95}


class ClusterSummary(NamedTuple):
    """The clusters and the columns of a fitted mixture, as data frames.

    Attributes
    ----------
    clusters : DataFrame
        A row for each cluster.
    columns : DataFrame
        A row for each column of X; none for emissions without distributions of single columns.
    """

    clusters: pd.DataFrame
    columns: pd.DataFrame


def names_for_summary(mixture: Any, feature_names: ArrayLike | None) -> Any:
    """Names of the columns; an ImportError without pandas, before the work begins."""
    try:
        import pandas as pd  # noqa: F401
    except ImportError as error:
        raise ImportError(f"cluster_summary needs pandas: {install_command('demo')}") from error
    return column_names(mixture, mixture.n_features_in_, feature_names)


def of_draws(name: str, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Median and 5% and 95% quantiles of a quantity of the clusters over draws, (n_draws, K); empty without draws.

    Quantiles are drawn values, and so are whole numbers if draws are.
    """
    if not len(draws):
        return {}
    values = np.quantile(draws, list(QUANTILES.values()), axis=0, method="inverted_cdf")
    return {f"drawn_{name}{end}": value for end, value in zip(QUANTILES, values, strict=True)}


class ColumnSummary(NamedTuple):
    """What a summary says about columns."""

    typical_cells: np.ndarray  # (K, n_columns)
    information: np.ndarray  # (n_columns,)


def column_summary(family: Any, attributes: dict[str, Any], weights: np.ndarray) -> ColumnSummary | None:
    """The summary of columns of components with these attributes and weights; None if the family has no columns."""
    with limit_threads("blas"):  # other numbers of threads round otherwise
        columns = distribution_of_columns(family, attributes)
        return None if columns is None else ColumnSummary(columns.typical(), columns.information(weights))


def summary_of(
    names: Any,
    of_clusters: dict[str, Any],
    of_columns: ColumnSummary | None,
    as_shown: Callable[[int, np.ndarray], np.ndarray],
) -> ClusterSummary:
    """Attributes of the clusters, then their typical cells, with columns in descending order of their information."""
    import pandas as pd

    if of_columns is None:
        return ClusterSummary(pd.DataFrame(of_clusters), pd.DataFrame({"mutual_information": np.empty(0)}))
    cells, information = of_columns
    order = np.argsort(-information, kind="stable")
    shown = pd.DataFrame({names[j]: as_shown(j, cells[:, j]) for j in order})
    columns = pd.DataFrame({"mutual_information": information[order]}, index=shown.columns)
    return ClusterSummary(pd.concat((pd.DataFrame(of_clusters), shown), axis=1), columns)
