"""Names of classes in saved files; objects of other classes are neither saved nor loaded."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from .._version import __version__

# The location of each class by its name in files. Names in a release never change. If a class is moved or renamed, only
# the location changes; a new class must get a name that no release has used.
_PLACES = {
    # estimators
    "DPCategoricalMixture": "mixture._dp_categorical:DPCategoricalMixture",
    "DPMixture": "mixture._dirichlet_process.estimator:DPMixture",
    "ExponentialFamilyAdmixture": "admixture._exponential_family.estimator:ExponentialFamilyAdmixture",
    "ExponentialFamilyMixture": "mixture._exponential_family.estimator:ExponentialFamilyMixture",
    "HDPAdmixture": "admixture._hdp.estimator:HDPAdmixture",
    "MixtureImputer": "mixture._imputation.imputer:MixtureImputer",
    "OrthogonalSphericalAdmixture": "admixture._orthogonal.estimator:OrthogonalSphericalAdmixture",
    "SphericalAdmixture": "admixture._spherical.estimator:SphericalAdmixture",
    "StochasticLDA": "admixture._lda.estimator:StochasticLDA",
    "SubspaceClassifier": "mixture._subspace.classifier:SubspaceClassifier",
    "SubspaceMixture": "mixture._subspace.estimator:SubspaceMixture",
    "VonMisesFisherMixture": "mixture._von_mises_fisher.estimator:VonMisesFisherMixture",
    # samplers and their settings
    "BlockwiseGMC": "samplers._density.metropolis:BlockwiseGMC",
    "CVB0": "samplers._latent.cvb0:CVB0",
    "CollapsedGibbs": "samplers._latent.gibbs:CollapsedGibbs",
    "ColumnGibbs": "samplers._density.column_gibbs:ColumnGibbs",
    "ConwayWalk": "samplers._latent.conway_walk:ConwayWalk",
    "EM": "samplers._latent.em:EM",
    "ESCA": "samplers._latent.esca:ESCA",
    "FrameGibbs": "samplers._latent.subspace_gibbs:FrameGibbs",
    "GMC": "samplers._density.metropolis:GMC",
    "GSGNHT": "samplers._density.geodesic:GSGNHT",
    "GeometricBrownian": "samplers._cir.scir:GeometricBrownian",
    "Gibbs": "samplers._latent.gibbs:Gibbs",
    "HMC": "samplers._density.metropolis:HMC",
    "NUTS": "samplers._density.nuts:NUTS",
    "MeanField": "samplers._latent.mean_field:MeanField",
    "PolynomialDecay": "samplers._schedule:PolynomialDecay",
    "Recipe": "samplers._density.recipe:Recipe",
    "SCIR": "samplers._cir.scir:SCIR",
    "SGGMC": "samplers._density.geodesic:SGGMC",
    "SGHMC": "samplers._density.hamiltonian:SGHMC",
    "SGLD": "samplers._density.langevin:SGLD",
    "SGNHT": "samplers._density.hamiltonian:SGNHT",
    "SGRHMC": "samplers._density.riemannian:SGRHMC",
    "SGFS": "samplers._density.fisher_scoring:SGFS",
    "SGRLD": "samplers._density.langevin:SGRLD",
    "SVRG": "samplers._density.gradient_base:SVRG",
    "Slice": "samplers._latent.slice:Slice",
    "StochasticMeanField": "samplers._latent.mean_field:StochasticMeanField",
    # emissions, and emissions with the scale of the data
    "Bernoulli": "emissions._bernoulli:Bernoulli",
    "BernoulliFamily": "emissions._bernoulli:BernoulliFamily",
    "Categorical": "emissions._categorical:Categorical",
    "CategoricalFamily": "emissions._categorical:CategoricalFamily",
    "BlockReader": "emissions._columns.layout:BlockReader",
    "ColumnLayout": "emissions._columns.layout:ColumnLayout",
    "ColumnParameters": "emissions._columns.family:ColumnParameters",
    "Columns": "emissions._columns.emission:Columns",
    "ColumnsFamily": "emissions._columns.family:ColumnsFamily",
    "DiagonalFamily": "emissions._gaussian.diagonal:DiagonalFamily",
    "FullFamily": "emissions._gaussian.full:FullFamily",
    "Gaussian": "emissions._gaussian.emission:Gaussian",
    "GaussianParameters": "emissions._gaussian.base:GaussianParameters",
    "LinearParameters": "emissions._linear:LinearParameters",
    "Multinomial": "emissions._multinomial:Multinomial",
    "MultinomialFamily": "emissions._multinomial:MultinomialFamily",
    "Dispersions": "emissions._negative_binomial.dispersions:Dispersions",
    "NegativeBinomial": "emissions._negative_binomial.emission:NegativeBinomial",
    "NegativeBinomialFamily": "emissions._negative_binomial.family:NegativeBinomialFamily",
    "NegativeBinomialParameters": "emissions._negative_binomial.family:NegativeBinomialParameters",
    "NormalPrior": "emissions._gaussian.base:NormalPrior",
    "Poisson": "emissions._poisson:Poisson",
    "PoissonFamily": "emissions._poisson:PoissonFamily",
    "TiedFamily": "emissions._gaussian.tied:TiedFamily",
    "ConcentrationPrior": "emissions._von_mises_fisher.concentrations:ConcentrationPrior",
    "VonMisesFisher": "emissions._von_mises_fisher.emission:VonMisesFisher",
    "VonMisesFisherFamily": "emissions._von_mises_fisher.family:VonMisesFisherFamily",
    "VonMisesFisherParameters": "emissions._von_mises_fisher.family:VonMisesFisherParameters",
    # states of samplers
    "Covariance": "samplers._density.noise_covariance:Covariance",
    "DrawStore": "inference._draw_store:DrawStore",
    "EMState": "samplers._latent.em:EMState",
    "GammaTables": "random._log_gamma_ziggurat:GammaTables",
    "GradientMemory": "samplers._density.gradient_base:GradientMemory",
    "GradientState": "samplers._density.gradient_base:GradientState",
    "LazyRows": "samplers._cir.lazy_cir_rows:LazyRows",
    "LogPositionState": "samplers._cir.scir:LogPositionState",
    "MomentumState": "samplers._density.gradient_base:MomentumState",
    "RowPrior": "samplers._cir.lazy_cir_rows:RowPrior",
    "SCIRRowsState": "samplers._cir.scir_by_rows:SCIRRowsState",
    "State": "samplers._states:State",
    "Sticks": "samplers._latent.stick_breaking:Sticks",
    "ThermostatState": "samplers._density.gradient_base:ThermostatState",
    # topics
    "FamilyTokens": "admixture._exponential_family.model:FamilyTokens",
    "TopicSeeds": "admixture._tokens.seeds:Seeds",
    "LogTopics": "admixture._tokens.log_topic_word:LogTopics",
    "HDPPosition": "admixture._hdp.model:HDPPosition",
    "HDPStatistics": "admixture._hdp.model:HDPStatistics",
    "TopicWeights": "admixture._hdp.weights:TopicWeights",
    "TopicCounts": "admixture._tokens.topic_counts:TopicCounts",
    "TopicPrior": "admixture._tokens.topic_counts:TopicPrior",
    "TopicStream": "admixture._lda.minibatch_passes:TopicStream",
    "SumsOfPasses": "admixture._lda.minibatch_passes:SumsOfPasses",
    "TopicWord": "topics.topic_word:TopicWord",
    # spherical topics
    "Alignment": "admixture._spherical.variational:Alignment",
    "Concentrations": "admixture._spherical.model:Concentrations",
    "FactorStream": "admixture._spherical.fit_strategies:FactorStream",
    "Scales": "admixture._spherical.passes:Scales",
    "SphereFactors": "admixture._spherical.variational:SphereFactors",
    "SphericalSetup": "admixture._spherical.setup:Setup",
    "SphericalStream": "admixture._spherical.streams:SphericalStream",
    "StreamChain": "admixture._spherical.streams:StreamChain",
    "TopicStatistics": "admixture._spherical.passes:TopicStatistics",
    # mixtures
    "BlockSums": "numerics.block_sums:BlockSums",
    "Blocks": "mixture._dirichlet_process.stochastic_slice:Blocks",
    "CategoryCounts": "emissions._categories.family:CategoryCounts",
    "DiagonalSums": "emissions._gaussian.diagonal:DiagonalSums",
    "FamilyPosition": "mixture._memberships.finite:Position",
    "PartitionDraw": "mixture._memberships.process:PartitionDraw",
    "FullSums": "emissions._gaussian.full:FullSums",
    "JoinedStatistics": "emissions._statistics:JoinedStatistics",
    "DirectionSums": "emissions._von_mises_fisher.family:DirectionSums",
    "TiedSums": "emissions._gaussian.tied:TiedSums",
    "LinearCounts": "emissions._feature_family:LinearCounts",
    "MixtureStream": "mixture._dirichlet_process.stream:MixtureStream",
    "DPState": "mixture._dirichlet_process.stochastic_slice:StochasticSliceState",
    "DPStreamMixture": "mixture._dirichlet_process.stochastic_slice:Instantiated",
    "DPStreamState": "mixture._dirichlet_process.stochastic_slice:StreamState",
    "ParameterDraw": "mixture._memberships.process:ParameterDraw",
    "Subspaces": "mixture._subspace.family:Subspaces",
    "SubspaceFamily": "mixture._subspace.family:SubspaceFamily",
}
_PACKAGE = __package__.rpartition(".")[0]
_NAMES = {f"{_PACKAGE}.{place.replace(':', '.')}": name for name, place in _PLACES.items()}


def name_of(cls: type) -> str | None:
    """The name of a class in files; None if it has none."""
    return _NAMES.get(f"{cls.__module__}.{cls.__qualname__}")


@cache
def class_of(name: str) -> Any:
    """The class of a name in files.

    Raises
    ------
    ValueError
        If there is none.
    """
    if name not in _PLACES:
        raise ValueError(f"skmanifold {__version__} has no class with the name {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"{_PACKAGE}.{module}"), attribute)
