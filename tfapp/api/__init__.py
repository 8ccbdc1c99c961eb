"""The Python call: functions and values in place of a package and flags."""

import sys

from tfapp.launch.caller import require_posix

require_posix(sys.platform)  # before any module below imports what Windows does not have
