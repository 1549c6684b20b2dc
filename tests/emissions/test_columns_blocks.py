"""Blocks of columns: selectors, names and parameters; tables at predict, samples and files of fitted mixtures."""

import datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector

import skmanifold
from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, NegativeBinomial, Poisson

from .test_columns_reading import BOOLS, FLOATS, INTS, LIBRARIES, STRINGS, N, fit, holed, make_mixture, refused

pytestmark = [
    pytest.mark.filterwarnings("ignore:EM stopped"),
    pytest.mark.filterwarnings("ignore:X (does not have|has) (valid )?feature names"),
]

COLUMNS = {
    "a": holed(FLOATS),
    "b": [2 * x**2 for x in FLOATS],
    "colour": holed(STRINGS),
    "code": INTS,
    "answer": BOOLS,
    "count": [i % 4 for i in range(N)],
}
FRAME = pd.DataFrame(COLUMNS)
SELECTORS = {"numbers": ["a", "b"], "names": ["colour", "code"], "events": ["answer"], "counts": ["count"]}


def blocks(**selectors):
    emissions = {"numbers": Gaussian("diag"), "names": Categorical(), "events": Bernoulli(), "counts": Poisson()}
    return [(name, emissions[name], selectors.get(name, SELECTORS[name])) for name in emissions]


@pytest.fixture(scope="module")
def mixture():
    return fit(FRAME, Columns(blocks()))


@pytest.mark.parametrize(  # the fuzz tests choose columns in all other ways
    "selector", [[0, -5], slice(None, "b"), make_column_selector(dtype_include=float), lambda X: slice(0, 2)]
)
def test_selectors(selector, mixture):
    other = fit(FRAME, Columns(blocks(numbers=selector)))
    np.testing.assert_array_equal(other.predict_proba(FRAME), mixture.predict_proba(FRAME))
    assert [block[2] for block in other.emission_.blocks] == list(SELECTORS.values())
    assert [len(part[0]) for part in other.components_] == [1, 1, 3, 3, 1, 1]


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ({"numbers": ["a"]}, "No block of Columns has the column 'b' of X: add a block, or remove columns from X"),
        ({"numbers": ["a"], "names": ["code"]}, "No block of Columns has the columns 'b', 'colour' of X"),
        ({"numbers": ["a", "b", "code"]}, "Column 'code' of X is in the blocks 'numbers' and 'names'"),
        ({"numbers": ["a", "b", "a"]}, "Column 'a' of X is twice in the block 'numbers'"),
        ({"numbers": []}, "The block 'numbers' of Columns has no columns"),
        ({"numbers": slice("b", "a")}, "The block 'numbers' of Columns has no columns"),
        ({"numbers": [False] * 6}, "The block 'numbers' of Columns has no columns"),
        ({"numbers": ["a", "q"]}, "X has no column 'q', which the block 'numbers' of Columns selects"),
        ({"numbers": slice("a", "q")}, "X has no column 'q'"),
        ({"numbers": ["a", 0.5]}, r"X has no column 0\.5"),
        ({"numbers": ["a", ["b"]]}, r"X has no column \['b'\]"),
        ({"numbers": ["a", True]}, "X has no column True"),
        ({"numbers": [0, 6]}, "X has 6 columns, but the block 'numbers' of Columns has the index 6"),
        ({"numbers": [-7]}, "has the index -7"),
        ({"numbers": [True, True]}, "The mask of the block 'numbers' of Columns has 2 entries, but X has 6 columns"),
        ({"numbers": slice(0.5, 2)}, "The slice of the block 'numbers' of Columns must have names or indices as ends"),
        ({"numbers": slice(0, 2, 0)}, "The slice of the block 'numbers' of Columns"),
        ({"numbers": None}, "The selector of the block 'numbers' of Columns must be names, indices, .*; got None"),
        ({"numbers": {"a", "b"}}, "The selector of the block 'numbers' of Columns must be"),
        ({"numbers": np.array([["a", "b"]])}, "The selector of the block 'numbers' of Columns must be"),
        ({"numbers": lambda X: None}, "The selector of the block 'numbers' of Columns must be"),
    ],
)
def test_selectors_refused(selectors, message):
    refused(lambda: fit(FRAME, Columns(blocks(**selectors))), message)


