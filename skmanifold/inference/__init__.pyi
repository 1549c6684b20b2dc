from ._distributed_fits.session import distributed as distributed
from ._draws import Draws as Draws
from ._sample import sample as sample
