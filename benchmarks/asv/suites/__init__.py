"""Suites for airspeed velocity: measurements to compare revisions.

They use toy data and targets from the scripts two folders above, which find each other by plain names.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
