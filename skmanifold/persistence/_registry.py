"""Names that classes have in saved files: what is not listed here is neither written nor made."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from .._version import __version__

# By its name in files, where a class is to be found. Names stay for ever; where a class moves or is renamed, what
# stands after the colon changes, and a new class must take a name that no other ever had.
_PLACES = {
    # estimators
    "DPCategoricalMixture": "mixture._dp_categorical:DPCategoricalMixture",
    "ExponentialFamilyAdmixture": "admixture._family_admixture:ExponentialFamilyAdmixture",
    "ExponentialFamilyMixture": "mixture._family_mixture:ExponentialFamilyMixture",
    "OrthogonalSphericalAdmixture": "admixture._orthogonal:OrthogonalSphericalAdmixture",
    "SphericalAdmixture": "admixture._spherical:SphericalAdmixture",
    "StochasticLDA": "admixture._lda:StochasticLDA",
    "SubspaceClassifier": "mixture._subspace_classifier:SubspaceClassifier",
    "SubspaceMixture": "mixture._subspace_mixture:SubspaceMixture",
    "VonMisesFisherMixture": "mixture._von_mises_fisher_mixture:VonMisesFisherMixture",
    # samplers and their settings
    "BlockwiseGMC": "samplers._metropolis:BlockwiseGMC",
    "CVB0": "samplers._sweep:CVB0",
    "CollapsedGibbs": "samplers._sweep:CollapsedGibbs",
    "ColumnGibbs": "samplers._column_gibbs:ColumnGibbs",
    "ConwayWalk": "samplers._conway:ConwayWalk",
    "EM": "samplers._em:EM",
    "ESCA": "samplers._sweep:ESCA",
    "FrameGibbs": "samplers._frame_gibbs:FrameGibbs",
    "GMC": "samplers._metropolis:GMC",
    "GSGNHT": "samplers._geodesic:GSGNHT",
    "GeometricBrownian": "samplers._scir:GeometricBrownian",
    "Gibbs": "samplers._sweep:Gibbs",
    "HMC": "samplers._metropolis:HMC",
    "MeanField": "samplers._variational:MeanField",
    "PolynomialDecay": "samplers._schedule:PolynomialDecay",
    "Recipe": "samplers._recipe:Recipe",
    "SCIR": "samplers._scir:SCIR",
    "SGGMC": "samplers._geodesic:SGGMC",
    "SGHMC": "samplers._hamiltonian:SGHMC",
    "SGLD": "samplers._langevin:SGLD",
    "SGNHT": "samplers._hamiltonian:SGNHT",
    "SGRHMC": "samplers._riemannian:SGRHMC",
    "SGRLD": "samplers._langevin:SGRLD",
    "SVRG": "samplers._gradient:SVRG",
    "Slice": "samplers._slice:Slice",
    "StochasticMeanField": "samplers._variational:StochasticMeanField",
    # emissions and what they become with data
    "Bernoulli": "emissions._bernoulli:Bernoulli",
    "BernoulliFamily": "emissions._bernoulli:BernoulliFamily",
    "DiagonalFamily": "emissions._gaussian_families:DiagonalFamily",
    "FullFamily": "emissions._gaussian_families:FullFamily",
    "Gaussian": "emissions._gaussian:Gaussian",
    "GaussianParameters": "emissions._gaussian_families:GaussianParameters",
    "LinearParameters": "emissions._linear:LinearParameters",
    "Multinomial": "emissions._multinomial:Multinomial",
    "MultinomialFamily": "emissions._multinomial:MultinomialFamily",
    "NormalPrior": "emissions._gaussian_families:NormalPrior",
    "Poisson": "emissions._poisson:Poisson",
    "PoissonFamily": "emissions._poisson:PoissonFamily",
    # what samplers carry
    "Covariance": "samplers._noise:Covariance",
    "DrawStore": "inference._draw_store:DrawStore",
    "GammaTables": "samplers._lazy_rows:GammaTables",
    "GradientMemory": "samplers._gradient:GradientMemory",
    "LazyRows": "samplers._lazy_rows:LazyRows",
    "RowPrior": "samplers._lazy_rows:RowPrior",
    "State": "samplers._base:State",
    "Sticks": "samplers._sticks:Sticks",
    # topics
    "DirichletTokens": "admixture._family_admixture_tokens:DirichletTokens",
    "FamilyTokens": "admixture._family_admixture_tokens:FamilyTokens",
    "LogTopics": "admixture._log_topics:LogTopics",
    "TopicCounts": "admixture._topic_counts:TopicCounts",
    "TopicPrior": "admixture._topic_counts:TopicPrior",
    "TopicStream": "admixture._lda_streams:TopicStream",
    "TopicSums": "admixture._lda_passes:TopicSums",
    "TopicWord": "models._topic_word:TopicWord",
    # spherical topics
    "Alignment": "admixture._spherical_mean_field:Alignment",
    "Concentrations": "admixture._spherical_model:Concentrations",
    "FactorStream": "admixture._spherical_plans:FactorStream",
    "Scales": "admixture._spherical_passes:Scales",
    "SphereFactors": "admixture._spherical_mean_field:SphereFactors",
    "SphericalSetup": "admixture._spherical_setup:Setup",
    "SphericalStream": "admixture._spherical_streams:SphericalStream",
    "StreamChain": "admixture._spherical_streams:StreamChain",
    "TopicStatistics": "admixture._spherical_passes:TopicStatistics",
    # mixtures
    "BlockSums": "utils._block_sums:BlockSums",
    "Blocks": "mixture._stochastic_slice:Blocks",
    "CountedDraw": "mixture._mixture_draws:CountedDraw",
    "DPMixture": "mixture._stochastic_slice:Mixture",
    "DPSums": "mixture._stochastic_slice:Sums",
    "FamilyPosition": "mixture._family_model:Position",
    "MixtureCounts": "mixture._mixture_counts:MixtureCounts",
    "MixtureStream": "mixture._dp_stream:MixtureStream",
    "ParameterDraw": "mixture._mixture_draws:ParameterDraw",
    "Subspaces": "mixture._subspaces:Subspaces",
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
        raise ValueError(f"skmanifold {__version__} knows no class of the name {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(f"{_PACKAGE}.{module}"), attribute)
