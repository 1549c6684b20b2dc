"""Tables with hostile cells: refused by the column's name, or read, filled and drawn without a change of any cell."""

import numpy as np
import pytest

from skmanifold.emissions._columns import layout
from skmanifold.emissions._columns import layout as reading
from skmanifold.mixture import _imputation as filling

from . import _table_door


@pytest.mark.extended
def test_the_door_sees_what_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("FUZZ_TABLES", "em")
    prepared = _table_door.prepare(tmp_path)

    def told():
        return [sentence for seed in range(80) if (sentence := _table_door.check(prepared, seed))]

    assert told() == []
    with monkeypatch.context() as patch:
        patch.setattr(reading, "refuse_text", lambda cells, what: None)
        patch.setattr(reading, "MOST_EXACT", np.inf)
        assert any(sentence.endswith("must be refused") for sentence in told())
    with monkeypatch.context() as patch:
        of_library = {
            name: lambda X, place, holes, cells, *rest, fill=fill: fill(
                X, place, holes | True, cells[[0] * len(holes)], *rest
            )
            for name, fill in filling._FILL.items()
        }
        patch.setattr(filling, "_FILL", of_library)
        assert any(" became " in sentence for sentence in told())
    with monkeypatch.context() as patch:
        smallest = np.iinfo(np.int64).min
        patch.setattr(layout.ColumnLayout, "_whole_numbers", lambda self, column, cells: np.full(len(cells), smallest))
        assert any(f"drawn [{smallest}" in sentence for sentence in told())
