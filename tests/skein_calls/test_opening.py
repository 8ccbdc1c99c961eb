"""Where there is no master yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tfapp.errors import UnavailableError
from tfapp.skein_calls.opening import from_current


def test_outside_of_an_application_there_is_no_current_one():
    with pytest.raises(UnavailableError, match="not part of an application"):
        from_current()


def test_importing_it_imports_neither_skein_nor_grpc():
    code = (
        "import sys, tfapp.skein_calls.opening\n"
        "print([m for m in ('skein', 'grpc') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
