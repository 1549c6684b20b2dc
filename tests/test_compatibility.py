"""Every pair of a sampler and a model: it runs, or it is refused in one sentence that names what would work."""

from typing import Protocol, runtime_checkable

import numpy as np
import pytest

from skmanifold import (
    CrossCat,
    DPCategoricalMixture,
    DPMixture,
    ExponentialFamilyAdmixture,
    ExponentialFamilyMixture,
    OrthogonalSphericalAdmixture,
    SphericalAdmixture,
    StochasticLDA,
    SubspaceMixture,
)
from skmanifold.admixture._exponential_family.model import FamilyTokenModel
from skmanifold.admixture._lda.expectation import ExpectationLDA
from skmanifold.admixture._lda.mean_field import MeanFieldLDA
from skmanifold.admixture._lda.minibatch import MinibatchLDA, TopicPasses
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._orthogonal.passes import ConditionalFrames, OrthogonalModel, unit_setup
from skmanifold.admixture._spherical.concentrations import Concentrations
from skmanifold.admixture._spherical.model import SphericalModel
from skmanifold.admixture._spherical.setup import Setup
from skmanifold.admixture._spherical.targets import ConditionalSAM, MinibatchSAM
from skmanifold.admixture._spherical.variational import MeanFieldSAM
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.emissions._bernoulli import BernoulliFamily
from skmanifold.emissions._codes import Table
from skmanifold.emissions._linear import LinearRows
from skmanifold.emissions._multinomial import MultinomialFamily
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._exponential_family.model import FamilyModel
from skmanifold.mixture._memberships import DirichletWeights
from skmanifold.mixture._subspace.family import SubspaceFamily
from skmanifold.mixture._subspace.model import SubspaceModel
from skmanifold.models import (
    CollapsedModel,
    CollapsedVariationalModel,
    IncompatibleError,
    LatentModel,
    Mirror,
    PartiallyCollapsedModel,
    StreamModel,
    check_compatible,
    is_compatible,
    seen_by,
)
from skmanifold.samplers import (
    CVB0,
    EM,
    ESCA,
    GMC,
    GSGNHT,
    HMC,
    SCIR,
    SGGMC,
    SGHMC,
    SGLD,
    SGRHMC,
    SGRLD,
    BaseSampler,
    BlockwiseGMC,
    CollapsedGibbs,
    ColumnGibbs,
    ConwayWalk,
    FrameGibbs,
    Gibbs,
    MeanField,
    Slice,
    StochasticMeanField,
    ViewSlice,
)
from skmanifold.sparse.counts import Counts
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

OF_SUBSPACES = [FrameGibbs, ConwayWalk]
BY_PASSES = [ESCA, EM, Gibbs, CollapsedGibbs, CVB0, Slice, *OF_SUBSPACES]
BY_MINIBATCHES = [SCIR, SGRLD, SGRHMC, SGLD, SGHMC]
SAMPLERS = [*BY_PASSES, *BY_MINIBATCHES]
KEY = np.uint64(7)


def corpus():
    return Counts(np.array([0, 2, 4]), np.array([0, 1, 1, 2], np.int32), np.array([2, 1, 1, 2], np.int32), 3)


def make_lda_model():
    return LDAModel(corpus(), np.full(2, 0.5), TopicPrior(0.5, 2, 3), Workers(1))


def make_expectation_lda():
    return ExpectationLDA(corpus(), np.full(2, 0.5), TopicPrior(0.5, 2, 3), Workers(1))


def make_mean_field_lda():
    return MeanFieldLDA(corpus(), np.full(2, 0.5), TopicPrior(0.5, 2, 3), Workers(1), batch_size=1)


def make_minibatch_lda():
    prior = TopicPrior(0.5, 2, 3)
    options = {"batch_size": 1, "total_samples": 2, "n_sweeps": 4, "n_burn_in": 2}
    return MinibatchLDA(corpus(), np.full(2, 0.5), prior, Workers(1), **options)


def make_mirrored_lda():
    return Mirror(make_minibatch_lda())


def make_dp_model():
    """The same rows as those of a mixture."""
    counts = corpus()
    table = Table.of(counts.indptr, counts.indices, counts.counts, np.array([0, 3]))
    clusters = MultinomialFamily(np.full(3, 0.5), 1).clusters(table)
    return DPModel(clusters, None, (1.0, 1.0), init=2, batch_size=1, workers=Workers(1))


