"""What is loaded is what was saved: every estimator, with every sampler, however it was fitted."""

import copy
import os
import pickle
import zipfile

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import skmanifold
from skmanifold import StochasticLDA
from skmanifold.emissions._registry import ROW_FAMILIES
from skmanifold.persistence import SavesItself, load
from skmanifold.persistence._registry import class_of, name_of

from ._fitted import CASES, COUNTS, NAMES, SHORT, answers, assert_same, fitted

# What two samplers say of the default topic_word_prior, and nothing else
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:SGR(LD|HMC) does not draw from the posterior if topic_word_prior is below 1/2:UserWarning"
    ),
    pytest.mark.filterwarnings("ignore:EM stopped after"),
]
EXTENDED = [f"dp-rows-{emission}" for emission in ("multinomial", "negative_binomial", "poisson", "von_mises_fisher")]


def by_name(names):
    marked = [pytest.param(name, marks=pytest.mark.extended) if name in EXTENDED else name for name in names]
    return pytest.mark.parametrize("name", marked)


STREAMS = [name for name, (_, _, steps) in CASES.items() if "partial_fit" in steps]


@pytest.fixture
def there_and_back(tmp_path):
    def call(estimator, **options):
        SavesItself.save(estimator, tmp_path / "estimator", **options)
        return load(tmp_path / "estimator")

    return call


@by_name(CASES)
def test_loaded_estimator_is_the_same_in_every_attribute(name, there_and_back):
    estimator = fitted(name)
    loaded = there_and_back(estimator)
    assert_same(estimator, loaded)
    assert repr(loaded) == repr(estimator)
    assert_same(estimator.get_params(deep=False), loaded.get_params(deep=False))
    assert_same(clone(estimator), clone(loaded))
    assert_same(estimator, pickle.loads(pickle.dumps(loaded)))


@by_name(STREAMS)
def test_stream_goes_on_to_the_same_bytes(name, there_and_back):
    estimator = fitted(name)
    X = CASES[name][1]
    loaded, same = there_and_back(estimator), copy.deepcopy(estimator)
    assert_same(same.partial_fit(X[::-1]).partial_fit(X), loaded.partial_fit(X[::-1]).partial_fit(X))


@pytest.mark.parametrize("mmap_mode", ["r", pytest.param("r+", marks=pytest.mark.extended)])
@by_name(CASES)
def test_mapped_model_is_like_the_one_in_memory(name, mmap_mode, tmp_path):
    estimator, (_, X, steps) = fitted(name), CASES[name]
    joblib.dump(estimator, tmp_path / "pickle")
    stored = (tmp_path / "pickle").read_bytes()
    mapped = joblib.load(tmp_path / "pickle", mmap_mode=mmap_mode)
    assert_same(estimator, mapped)  # plain arrays
    SavesItself.save(mapped, tmp_path / "estimator")
    if "partial_fit" in steps:
        assert_same(copy.deepcopy(estimator).partial_fit(X), mapped.partial_fit(X))
    elif steps:
        assert_same(answers(estimator, X), answers(mapped, X))
    assert (tmp_path / "pickle").read_bytes() == stored


def test_model_in_read_only_buffers_and_with_mapped_parameters(tmp_path):
    estimator = fitted("StochasticLDA-scir-stream")
    buffers: list = []
    pickled = pickle.dumps(estimator, protocol=5, buffer_callback=buffers.append)
    received = pickle.loads(pickled, buffers=[bytes(buffer) for buffer in buffers])
    assert_same(copy.deepcopy(estimator).partial_fit(COUNTS), received.partial_fit(COUNTS))
    np.save(tmp_path / "prior.npy", np.full(6, 0.5))
    prior = np.load(tmp_path / "prior.npy", mmap_mode="r")
    lda = StochasticLDA(3, sampler="scir", topic_word_prior=prior, doc_topic_prior=prior[:3], **SHORT)
    lda.partial_fit(COUNTS).partial_fit(COUNTS).fit(COUNTS).save(tmp_path / "estimator")
    assert_same(load(tmp_path / "estimator").components_, lda.components_)