@pytest.mark.parametrize("selector", ["x", ["x"], slice("x", "y")])
def test_names_need_a_data_frame(selector):
    message = "columns of X have no names, but {} has 'x': pass indices, or a data frame"
    emission = Columns([("numbers", Gaussian("diag"), selector)])
    refused(lambda: fit(np.array([FLOATS]).T, emission), message.format("the block 'numbers' of Columns"))
    refused(lambda: fit(np.array([FLOATS]).T, Columns(count_columns=selector)), message.format("count_columns"))


def test_more_than_five_columns_without_a_block_are_counted():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 9)), columns=list("abcdefghi"))
    refused(lambda: fit(X, Columns([("k", Gaussian("diag"), "a")])), "the columns 'b', .*'f' and 3 others of X")
    mixture = fit(X)
    refused(lambda: mixture.predict(X[["a", "i"]]), "lacks the columns 'b', .*'f' and 2 others of fit")


@pytest.mark.parametrize(
    ("bad", "message", "error"),
    [
        (("numbers", Gaussian()), r"A block of Columns must be a tuple \(name, emission, columns\)", ValueError),
        (["numbers", Gaussian(), ["a"]], "A block of Columns must be a tuple", ValueError),
        ((0, Gaussian(), ["a"]), "A block of Columns must be a tuple", ValueError),
        ("numbers", "A block of Columns must be a tuple", ValueError),
        (None, "A block of Columns must be a tuple", ValueError),
        (("numbers", "gaussian", ["a"]), "The block 'numbers' of Columns needs an instance of an emission", TypeError),
        (("numbers", Gaussian, ["a"]), "needs an instance of an emission", TypeError),
        (("numbers", Columns(), ["a"]), "needs an instance of an emission, .* got another Columns", TypeError),
        (("numbers", ExponentialFamilyMixture(), ["a"]), "needs an instance of an emission", TypeError),
        (("", Gaussian(), ["a"]), "cannot have the name ''", ValueError),
        (("a__b", Gaussian(), ["a"]), "cannot have the name 'a__b'", ValueError),
        (("blocks", Gaussian(), ["a"]), "cannot have the name 'blocks'", ValueError),
        (("names", Gaussian(), ["a"]), "Two blocks of Columns have the name 'names'", ValueError),
    ],
)
def test_blocks_refused(bad, message, error):
    emission = Columns([*blocks()[1:], bad])
    refused(lambda: fit(FRAME, emission), message, error)
    clone(make_mixture(emission))
    assert emission.get_params()["count_columns"] is None


@pytest.mark.parametrize("value", ["manual", None, 5, {}, tuple(blocks())])
def test_blocks_are_auto_or_a_list(value):
    with pytest.raises(ValueError, match="The 'blocks' parameter of Columns must be a str among"):
        fit(FRAME, Columns(value))
    refused(lambda: fit(FRAME, Columns([])), "Columns needs at least one block")


def test_automatic_blocks():
    mixture = fit(FRAME, Columns(count_columns=["count"]))
    assert [(name, type(emission), columns) for name, emission, columns in mixture.emission_.blocks] == [
        ("numbers", Gaussian, ["a", "b", "code"]),
        ("categories", Categorical, ["colour"]),
        ("binary", Bernoulli, ["answer"]),
        ("counts", NegativeBinomial, ["count"]),
    ]
    for selector in ("count", 5, -1, np.arange(6) == 5, slice("count", None), lambda X: ["count"]):
        other = fit(FRAME, Columns(count_columns=selector))
        np.testing.assert_array_equal(other.predict_proba(FRAME), mixture.predict_proba(FRAME))
    refused(lambda: fit(FRAME, Columns(count_columns="q")), "X has no column 'q', which count_columns selects")
    refused(lambda: fit(FRAME, Columns(count_columns=[True])), "The mask of count_columns has 1 entries")


def test_names_that_are_no_strings_are_positions():
    X = pd.DataFrame(FRAME[["a", "b"]].to_numpy(), columns=[7, 9])
    mixture = fit(X)
    assert mixture.emission_.blocks[0][2] == [0, 1]
    assert list(mixture.sample(3)[0].columns) == [0, 1]
    refused(lambda: fit(X.assign(x=np.inf).set_axis([7, 9, 8], axis=1)), "Column 8 of X contains infinity")


