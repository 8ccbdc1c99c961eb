"""What a machine may lack, so that tests cannot run there."""

import os
import sys
from typing import NoReturn

import pytest

needs_storage = pytest.mark.skipif(
    sys.version_info < (3, 10),
    reason="this machine has no Python 3.10, which the libraries of the extra storage need",
)


def lacking(reason: str) -> NoReturn:
    """Skips a test; in CI, where nothing may be skipped, it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
