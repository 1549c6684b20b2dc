"""With a scikit-learn before 1.9, estimators refuse callbacks in one sentence, and everything else works."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from importlib.util import find_spec
import numpy as np
from sklearn.utils import metaestimators
if find_spec("sklearn.callback"):
    import sklearn.callback
    hidden, sys.modules["sklearn.callback"] = sklearn.callback, None  # as before 1.9
    import skmanifold.utils._sklearn
    sys.modules["sklearn.callback"] = hidden  # scikit-learn itself needs it
from skmanifold import *
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

X = np.random.default_rng(0).normal(size=(40, 3))
mixture = ExponentialFamilyMixture(emission="gaussian", max_iter=4, verbose=2, random_state=0)
GridSearchCV(clone(mixture), {"n_components": [1, 2]}, cv=2).fit(X)
VonMisesFisherMixture(2, max_iter=2, tol=0, verbose=1, random_state=0).fit(X)
SubspaceClassifier(SubspaceMixture(1, max_iter=4, random_state=0)).fit(X, X[:, 0] > 0).predict(X)
assert not [name for name in vars(mixture) if "callback" in name]
for refused in (mixture.set_callbacks, lambda: mixture.set_callbacks(print), HeldOutMonitor, ProgressBar):
    try:
        refused()
    except ImportError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def printed():
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_fits_print_their_progress(printed):
    assert printed[0].startswith("pass 2 of 4: log density ")
    assert sum(line.startswith("pass ") for line in printed) == 2 * 5  # of two models on two folds, and the last fit
    assert sum(line.startswith("iteration ") for line in printed) == 2


def test_callbacks_are_refused_in_one_sentence_that_names_the_version(printed):
    sentences = printed[-4:]
    assert len(set(sentences)) == 1
    assert sentences[0].startswith("Callbacks need scikit-learn 1.9 or later, but the installed version is ")
    assert sentences[0].count(". ") == 0
