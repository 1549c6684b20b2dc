from ._distributed_fits.session import distributed as distributed
from ._draws import Draws as Draws
from ._sample import TunedStepSize as TunedStepSize
from ._sample import sample as sample
from ._sample import tune_step_size as tune_step_size