@pytest.mark.parametrize("name", ["data-frame", "StochasticLDA-scir-stream", "classes"])
def test_compressed_file_is_smaller_and_says_the_same(name, there_and_back, tmp_path):
    estimator = fitted(name)
    SavesItself.save(estimator, tmp_path / "plain")
    assert_same(estimator, there_and_back(estimator, compress=True))
    assert os.path.getsize(tmp_path / "estimator") < 0.8 * os.path.getsize(tmp_path / "plain")


def test_same_estimator_gives_the_same_bytes(tmp_path):
    for path in ("one", "other"):
        SavesItself.save(fitted("data-frame"), tmp_path / path)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_array_that_is_held_twice_is_stored_once_and_loaded_once(there_and_back, tmp_path):
    estimator = clone(fitted("data-frame"))
    estimator.one_, estimator.other_ = [np.arange(3.0)] * 2
    estimator.equal_ = np.arange(3.0)
    loaded = there_and_back(estimator)
    assert loaded.one_ is loaded.other_
    assert loaded.equal_ is not loaded.one_
    with zipfile.ZipFile(tmp_path / "estimator") as archive:
        assert archive.namelist() == ["estimator.json", "array0.npy", "array1.npy"]


def test_numpy_opens_the_file_too(tmp_path):
    lda = fitted("data-frame")
    SavesItself.save(lda, tmp_path / "lda.npz")
    with np.load(tmp_path / "lda.npz") as arrays:
        assert any(np.array_equal(arrays[name], lda.log_density_trace_) for name in arrays if name.startswith("array"))
        assert b'"StochasticLDA"' in arrays["estimator.json"]


class Callback:
    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context, **options): ...

    def on_fit_task_end(self, estimator, context, **options): ...


def test_callbacks_are_not_saved(there_and_back):
    estimator = StochasticLDA(3, **SHORT).set_callbacks(Callback()).fit(COUNTS)
    loaded = there_and_back(estimator)
    assert "_skl_callbacks" in vars(estimator)
    assert "_skl_callbacks" not in vars(loaded)
    assert_same(estimator.set_callbacks(), loaded)


def test_estimator_can_be_saved_by_a_callback_while_it_is_fitted(tmp_path):
    class Keeps(Callback):
        def on_fit_task_end(self, estimator, context, **options):
            SavesItself.save(estimator, tmp_path / "estimator")

    StochasticLDA(3, **SHORT).set_callbacks(Keeps()).fit(COUNTS)
    assert repr(load(tmp_path / "estimator")) == repr(StochasticLDA(3, **SHORT))


def test_random_state_of_a_parameter_goes_on_where_it_was(there_and_back):
    random_state = np.random.RandomState(3)
    random_state.normal(size=3)  # leaves half of a pair
    lda = StochasticLDA(3, **{**SHORT, "random_state": random_state})
    loaded = there_and_back(lda)
    assert_same(lda.fit(COUNTS), loaded.fit(COUNTS))


@pytest.mark.parametrize("name", [name for name in skmanifold.__all__ if hasattr(getattr(skmanifold, name), "fit")])
def test_every_estimator_saves_itself(name, tmp_path):
    estimator = getattr(skmanifold, name)()
    estimator.save(tmp_path / "estimator")
    assert_same(estimator, skmanifold.load(tmp_path / "estimator"))


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_of_the_class_that_has_it(name):
    assert name_of(class_of(name)) == name


@pytest.mark.parametrize("family", ROW_FAMILIES.values(), ids=ROW_FAMILIES)
def test_families_of_rows_have_names_in_files(family):
    assert class_of(family.__name__) is family


def test_no_two_classes_have_one_name():
    assert len(set(NAMES)) == len(NAMES)
