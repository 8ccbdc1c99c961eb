"""Runs pip for another platform. Arguments: the environment markers that differ there, as a JSON
object, and then the arguments of pip.

`pip install --platform` selects wheels by platform, but evaluates environment markers (`;
sys_platform == "linux"`) on this machine. pex replaces markers in the same way:
https://github.com/pex-tool/pex/blob/main/pex/pip/foreign_platform/markers.py
"""

import importlib
import json
import sys
from typing import Any


def main():
    markers: Any = importlib.import_module("pip._vendor.packaging.markers")
    there = json.loads(sys.argv[1])
    here = markers.default_environment
    markers.default_environment = lambda: {**here(), **there}
    return importlib.import_module("pip._internal.cli.main").main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
