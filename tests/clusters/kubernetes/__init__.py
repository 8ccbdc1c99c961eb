"""Tests on a real Kubernetes cluster: the one that users start for themselves."""

import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "kubernetes-cluster"

# Its script has its folder on the path, too.
sys.path.insert(0, str(EXAMPLE))
