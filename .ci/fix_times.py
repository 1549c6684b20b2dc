"""Give the package's files one time of change, so that numba accepts machine code which an earlier run has cached.

numba compares times of change, and a fresh checkout has new ones. This is safe only where the folder of the cache is
kept under a hash of all sources, as in the workflows: with fixed times numba does not see an edit. Run
`python .ci/fix_times.py`.
"""

import os
from pathlib import Path

for path in (Path(__file__).resolve().parents[1] / "skmanifold").rglob("*.py"):
    os.utime(path, (1_600_000_000, 1_600_000_000))
