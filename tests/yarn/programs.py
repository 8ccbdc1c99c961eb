"""Small programs that tests submit."""

from __future__ import annotations

HELLO = """
import os, time
print("TF_CONFIG is", os.environ["TF_CONFIG"])
time.sleep(1)
"""

FAILS = """
import os, sys
if os.environ["TFAPP_INSTANCE"] == "worker/1":
    print("no such data set", file=sys.stderr)
    sys.exit(3)
import time
time.sleep(600)
"""

GOES_ON = """
import time
print("begins")
time.sleep(600)
"""