def make_family_model():
    """The same rows as those of a finite mixture."""
    rows = LinearRows(*corpus(), np.zeros(2))
    family = MultinomialFamily(np.full(3, 0.5), 2)
    return FamilyModel(rows, 0, 0.5, family, np.arange(2, dtype=np.int32), Workers(1))


def make_membership_model():
    """Two rows of three answers, each a token."""
    answers = Counts(np.array([0, 3, 6]), np.array([0, 3, 4, 1, 3, 5], np.int32), np.ones(6, np.int32), 6)
    return FamilyTokenModel(answers, np.full(2, 0.5), BernoulliFamily(np.ones(3), np.ones(3), 2), Workers(1))


def make_subspace_model():
    """Six rows of two features, and two subspaces, lines or points."""
    rows = np.random.default_rng(0).standard_normal((6, 2))
    family = SubspaceFamily(np.log(np.full((2, 2), 0.5)), np.zeros(2), 1.0, 1.0, 0.1, 0.5, True)
    return SubspaceModel(rows, family, DirichletWeights(1.0), [np.arange(6, dtype=np.int32) % 2], Workers(1))


def make_spherical_setup():
    """Four directions of three features under two topics."""
    rows, ones = as_directions(np.vstack([np.eye(3), np.ones(3)])), np.ones(2)
    concentrations = Concentrations(5.0, 3.0, 3.0)
    return Setup(rows, ones, np.full(3, 3**-0.5), concentrations, (False, False, False), ones, 0 * ones, False)


def make_spherical_model():
    return SphericalModel(make_spherical_setup(), Workers(1))


def make_minibatch_sam():
    model = make_spherical_model()
    return MinibatchSAM(model, model.init_chains(0), KEY, 2, 1, True)


def make_conditional_sam():
    return ConditionalSAM(make_spherical_model(), np.full((4, 1, 2), 0.5))


def make_orthogonal_model():
    """The same documents under two orthonormal topics."""
    return OrthogonalModel(unit_setup(make_spherical_setup().rows, 2, 1.0, 5.0, False), Workers(1))


def make_minibatch_frames():
    model = make_orthogonal_model()
    return MinibatchSAM(model, model.init_chains(0), KEY, 2, 1, True)


def make_conditional_frames():
    return ConditionalFrames(make_orthogonal_model(), np.full((4, 1, 2), 0.5))


def make_mean_field_sam():
    return MeanFieldSAM(make_spherical_setup(), Workers(1))


def offer(*protocols):
    """A model class that delegates to LDA's, but offers the methods of these protocols only."""
    names = {name for protocol in protocols for name in dir(protocol) if not name.startswith("_")}

    def __init__(self):
        self.model = make_lda_model()

    def delegate(name):
        return lambda self, *args: getattr(self.model, name)(*args)

    title = "Only" + ("And".join(protocol.__name__ for protocol in protocols) or "Nothing")
    return type(title, (), {"__init__": __init__, **{name: delegate(name) for name in names}})


OnlyLatent = offer(LatentModel)
OnlyStream = offer(StreamModel)
OnlyCollapsed = offer(CollapsedModel)
OnlyPartiallyCollapsed = offer(PartiallyCollapsedModel)
OnlyVariational = offer(CollapsedVariationalModel)
BothCollapsed = offer(CollapsedModel, CollapsedVariationalModel)
Nothing = offer()

