"""What a second process pays: it compiles nothing, and importing the package brings in nothing heavy."""

import subprocess
import sys

import pytest

FIT = """
import sys
from numba.core import event
from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus
X = make_lda_corpus(50, 30, 3, random_state=0).data
with event.install_recorder("numba:compile") as recorder:
    for sampler in ("esca", "collapsed_gibbs", "cvb0", "em", "vb", "svb"):
        lda = StochasticLDA(3, sampler=sampler, max_iter=4, n_jobs=2, random_state=0).fit(X)
        lda.transform(X), lda.score(X)
    StochasticLDA(3, random_state=0).partial_fit(X).partial_fit(X)
print(sum(record.is_start for _, record in recorder.buffer))
"""

SAMPLE = """
from numba.core import event
from skmanifold import sample
from skmanifold.manifolds import Sphere, Stiefel
from skmanifold.models import Density, circle, gamma, sparse_dirichlet, standard_normal
from skmanifold.samplers import SGHMC, SGGMC
with event.install_recorder("numba:compile") as recorder:
    for name in ("hmc", "sgld", "sghmc", "sgnht", "sgrld", "sgrhmc", "gmc", "sggmc", "gsgnht"):
        sample(standard_normal(2), name, n_draws=2, n_chains=2, random_state=0)
    sample(standard_normal(2), SGHMC(scheme="euler", noise_covariance=0.1), n_draws=2, random_state=0)
    for manifold in (Sphere(3), Sphere(3, n_points=2), Stiefel(4, 2)):
        for scheme in ("ou", "aboba", "baoab"):
            sample(Density(manifold, lambda x: 0 * x), SGGMC(scheme=scheme), n_draws=2, random_state=0)
    sample(gamma([0.5]), "scir", n_draws=2, random_state=0)
    sample(sparse_dirichlet(), "scir", n_draws=2, batch_size=10, random_state=0)
print(sum(record.is_start for _, record in recorder.buffer))
"""

IMPORT = """
import sys
import asyncio, concurrent.futures.thread, fractions, multiprocessing.connection
import sklearn.decomposition, sklearn.pipeline, numba, scipy.sparse
before = set(sys.modules)
from skmanifold import *
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""


def run(code):
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.extended
@pytest.mark.parametrize("code", [FIT, SAMPLE])
def test_a_second_process_does_not_compile(code):
    assert ["0"] in (run(code) for _ in range(2))  # the first may, where the cache is empty


@pytest.mark.extended
def test_importing_the_package_brings_in_nothing_but_itself():
    assert set(run(IMPORT)) <= {"skmanifold", "joblib", "scipy", "sklearn", "llvmlite", "numba", "lazy_loader"}
