"""Suites for airspeed velocity: measurements to compare revisions.

They use toy data and targets from the scripts of `benchmarks`, which asv does not put on the path.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
