"""Benchmarks; `python -m benchmarks.compare` sets the library beside its peers.

The scripts are run as files and import each other by plain names. So that they can when this folder is a package, it is
put on the path.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
