from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from tfapp.engines.local.protocol import messages, services
loaded = [name for name in ("skein", "skein.core", "yaml", "distutils") if name in sys.modules]
print(loaded, messages.Empty.DESCRIPTOR.full_name, services.AppMasterServicer.__name__)
import skein
from skein import proto
print(proto.Empty is messages.Empty, skein.ApplicationClient.__name__)
"""


def test_skein_itself_is_imported_by_who_wants_it():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[] skein.Empty AppMasterServicer",
        "True ApplicationClient",
    ]