def test_parameters_of_blocks():
    emission = Columns(blocks())
    params = emission.get_params()
    assert {"blocks", "count_columns", "numbers"} <= set(params)
    assert {"numbers__mean_precision_prior", "names__category_prior"} <= set(params)
    assert set(emission.get_params(deep=False)) == {"blocks", "count_columns"}
    emission.set_params(numbers__mean_precision_prior=3.0, events=Bernoulli(2.0), names__handle_unknown="ignore")
    assert emission.blocks[0][1].mean_precision_prior == 3.0
    assert emission.blocks[1][1].handle_unknown == "ignore"
    assert emission.blocks[2][1:] == (emission.get_params()["events"], ["answer"])
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        emission.set_params(nothing=1)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        emission.set_params(numbers__nothing=1)
    with pytest.raises(ValueError, match="covariance_type"):
        fit(FRAME, Columns(blocks()).set_params(numbers__covariance_type="unknown"))


def test_parameters_of_blocks_in_a_mixture(mixture):
    other = clone(mixture).set_params(emission__numbers__mean_precision_prior=50.0)
    assert mixture.emission.blocks[0][1].mean_precision_prior != 50.0
    other.fit(FRAME)
    assert other.emission_.blocks[0][1].mean_precision_prior == 50.0
    assert not np.array_equal(other.predict_proba(FRAME), mixture.predict_proba(FRAME))


def test_clone_copies_the_emissions_and_fit_leaves_them():
    emission = Columns(blocks())
    copy = clone(emission)
    assert repr(copy) == repr(emission)
    assert all(a[1] is not b[1] for a, b in zip(copy.blocks, emission.blocks, strict=True))
    before = repr(emission)
    fit(FRAME, emission)
    assert repr(emission) == before
    automatic = Columns()
    fit(FRAME, automatic)
    assert automatic.blocks == "auto"


def test_repr():
    assert repr(Columns()) == "Columns()"
    emission = Columns([("size", Gaussian("diag"), ["a"])])
    assert repr(emission) == "Columns(blocks=[('size', Gaussian(covariance_type='diag'), ['a'])])"
    assert "size" in emission._repr_html_()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_are_found_by_name_at_predict(library, mixture):
    order = ["count", "answer", "b", "colour", "a", "code"]
    X = LIBRARIES[library]({"zzz": [datetime.date(2020, 1, 1)] * N, **{name: COLUMNS[name] for name in order}})
    np.testing.assert_array_equal(mixture.predict_proba(X), mixture.predict_proba(FRAME))
    X = LIBRARIES[library]({name: COLUMNS[name] for name in order[:4]})
    refused(lambda: mixture.predict(X), "X lacks the columns 'a', 'code' of fit: add what is lacking")


def test_tables_at_predict_refused(mixture):
    refused(lambda: mixture.predict(FRAME.assign(a="x")), "Column 'a' of X has strings such as 'x', .* needs numbers")
    refused(lambda: mixture.predict(FRAME.assign(a=pd.Timestamp("2020"))), "Column 'a' of X has the type datetime64")
    refused(lambda: mixture.predict(FRAME.assign(a=np.inf)), "Column 'a' of X contains infinity")
    refused(lambda: mixture.predict(FRAME.assign(answer=2)), "X has 2 in row 0, column 'answer'")
    refused(lambda: mixture.predict(FRAME.assign(count=-1)), "Column 'count' of X has -1, but its emission needs")
    refused(lambda: mixture.predict(pd.concat([FRAME, FRAME[["a"]]], axis=1)), "two columns with the name 'a'")
    refused(lambda: mixture.predict(FRAME.to_numpy()[:, :3]), "X has 3 features, but .* is expecting 6")


@pytest.mark.parametrize(("column", "value"), [("colour", "violet"), ("colour", 1), ("code", 9), ("code", 0.5)])
def test_unknown_categories(column, value, mixture):
    X = FRAME.assign(**{column: value})
    message = (
        f"Column '{column}' of X has the category {value!r}, which did not occur in fit: set handle_unknown='ignore'"
    )
    refused(lambda: mixture.predict(X), message)
    ignoring = fit(FRAME, Columns(blocks()).set_params(names__handle_unknown="ignore"))
    np.testing.assert_array_equal(ignoring.predict_proba(X), ignoring.predict_proba(FRAME.assign(**{column: None})))


