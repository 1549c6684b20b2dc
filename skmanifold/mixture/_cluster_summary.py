"""What the summaries of mixtures are made of: data frames of the clusters and of the columns."""

from __future__ import annotations

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


def of_draws(name: str, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Median and 5% and 95% quantiles of a quantity of the clusters over draws, (n_draws, K); empty without draws.

    Quantiles are drawn values, and so are whole numbers if draws are.
    """
    if not len(draws):
        return {}
    values = np.quantile(draws, list(QUANTILES.values()), axis=0, method="inverted_cdf")
    return {f"drawn_{name}{end}": value for end, value in zip(QUANTILES, values, strict=True)}


def summarize_clusters(
    mixture: Any,
    feature_names: ArrayLike | None,
    weights: np.ndarray,
    attributes: dict[str, Any],
    of_clusters: dict[str, Any],
) -> ClusterSummary:
    """The summary of clusters with these weights, attributes of their family and other values.

    The values are followed by typical rows, if they are known, and typical cells, in descending order of the
    information of the columns.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"cluster_summary needs pandas: {install_command('demo')}") from error
    names = column_names(mixture, mixture.n_features_in_, feature_names)
    clusters = pd.DataFrame(of_clusters)
    if hasattr(mixture, "typical_rows_"):
        rows = mixture.typical_rows_
        clusters["typical_row"] = rows if (rows >= 0).all() else pd.arrays.IntegerArray(rows, rows < 0)
    with limit_threads("blas"):  # other numbers of threads round otherwise
        columns = distribution_of_columns(mixture._family, attributes)
        if columns is None:
            return ClusterSummary(clusters, pd.DataFrame({"mutual_information": np.empty(0)}))
        cells, information = columns.typical(), columns.information(weights)
    order = np.argsort(-information, kind="stable")
    shown = pd.DataFrame({names[j]: mixture._typical_of(j, cells[:, j]) for j in order})
    of_columns = pd.DataFrame({"mutual_information": information[order]}, index=shown.columns)
    return ClusterSummary(pd.concat((clusters, shown), axis=1), of_columns)
