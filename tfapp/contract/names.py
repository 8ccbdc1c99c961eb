"""How an application may be called."""

from __future__ import annotations

import re

MAX_NAME = 100  # characters of an application's name, which names folders too
NAME_PATTERN = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME - 1}}}\Z")  # of an application (Slider's)