RUNS = {
    make_lda_model: {ESCA, Gibbs, CollapsedGibbs, CVB0},
    make_expectation_lda: {EM},
    make_minibatch_lda: {SCIR, SGRLD, SGRHMC},
    make_mirrored_lda: {SGRLD, SGRHMC, SGLD, SGHMC},
    make_dp_model: {Slice},
    make_family_model: {ESCA, EM, Gibbs},
    make_membership_model: {ESCA, Gibbs},
    make_subspace_model: set(OF_SUBSPACES),
    OnlyLatent: {ESCA},
    OnlyStream: {ESCA},
    OnlyCollapsed: {CollapsedGibbs},
    OnlyPartiallyCollapsed: {Gibbs},
    OnlyVariational: {CVB0},
    BothCollapsed: {CollapsedGibbs, CVB0},
    Nothing: set(),
}
ON_SPHERES = [GSGNHT, SGGMC, GMC, BlockwiseGMC, MeanField, StochasticMeanField]
ON_FRAMES = [ColumnGibbs, GSGNHT, SGGMC]
OF_TOPICS = [*ON_SPHERES, ColumnGibbs]
RUNS_ON_SPHERES = {
    make_minibatch_sam: {GSGNHT, SGGMC},
    make_conditional_sam: {GSGNHT, SGGMC, GMC, BlockwiseGMC},
    make_mean_field_sam: {MeanField, StochasticMeanField},
    make_mean_field_lda: {MeanField, StochasticMeanField},
    make_minibatch_frames: {GSGNHT, SGGMC},
    make_conditional_frames: {GSGNHT, SGGMC, GMC, BlockwiseGMC, ColumnGibbs},
}
PAIRS = [
    pytest.param(sampler, make_model, sampler in runs, id=f"{sampler.__name__}-{make_model.__name__}")
    for make_model, runs in RUNS.items()
    for sampler in SAMPLERS
]


def test_table_has_every_registered_sampler():
    registered = {
        StochasticLDA: {*SAMPLERS, MeanField, StochasticMeanField} - {Slice, *OF_SUBSPACES},
        ExponentialFamilyMixture: {ESCA, EM, Gibbs},
        ExponentialFamilyAdmixture: {ESCA, Gibbs},
        DPCategoricalMixture: {Slice, SCIR, SGRLD, SGRHMC},
        DPMixture: {Slice, SCIR, SGRLD, SGRHMC},
        CrossCat: {ViewSlice},
        SubspaceMixture: {*OF_SUBSPACES, Slice},
        SphericalAdmixture: set(ON_SPHERES),
        OrthogonalSphericalAdmixture: set(ON_FRAMES),
    }
    assert registered == {estimator: set(estimator._samplers.values()) for estimator in registered}


WORDS = {
    EM: "an ExpectationModel",
    SCIR: "expected counts (expected_counts)",
    **dict.fromkeys([SGRLD, SGRHMC, SGLD, SGHMC], "a gradient of the log density (grad_log_density)"),
}
GEOMETRY = {
    **dict.fromkeys([SGRLD, SGRHMC], "a metric for diffusions"),
    **dict.fromkeys([SGLD, SGHMC], "a flat space without boundary"),
}


def what_is_missing(sampler, model):
    """As the sentence has it."""
    if isinstance(model, MinibatchLDA) and sampler in GEOMETRY:
        return f"{GEOMETRY[sampler]}, which PositiveOrthant does not offer"
    lacks = f"{WORDS.get(sampler, f'a {sampler.requires[0].__name__}')}, which {type(model).__name__} does not offer"
    if sampler in GEOMETRY:  # a model without a manifold
        lacks += f", and {GEOMETRY[sampler]}, which {type(model).__name__} does not offer"
    return lacks


@pytest.mark.parametrize(("sampler", "make_model", "runs"), PAIRS)
def test_pair_runs_or_is_refused_in_one_sentence(sampler, make_model, runs):
    model = make_model()
    if runs:
        check_compatible(sampler(), model, SAMPLERS)
        mover, key = sampler(), KEY
        if sampler in BY_MINIBATCHES:
            key = np.array([KEY], np.uint64)
            state = mover.step(model, mover.init(model, key))
            assert state.n_steps == 1
            return
        state = mover.step(model, mover.init(model, key))
        assert state.n_steps == 1
        assert np.isfinite(state.log_density)
        if sampler in OF_SUBSPACES:
            assert state.latents.shape == (6,)
            assert state.position.parameters.bases.shape[::2] == (2, 2)
            return
        if make_model is make_family_model:
            tokens = state.statistics.total()[1]
        else:
            tokens = state.statistics.categories if sampler is Slice else state.statistics.totals
        assert tokens.sum() == pytest.approx(6)
        return
    fitting = [known.__name__ for known in SAMPLERS if known in RUNS[make_model]]
    advice = f"; samplers that would work: {', '.join(fitting)}" if fitting else ""
    with pytest.raises(IncompatibleError) as refusal:
        check_compatible(sampler(), model, SAMPLERS)
    lacks = what_is_missing(sampler, model)
    assert str(refusal.value) == f"{sampler.__name__} needs {lacks}{advice}."


