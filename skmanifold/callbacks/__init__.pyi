from ._held_out import HeldOutMonitor as HeldOutMonitor
from ._progress import ProgressBar as ProgressBar
