"""Mixtures and admixtures of every family in shards: the same bytes as in one piece, on clusters that lose workers."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import (
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    SphericalAdmixture,
    VonMisesFisherMixture,
    distributed,
)
from skmanifold.datasets import RowFiles, make_lda_corpus, save_corpus
from skmanifold.emissions import Gaussian
from skmanifold.samplers import EM

from ._fake_cluster import FakeClient, dies
from ._interrupted import cut_short

pytestmark = [pytest.mark.filterwarnings("ignore:EM stopped after"), pytest.mark.usefixtures("impatient")]
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 4000)  # four blocks of 1,024 rows: shards have one or two
REALS = RNG.normal(size=(4000, 2)) + np.array([[-3.0, 0.0], [0.0, 3.0], [3.0, 0.0]])[LABELS]
COUNTS = RNG.poisson(np.array([[1.0, 5.0, 2.0], [5.0, 1.0, 2.0], [2.0, 2.0, 9.0]])[LABELS])
ANSWERS = (RNG.random((4000, 3)) < np.array([[0.1, 0.9, 0.5], [0.9, 0.1, 0.5], [0.5, 0.5, 0.1]])[LABELS]).astype(float)
ANSWERS[RNG.random(ANSWERS.shape) < 0.1] = np.nan
CODES = np.where(RNG.random((4000, 3)) < 0.7, (LABELS[:, None] + np.arange(3)) % 3, RNG.integers(0, 4, (4000, 3))) * 1.0
CODES[RNG.random(CODES.shape) < 0.1] = np.nan
ROWS = {"gaussian": REALS, "poisson": COUNTS, "bernoulli": ANSWERS, "multinomial": COUNTS, "categorical": CODES}
ROWS["negative_binomial"] = COUNTS
CORPUS = make_lda_corpus(60, 30, 3, mean_length=20, random_state=0).data
VECTORS = RNG.normal(size=(30, 4))
TOKENS = {
    "gaussian": (CORPUS, {"word_vectors": VECTORS}),
    "poisson": (CORPUS, {}),
    "bernoulli": (ANSWERS[:60], {}),
    "multinomial": (CORPUS, {}),
    "fractions": (0.3 * CORPUS, {"emission": "poisson"}),
}


def stored(X, folder, cuts):
    """Rows in several files."""
    folder.mkdir(exist_ok=True)
    for start, stop in itertools.pairwise(cuts):
        if sp.issparse(X):
            sp.save_npz(folder / f"{start:04}.npz", X[start:stop])
        else:
            np.save(folder / f"{start:04}.npy", X[start:stop])
    return RowFiles(folder)


def bytes_of(fitted):
    names = ("components_", "log_density_trace_", "doc_topic_prior_", "weights_", "labels_")
    arrays = [getattr(fitted, name) for name in names if hasattr(fitted, name)]
    return [np.hstack(array).tobytes() for array in (*arrays, *fitted.posterior_.values())]


def make_mixture(emission, sampler, **settings):
    return ExponentialFamilyMixture(
        3, emission=emission, sampler=sampler, max_iter=8, thin=2, n_chains=2, random_state=0, **settings
    )


@pytest.mark.covering
@pytest.mark.parametrize("sampler", ["esca", "em", "gibbs"])
@pytest.mark.parametrize("emission", ROWS)
def test_mixture_has_the_same_bytes_on_workers_of_which_one_dies(emission, sampler, tmp_path):
    X = ROWS[emission]
    expected = bytes_of(make_mixture(emission, sampler).fit(X))
    client = dies("make_pass", 17)
    with distributed(client, checkpoint_dir=tmp_path, checkpoint_every=3):
        assert bytes_of(make_mixture(emission, sampler).fit(X)) == expected
    assert len({address for address, method in client.log if method == "make_pass"}) == 3


@pytest.mark.parametrize("emission", ["gaussian", "categorical"])
def test_weights_go_with_their_rows_to_workers_and_into_checkpoints(emission, tmp_path):
    X, weights = ROWS[emission], np.maximum(RNG.normal(1.0, 1.0, 4000), 0.0)  # a sixth of them are zero
    expected = bytes_of(make_mixture(emission, EM(tol=0)).fit(X, sample_weight=weights))
    with distributed(dies("make_pass", 7), checkpoint_dir=tmp_path, checkpoint_every=3):
        assert bytes_of(make_mixture(emission, EM(tol=0)).fit(X, sample_weight=weights)) == expected
    cut_short(make_mixture(emission, EM(tol=0)), X, FakeClient(3), tmp_path, sample_weight=weights)
    others = np.where(weights > 0.0, 1.0, 0.0)
    with distributed(FakeClient(2), checkpoint_dir=tmp_path), pytest.raises(ValueError, match="the data differ"):
        make_mixture(emission, EM(tol=0)).fit(X, sample_weight=others)


@pytest.mark.filterwarnings("ignore:X has fractional counts")
@pytest.mark.covering
@pytest.mark.parametrize("sampler", ["esca", "gibbs"])
@pytest.mark.parametrize("emission", TOKENS)
def test_admixture_has_the_same_bytes_from_files_and_on_workers_of_which_one_dies(emission, sampler, tmp_path):
    X, given = TOKENS[emission]
    settings = {"emission": emission, "sampler": sampler, "max_iter": 8, "thin": 2, "n_chains": 2, **given}
    admixture = ExponentialFamilyAdmixture(3, random_state=0, **settings)

    def bytes_from(rows):
        learned = bytes_of(admixture.fit(rows))
        return [*learned, admixture.transform(X).tobytes(), getattr(admixture, "intensity_rate_", None)]

    expected = bytes_from(X)
    sources = [X, stored(X, tmp_path / "files", (0, 13, 30, 47, 60))]
    if X is CORPUS:
        sources.append(save_corpus(X, tmp_path / "corpus"))
    for number, rows in enumerate(sources):
        assert bytes_from(rows) == expected
        client = dies("make_pass", 17)
        with distributed(client, checkpoint_dir=tmp_path / f"passes-{number}", checkpoint_every=3):
            assert bytes_from(rows) == expected
        assert len({address for address, method in client.log if method == "make_pass"}) == 3


@pytest.mark.short_cases("gaussian-esca", "poisson-gibbs", "bernoulli-em")
@pytest.mark.parametrize(("emission", "sampler"), [*itertools.product(ROWS, ["esca", "gibbs"]), ("bernoulli", "em")])
def test_fit_goes_on_from_the_checkpoint_of_a_mixture(emission, sampler, tmp_path):
    X = ROWS[emission]
    expected = bytes_of(make_mixture(emission, sampler).fit(X))
    cut_short(make_mixture(emission, sampler), X, FakeClient(3), tmp_path)
    client = FakeClient(2)
    with distributed(client, checkpoint_dir=tmp_path, checkpoint_every=3):
        assert bytes_of(make_mixture(emission, sampler).fit(X)) == expected
    n_passes = sum(method == "make_pass" for _, method in client.log)
    assert n_passes == 2 * 2 * 2  # workers, chains, passes after the sixth


@pytest.mark.short_cases("gaussian")
@pytest.mark.parametrize("emission", ROWS)
def test_checkpoint_of_other_rows_is_refused(emission, tmp_path):
    X = ROWS[emission].copy()
    cut_short(make_mixture(emission, "esca"), X, None, tmp_path)
    X[[17, 1500]] = X[[1500, 17]]  # of two shards
    with distributed(FakeClient(2), checkpoint_dir=tmp_path), pytest.raises(ValueError, match="the data differ"):
        make_mixture(emission, "esca").fit(X)


def test_checkpoint_of_another_emission_is_refused_by_name(tmp_path):
    cut_short(make_mixture(Gaussian("full"), "esca"), REALS, None, tmp_path)
    with (
        distributed(None, checkpoint_dir=tmp_path, checkpoint_every=3),
        pytest.raises(ValueError, match=r"of another run: its emission is 'Gaussian\(\)', not"),
    ):
        make_mixture(Gaussian("diag"), "esca").fit(REALS)


def test_estimator_whose_rows_cannot_be_in_shards_says_so():
    with distributed(None), pytest.raises(ValueError, match="SphericalAdmixture does not run in shards"):
        SphericalAdmixture(2, max_iter=4).fit(np.abs(REALS))
    with distributed(None), pytest.raises(ValueError, match="VonMisesFisherMixture does not run in shards"):
        VonMisesFisherMixture(2).fit(REALS)