@pytest.mark.parametrize("make_model", RUNS_ON_SPHERES)
@pytest.mark.parametrize("sampler", [*SAMPLERS, *OF_TOPICS])
def test_pair_on_spheres_runs_or_is_refused_by_the_names_of_those_that_would(sampler, make_model):
    model, fitting = make_model(), [known for known in OF_TOPICS if known in RUNS_ON_SPHERES[make_model]]
    if sampler in fitting:
        check_compatible(sampler(), model, OF_TOPICS)
        if make_model in (make_mean_field_sam, make_mean_field_lda):
            state = sampler().init(model, KEY)
        else:
            topics = np.eye(*model.manifold.shape)[None]
            state = sampler().init(model, np.array([KEY], np.uint64), topics)
        assert sampler().step(model, state).n_steps == 1
        return
    works = ", ".join(known.__name__ for known in fitting)
    with pytest.raises(IncompatibleError, match=f"^{sampler.__name__} needs .*; samplers that would work: {works}"):
        check_compatible(sampler(), model, OF_TOPICS)


@pytest.mark.parametrize("make_model", [make_lda_model, make_dp_model, make_subspace_model])
@pytest.mark.parametrize("sampler", OF_TOPICS)
def test_samplers_on_spheres_suit_no_other_model(sampler, make_model):
    assert not is_compatible(sampler(), make_model())


@pytest.mark.parametrize("sampler", BY_MINIBATCHES)
def test_each_sampler_by_minibatches_is_driven_through_a_pass_in_coordinates_that_suit_it(sampler):
    model = make_minibatch_lda()
    seen = seen_by(sampler(), model)
    assert isinstance(seen, MinibatchLDA if sampler in RUNS[make_minibatch_lda] else Mirror)
    passes = TopicPasses(sampler())
    state = passes.step(model, passes.init(model, KEY))
    assert state.n_steps == 2  # one a document
    assert state.log_density < 0
    assert state.statistics.totals.sum() == pytest.approx(6)
    np.testing.assert_allclose(state.statistics.components.sum(axis=1), 1, rtol=1e-6)


def test_a_sampler_that_suits_neither_model_of_the_estimator_is_refused_before_its_first_step():
    lda = StochasticLDA(2, sampler=HMC())
    with pytest.raises(
        IncompatibleError, match=r"HMC needs .*a log density \(log_density\).*MinibatchLDA .*: SCIR, SGRLD"
    ):
        lda.fit([[1, 2], [2, 1]])
    assert vars(lda).keys() == lda.get_params(deep=False).keys()


def test_stream_model_is_a_latent_model_with_more():
    assert isinstance(OnlyStream(), LatentModel)
    assert not isinstance(OnlyLatent(), StreamModel)


def test_every_missing_protocol_is_named():
    class Both(BaseSampler):
        requires = (LatentModel, CollapsedModel)

    with pytest.raises(
        IncompatibleError, match="Both needs a LatentModel and a CollapsedModel, which OnlyNothing does not offer"
    ):
        check_compatible(Both(), Nothing())
    with pytest.raises(IncompatibleError, match="Both needs a CollapsedModel, which OnlyLatentModel does not offer"):
        check_compatible(Both(), OnlyLatent())


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_estimator_refuses_a_stranger_before_its_first_step_and_stays_unfitted(error):
    @runtime_checkable
    class MindReadingModel(Protocol):
        def read_mind(self): ...

    class Stranger(BaseSampler):
        requires = (MindReadingModel,)

        def init(self, model, key):
            pytest.fail("began although the model lacks what the sampler requires")

    lda = StochasticLDA(2, sampler=Stranger())
    with pytest.raises(
        error,
        match=r"Stranger needs a MindReadingModel, which LDAModel does not offer; .*ESCA, Gibbs, CollapsedGibbs, CVB0",
    ):
        lda.fit([[1, 2], [2, 1]])
    assert vars(lda).keys() == lda.get_params(deep=False).keys()


def test_base_sampler_says_what_a_subclass_must_define():
    with pytest.raises(TypeError, match=r"define init\(model, key\)"):
        BaseSampler().init(make_lda_model(), KEY)
    with pytest.raises(TypeError, match=r"define step\(model, state\)"):
        BaseSampler().step(make_lda_model(), None)
