"""Finds the known name that is closest to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.75  # least likeness of a match; 0: nothing in common, 1: equal
_SHORTENED = 3  # characters, at least, of a beginning that stands for a whole name


def close_match(word: str, known: Iterable[str]) -> str:
    """The name in `known` that `word` most likely misspells; "" if there is none.

    Upper case, `-` and `_` make no difference. Dotted names are compared without their common
    prefix; otherwise `site.global.batch` would be like every other `site.global.` name.
    """
    words = tuple(known)
    best = max(words, key=lambda candidate: _likeness(word, candidate), default="")
    if best and _likeness(word, best) >= _ALIKE:
        return best
    longer = [candidate for candidate in words if candidate.endswith(f".{word}")]
    if not longer and len(word.rpartition(".")[2]) >= _SHORTENED:
        longer = [candidate for candidate in words if candidate.startswith(word)]
    return longer[0] if len(longer) == 1 else ""


def did_you_mean(
    word: str, known: Iterable[str], otherwise: str = "", form: str = "Did you mean {}?"
) -> str:
    """A hint that offers the close match, in this form; `otherwise` if there is none."""
    match = close_match(word, known)
    return form.format(match) if match else otherwise


def _likeness(word: str, candidate: str) -> float:
    parts, others = word.split("."), candidate.split(".")
    while len(parts) > 1 and len(others) > 1 and parts[0] == others[0]:
        parts, others = parts[1:], others[1:]
    left, right = _folded(".".join(parts)), _folded(".".join(others))
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def _folded(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
