"""Finds the known name that is closest to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.75  # from 0, nothing in common, to 1, the same


def close_match(word: str, known: Iterable[str]) -> str:
    """The one of `known` that `word` is most likely a misspelling of, or "".

    Upper case, `-` and `_` make no difference, and dotted names are compared without what they
    begin with in common: `site.global.batch` is not like every other `site.global.` name.
    """
    words = tuple(known)
    best = max(words, key=lambda candidate: _likeness(word, candidate), default="")
    if best and _likeness(word, best) >= _ALIKE:
        return best
    longer = [candidate for candidate in words if candidate.endswith(f".{word}")]
    return longer[0] if len(longer) == 1 else ""


def _likeness(word: str, candidate: str) -> float:
    parts, others = word.split("."), candidate.split(".")
    while len(parts) > 1 and len(others) > 1 and parts[0] == others[0]:
        parts, others = parts[1:], others[1:]
    left, right = _folded(".".join(parts)), _folded(".".join(others))
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def _folded(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
