"""How large a document may be. An app package's files are far below these."""

from __future__ import annotations

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 50_000  # keys and values, with aliases followed: a YAML bomb is refused by this
