"""What a second process pays: it compiles nothing, and importing the package brings in nothing heavy."""

import subprocess
import sys

FIT = """
import sys
from numba.core import event
from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
X = make_lda_corpus(50, 30, 3, random_state=0).data
with event.install_recorder("numba:compile") as recorder:
    for sampler in ("esca", "collapsed_gibbs", "cvb0"):
        lda = StochasticLDA(3, sampler=sampler, max_iter=4, n_jobs=2, random_state=0).fit(X)
        lda.transform(X), lda.score(X)
    StochasticLDA(3, random_state=0).partial_fit(X).partial_fit(X)
print(sum(record.is_start for _, record in recorder.buffer))
"""

IMPORT = """
import sys
import sklearn.decomposition, sklearn.callback, numba, scipy.sparse
before = set(sys.modules)
import skmanifold
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""


def run(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_second_process_does_not_compile():
    run(FIT)
    assert run(FIT) == ["0"]


def test_importing_the_package_brings_in_nothing_but_itself():
    assert set(run(IMPORT)) <= {"skmanifold", "joblib", "scipy", "sklearn", "llvmlite", "numba"}
