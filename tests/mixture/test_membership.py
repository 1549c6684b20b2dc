"""Mixtures in the middle of a pipeline: rows become membership probabilities."""

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold import DPCategoricalMixture, ExponentialFamilyMixture, VonMisesFisherMixture

from .exponential_family._mixtures import small_counts, small_table

SHORT = {"max_iter": 12, "random_state": 0}


def dense_counts():
    counts = small_counts().toarray()
    return counts[counts.any(axis=1)][:, counts.any(axis=0)]


def test_names_of_categories_and_a_search_go_through_a_pipeline_with_a_mixture_within():
    answers = pd.DataFrame(np.array([*"abc", np.nan], object)[np.nan_to_num(small_table(), nan=3).astype(int)])
    answers.columns = [f"q{j}" for j in range(answers.shape[1])]
    y = np.random.default_rng(0).random(len(answers)) < 0.5
    mixture = DPCategoricalMixture("categorical", init=5, max_iter=8, handle_unknown="ignore", random_state=0)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    pipeline = make_pipeline(encoder, mixture, LogisticRegression()).set_output(transform="pandas")
    grid = {"dpcategoricalmixture__category_prior": [0.2, 2.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(answers, y)
    assert search.predict_proba(answers).shape == (len(answers), 2)
    fitted = search.best_estimator_
    assert fitted[-1].feature_names_in_.tolist() == fitted[1].get_feature_names_out().tolist()


def test_memberships_of_several_mixtures_stand_side_by_side():
    X = dense_counts()
    union = FeatureUnion(
        [("a", ExponentialFamilyMixture(3, **SHORT)), ("b", VonMisesFisherMixture(3, random_state=0))]
    ).fit(X)
    assert union.transform(X).shape == (len(X), 6)
    assert union.get_feature_names_out()[3] == "b__vonmisesfishermixture0"


def test_a_stream_has_the_columns_of_the_components_that_it_has_now():
    X = sp.csr_array(small_counts())
    mixture = DPCategoricalMixture(sampler="scir", init=5, max_iter=8, total_samples=100, random_state=0)
    for first in (0, 25):
        mixture.partial_fit(X[first : first + 25])
        assert mixture.transform(X).shape[1] == len(mixture.get_feature_names_out()) == mixture.n_components_


def test_weights_of_rows_go_to_the_fit_alone():
    X = dense_counts()
    weights = np.arange(len(X)) % 3.0
    mixture = VonMisesFisherMixture(2, random_state=0)
    fitted = clone(mixture).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(mixture.fit_transform(X, sample_weight=weights), fitted.transform(X))
