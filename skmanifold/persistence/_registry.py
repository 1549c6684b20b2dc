"""Names of classes in saved files; objects of other classes are neither saved nor loaded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from sklearn.base import BaseEstimator

from .._version import __version__

# In files, classes have their names without modules, which no two of them share. Estimators, samplers and emissions are
# the public ones of these packages.
_PUBLIC = "", ".samplers", ".emissions"
# The others are found by their modules. If a class is moved, its module changes here and files do not; names in a
# release never change, and a new class must get a name that no release has used.
_PRIVATE = {
    "admixture._exponential_family.model": "FamilyTokens",
    "admixture._hdp.births": "TopicWeights",
    "admixture._hdp.model": "HDPPosition HDPStatistics",
    "admixture._lda.minibatch": "SumsOfPasses TopicStream",
    "admixture._spherical.fit_strategies": "FactorStream",
    "admixture._spherical.model": "Concentrations",
    "admixture._spherical.passes": "Scales TopicStatistics",
    "admixture._spherical.setup": "Setup",
    "admixture._spherical.streams": "SphericalStream StreamChain",
    "admixture._spherical.variational": "Alignment SphereFactors",
    "admixture._tokens.log_topic_word": "LogTopics",
    "admixture._tokens.topic_counts": "Seeds TopicCounts TopicPrior",
    "emissions._bernoulli": "BernoulliFamily",
    "emissions._categorical": "CategoricalFamily",
    "emissions._categories": "CategoryCounts",
    "emissions._columns.family": "ColumnParameters ColumnsFamily",
    "emissions._columns.layout": "BlockReader ColumnLayout",
    "emissions._gaussian.base": "GaussianParameters",
    "emissions._gaussian.diagonal": "DiagonalFamily DiagonalSums",
    "emissions._gaussian.full": "FullFamily FullSums ProportionalFamily",
    "emissions._gaussian.tied": "TiedFamily TiedSums",
    "emissions._gaussian.hyperparameters": "Hyperprior NormalPrior",
    "emissions._gaussian.transforms": "YeoJohnson",
    "emissions._linear": "LinearCounts LinearParameters",
    "emissions._multinomial": "MultinomialFamily",
    "emissions._negative_binomial": "Dispersions NegativeBinomialFamily NegativeBinomialParameters",
    "emissions._poisson": "PoissonFamily",
    "emissions._spikes": "SpikedFamily",
    "emissions._statistics": "JoinedStatistics",
    "emissions._von_mises_fisher.family": "DirectionSums VonMisesFisherFamily VonMisesFisherParameters",
    "emissions._von_mises_fisher.kernels": "ConcentrationPrior",
    "inference._draw_store": "DrawStore",
    "mixture._dirichlet_process.fit_strategy": "MixtureStream",
    "mixture._merging": "Merges",
    "mixture._dirichlet_process.stochastic_slice": "Blocks Instantiated StochasticSliceState StreamState",
    "mixture._memberships": "ParameterDraw PartitionDraw Position",
    "mixture._subspace.family": "SubspaceFamily Subspaces",
    "mixture._subspace.moments": "StreamMoments",
    "mixture._views.draws": "ViewDraw ViewsDraw",
    "mixture._views.inference": "ViewClusters",
    "numerics.block_sums": "BlockSums",
    "random._log_gamma_ziggurat": "GammaTables",
    "samplers._cir.lazy_cir_rows": "LazyRows RowPrior",
    "samplers._cir.scir": "LogPositionState SCIRRowsState",
    "samplers._density.gradient_base": "GradientMemory GradientState MomentumState ThermostatState",
    "samplers._density.noise_covariance": "Covariance",
    "samplers._latent.em": "EMState",
    "samplers._latent.stick_breaking": "Sticks",
    "samplers._states": "State",
    "topics.topic_word": "TopicWord",
}
_PACKAGE = __package__.rpartition(".")[0]


def name_of(cls: type) -> str | None:
    """The name of a class in files; None if it has none."""
    try:
        return cls.__name__ if class_of(cls.__name__) is cls else None
    except ValueError:
        return None


@cache
def class_of(name: str) -> Any:
    """The class of a name in files.

    Raises
    ------
    ValueError
        If there is none.
    """
    for module, names in _PRIVATE.items():
        if name in names.split():
            return getattr(import_module(f"{_PACKAGE}.{module}"), name)
    for package in _PUBLIC:
        public = import_module(_PACKAGE + package)
        found = getattr(public, name) if name in public.__all__ else None
        if isinstance(found, type) and issubclass(found, BaseEstimator):
            return found
    raise ValueError(f"skmanifold {__version__} has no class with the name {name!r}")
