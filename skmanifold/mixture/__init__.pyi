from ._conditional import Conditional as Conditional
from ._dirichlet_process.estimator import DPMixture as DPMixture
from ._dp_categorical import DPCategoricalMixture as DPCategoricalMixture
from ._exponential_family.estimator import ExponentialFamilyMixture as ExponentialFamilyMixture
from ._imputer import MixtureImputer as MixtureImputer
from ._subspace.classifier import SubspaceClassifier as SubspaceClassifier
from ._subspace.estimator import SubspaceMixture as SubspaceMixture
from ._von_mises_fisher import VonMisesFisherMixture as VonMisesFisherMixture
