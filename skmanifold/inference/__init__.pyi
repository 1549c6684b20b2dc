from ._distributed import distributed as distributed
from ._draws import Draws as Draws
from ._sample import sample as sample
