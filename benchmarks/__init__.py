"""Benchmarks; `python -m benchmarks.compare` compares skmanifold with other libraries.

The scripts are run as files and import each other by plain names. The folder is put on the path, so that this also
works when it is imported as a package.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
