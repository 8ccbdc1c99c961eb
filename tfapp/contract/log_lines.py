"""What tfapp says of itself in a container's log, and how much of a program's log it quotes."""

from __future__ import annotations

OWN_LINE = "tfapp: "  # begins what is tfapp's own among the lines of a program
# How a container's log says that neither runner nor coordinator can start in it; the process
# ends with the exit code.
CANNOT_START = f"{OWN_LINE}cannot start: "
CANNOT_START_CODE = 78

MAX_LAST_LINES = 8 * 1024  # bytes of a program's last lines in a report