def test_unknown_categories_next_to_known_ones():
    ignoring = fit(FRAME, Columns(blocks()).set_params(names__handle_unknown="ignore"))
    cells = [None, "violet", "a", "b", "violet", *COLUMNS["colour"][5:]]
    known = [None if cell == "violet" else cell for cell in cells]
    X, expected = FRAME.assign(colour=cells), ignoring.predict_proba(FRAME.assign(colour=known))
    np.testing.assert_array_equal(ignoring.predict_proba(X), expected)


def test_categories_of_the_type_are_known():
    X = FRAME.assign(colour=pd.Categorical(COLUMNS["colour"], ["d", "c", "b", "a"]))
    mixture = fit(X)
    assert mixture.categories_[2].tolist() == ["d", "c", "b", "a"]
    assert mixture.components_[2].shape == (2, 4)
    assert np.isfinite(mixture.score_samples(FRAME.assign(colour="d"))).all()
    np.testing.assert_array_equal(mixture.predict_proba(FRAME), mixture.predict_proba(X))  # codes are those of fit


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("column", COLUMNS)
def test_columns_without_observed_cells_at_predict(column, library, mixture):
    expected = mixture.predict_proba(FRAME.assign(**{column: np.nan}))
    assert not np.array_equal(expected, mixture.predict_proba(FRAME)) or column in ("code", "colour")
    X = LIBRARIES[library]({**COLUMNS, column: [None] * N})
    np.testing.assert_array_equal(mixture.predict_proba(X), expected)
    if library == "pandas":
        for cells in (pd.NA, pd.Categorical([None] * N), pd.array([None] * N, dtype="Int64")):
            np.testing.assert_array_equal(mixture.predict_proba(FRAME.assign(**{column: cells})), expected)


CELLS = {
    "pandas": lambda X: [X[name].tolist() for name in X.columns],
    "polars": lambda X: [X[name].to_list() for name in X.columns],
    "pyarrow": lambda X: [column.to_pylist() for column in X.columns],
    "numpy": lambda X: X.T.tolist(),
    "list": lambda X: X.T.tolist(),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_samples_are_tables_of_the_same_library(library):
    table = LIBRARIES[library](COLUMNS)
    mixture = fit(table, Columns(count_columns=[5]))
    X, labels = mixture.sample(30, random_state=0)
    assert labels.shape == (30,)
    assert type(X) is (np.ndarray if library == "list" else type(table))
    cells = CELLS[library](X)
    assert [{type(cell) for cell in column} for column in cells] == [{float}, {float}, {str}, {float}, {bool}, {int}]
    assert set(cells[2]) <= set("abc")
    assert min(cells[5]) >= 0
    if library == "pandas":
        assert X.dtypes.map(lambda dtype: dtype.kind).tolist() == ["f", "f", "O", "f", "b", "i"]
        assert X["colour"].cat.categories.tolist() == ["a", "b", "c"]
    if library not in ("numpy", "list"):
        assert list(getattr(X, "column_names", X.columns)) == list(COLUMNS)
    assert mixture.predict_proba(X).shape == (30, 2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_files_of_fitted_mixtures(library, tmp_path):
    X = LIBRARIES[library](COLUMNS)
    mixture = fit(X, Columns(count_columns=[5]))
    mixture.save(tmp_path / "mixture")
    loaded = skmanifold.load(tmp_path / "mixture")
    assert repr(loaded) == repr(mixture)
    assert repr(loaded.emission_) == repr(mixture.emission_)
    np.testing.assert_array_equal(loaded.predict_proba(X), mixture.predict_proba(X))
    for found, expected in zip(loaded.categories_, mixture.categories_, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert type(loaded.sample(2)[0]) is type(mixture.sample(2)[0])


@pytest.mark.parametrize("cells", [pd.Categorical(INTS, [2, 1, 0]), pd.Categorical(BOOLS), np.array(INTS) / 2])
def test_files_keep_categories_that_are_no_strings(cells, tmp_path):
    X = FRAME.assign(code=cells)
    mixture = fit(X, Columns(blocks()))
    mixture.save(tmp_path / "mixture")
    loaded = skmanifold.load(tmp_path / "mixture")
    assert loaded.categories_[3].dtype == mixture.categories_[3].dtype
    np.testing.assert_array_equal(loaded.predict_proba(X), mixture.predict_proba(X))
