"""What the summaries of mixtures are made of: data frames of the clusters and of the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._install import install_command
from ..topics.top_words import column_names
from ..utils._typing import ArrayLike

if TYPE_CHECKING:  # pandas is optional
    import pandas as pd

INTERVAL = 0.05, 0.95


class ClusterSummary(NamedTuple):
    """The clusters and the columns of a fitted mixture, as data frames.

    Attributes
    ----------
    clusters : DataFrame
        A row for each cluster.
    columns : DataFrame
        A row for each column of X.
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


def summary_of(
    names: Any,
    of_clusters: dict[str, Any],
    cells: np.ndarray,
    information: np.ndarray,
    as_shown: Callable[[int, np.ndarray], np.ndarray],
) -> ClusterSummary:
    """Attributes of the clusters, then their typical cells, (K, n_columns), in descending order of the information."""
    import pandas as pd

    order = np.argsort(-information, kind="stable")
    of_columns = pd.DataFrame({names[j]: as_shown(j, cells[:, j]) for j in order})
    columns = pd.DataFrame({"mutual_information": information[order]}, index=of_columns.columns)
    return ClusterSummary(pd.concat((pd.DataFrame(of_clusters), of_columns), axis=1), columns)
