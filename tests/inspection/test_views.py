import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from skmanifold.inspection import DependenceDisplay, SurprisalDisplay

from . import _fitted as fitted


def _ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_dependence_is_that_of_the_estimator_with_columns_of_a_view_side_by_side():
    display = DependenceDisplay.from_estimator(fitted.views())
    names = list(display.dependence.index)
    assert names in (["a", "c", "b"], ["c", "a", "b"])
    assert list(display.dependence.columns) == names
    pd.testing.assert_frame_equal(display.dependence, fitted.views().column_dependence().loc[names, names])
    np.testing.assert_array_equal(display.labels, [0, 0, 1])
    assert len(display.ax_.lines) == 2  # squares
    assert _ticks(display.ax_.xaxis) == _ticks(display.ax_.yaxis) == names
    (image,) = display.ax_.images
    np.testing.assert_array_equal(image.get_array(), display.dependence)
    assert image.colorbar.ax.get_ylabel() == "probability of one view"


def test_information_is_a_correlation():
    model = fitted.views()
    display = DependenceDisplay.from_estimator(model, measure="information")
    information = model.mutual_information().loc[display.dependence.index, display.dependence.index]
    expected = np.sqrt(1.0 - np.exp(-2.0 * information.to_numpy()))
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(display.dependence, expected)
    assert display.dependence.loc["a", "c"] > 0.5 > 0.3 > display.dependence.loc["a", "b"]
    assert display.ax_.images[0].colorbar.ax.get_ylabel() == "correlation with the same information"
    with pytest.raises(ValueError, match="measure must be 'probability' or 'information'; got 'p'"):
        DependenceDisplay.from_estimator(model, measure="p")


def test_columns_that_share_a_view_in_more_draws_are_adjacent():
    parity = np.equal.outer(np.arange(6) % 2, np.arange(6) % 2)

    class OneView(BaseEstimator):
        column_labels_ = np.zeros(6, int)

        def fit(self, X):
            return self

        def column_dependence(self):
            return pd.DataFrame(np.where(np.eye(6), 1.0, np.where(parity, 0.9, 0.6)))

        def __sklearn_is_fitted__(self):
            return True

    display = DependenceDisplay.from_estimator(OneView())
    assert np.count_nonzero(np.diff(display.dependence.index % 2)) == 1


def test_many_columns_have_evenly_spaced_names_and_no_values():
    frame = pd.DataFrame(np.eye(120))
    display = DependenceDisplay(dependence=frame).plot()
    assert _ticks(display.ax_.yaxis) == [str(3 * i) for i in range(40)]
    display = SurprisalDisplay(surprisal=frame, values=frame).plot()
    assert _ticks(display.ax_.xaxis) == [str(3 * i) for i in range(40)]
    assert len(display.ax_.texts) == 0


def test_rows_with_the_most_surprising_cells_are_first_whatever_the_unit_of_a_column():
    model, X = fitted.views(), fitted.frame_of_views().copy()
    assert X.loc[["row 4", "row 8"]].notna().to_numpy().all()
    X.loc["row 4", "b"] = 8.0
    X.loc["row 8", "c"] = "1" if X.loc["row 8", "c"] == "0" else "0"
    display = SurprisalDisplay.from_estimator(model, X[["c", "b", "a"]].assign(other=0), n_rows=5)
    surprisal = model.surprisal(X)
    pd.testing.assert_frame_equal(display.surprisal, surprisal)
    assert display.excess_.shape == (5, 3)
    assert list(display.excess_.columns) == ["a", "b", "c"]
    assert display.excess_.index[0] == "row 4"
    assert _ticks(display.ax_.yaxis) == list(display.excess_.index)
    excess = surprisal - surprisal.median()
    pd.testing.assert_frame_equal(display.excess_, excess.loc[display.excess_.index])
    assert (np.diff(display.excess_.max(axis=1)) <= 0).all()
    assert display.plot(n_rows=100).excess_.shape == (100, 3)
    moved = SurprisalDisplay(surprisal=surprisal.add([0.0, 7.0, -3.0])).plot(n_rows=5)
    pd.testing.assert_frame_equal(moved.excess_, display.excess_.iloc[:5])


def test_values_are_written_in_cells_that_are_not_missing():
    X = pd.DataFrame({"a": [1.23456, np.nan, 3.0], "b": ["a$b$c", "_", "a long answer"]}, index=[4, 5, 6])
    surprisal = pd.DataFrame({"a": [0.0, np.nan, 30.0], "b": [0.0, 0.0, 0.0]}, index=[4, 5, 6])
    display = SurprisalDisplay(surprisal=surprisal, values=X).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts == ["3", "a long a\N{HORIZONTAL ELLIPSIS}", "1.235", "a$b$c", "_"]
    assert not any(text.get_parse_math() for text in display.ax_.texts)
    assert [text.get_color() for text in display.ax_.texts] == ["white", "0.15", "0.15", "0.15", "0.15"]
    (image,) = display.ax_.images
    assert image.get_clim() == (0.0, 10.0)
    assert image.colorbar.extend == "max"
    (image,) = display.plot(vmax=40.0).ax_.images
    assert (image.get_clim(), image.colorbar.extend) == ((0.0, 40.0), "neither")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_tables_have_their_values(library):
    module = pytest.importorskip(library)
    X = fitted.frame_of_views()
    columns = {name: [None if pd.isna(cell) else cell for cell in X[name]] for name in "cba"}
    table = module.DataFrame(columns) if library == "polars" else module.table(columns)
    display = SurprisalDisplay.from_estimator(fitted.views(), table, n_rows=3)
    expected = SurprisalDisplay.from_estimator(fitted.views(), X, n_rows=3)
    written, values = ([text.get_text() for text in each.ax_.texts] for each in (display, expected))
    assert written == values


def test_arrays_have_numbers_of_rows_and_columns():
    display = SurprisalDisplay(surprisal=pd.DataFrame(np.eye(2)), values=np.eye(2)).plot(n_rows=1)
    assert (_ticks(display.ax_.xaxis), _ticks(display.ax_.yaxis)) == (["0", "1"], ["0"])


@pytest.mark.parametrize("n_rows", [0, 1.5])
def test_numbers_of_rows_are_checked(n_rows):
    with pytest.raises((ValueError, TypeError), match="n_rows"):
        SurprisalDisplay(surprisal=pd.DataFrame(np.eye(2))).plot(n_rows=n_rows)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SurprisalDisplay(surprisal=pd.DataFrame(np.eye(2)), values=np.eye(3)).plot()
