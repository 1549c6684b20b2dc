"""Machine code of the kernels is cached by the hash of all sources: numba alone does not see an edit to a callee."""

import hashlib
import os
import tempfile
from pathlib import Path


def _hash_of_sources() -> str:
    package = Path(__file__).parents[1] / "skmanifold"
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


os.environ.setdefault(
    "NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"skmanifold-numba-{os.getuid()}-{_hash_of_sources()}")
)
