"""Storage needs packages that want Python 3.10, and so do its tests."""

import sys

collect_ignore_glob = [] if sys.version_info >= (3, 10) else ["test_*.py"]
