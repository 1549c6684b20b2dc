"""What estimators offer in addition if their emission is that of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from .layout import ColumnLayout


class WithColumns:
    """Mixin for estimators of rows that may be tables with several kinds of columns; not public."""

    if TYPE_CHECKING:

        def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
            """Fitted attributes of each block."""
            ...

    @property
    def categories_(self) -> list[np.ndarray | None]:
        """With the emission `Columns`: the categories of each column of X, None for numbers."""
        layout = self._column_layout()
        pairs = zip(layout.kinds, layout.categories, strict=True)
        return [categories if kind == "category" else None for kind, categories in pairs]

    @property
    def named_blocks_(self) -> Bunch:
        """With the emission `Columns`: the fitted attributes of each block, such as ``components_``, by its name."""
        self._column_layout()
        return Bunch(**{name: Bunch(**attributes) for name, attributes in self._attributes_of_blocks().items()})

    def _column_layout(self) -> ColumnLayout:
        check_is_fitted(self)
        if "_layout" not in vars(self):
            raise AttributeError("The emission of this estimator is not Columns.")
        return vars(self)["_layout"]

    def _as_table(self, values: np.ndarray) -> Any:
        """New rows as a table like that of `fit`, if the emission is `Columns`; else as they are."""
        if "_layout" not in vars(self):
            return values
        return vars(self)["_layout"].table(values, getattr(self, "feature_names_in_", None))

    def _typical_of(self, column: int, values: np.ndarray) -> np.ndarray:
        """Typical values of a column: means, and categories in place of codes."""
        has_codes = "_layout" in vars(self) and vars(self)["_layout"].kinds[column] == "category"
        return self._cells_of(column, values) if has_codes else values

    def _cells_of(self, column: int, values: np.ndarray) -> np.ndarray:
        """Cells of a column as in the table of `fit`."""
        return vars(self)["_layout"].cells(column, values) if "_layout" in vars(self) else values
