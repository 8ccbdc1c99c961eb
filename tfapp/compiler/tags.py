"""The tags of an application on YARN: the user's, and tfapp's own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import skein

TAG = "tfapp"  # every application of tfapp

# YARN's limit for an application, less what tfapp needs.
MAX_TAGS = 10 - 2

DEFINITION = "tfapp-definition-"  # then what its definition is called
_DEFINITION = re.compile(rf"{DEFINITION}([0-9a-f]{{64}})\Z")


def definition_tag(spec: skein.ApplicationSpec) -> str:
    """The tag that names the definition of `spec`, by a hash of the specification, which has no
    such tag yet. Shipped files are named by their content, so equal specifications have equal
    definitions."""
    text = json.dumps(spec.to_dict(), sort_keys=True, default=sorted)
    return DEFINITION + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def definition_file(tags: Iterable[str]) -> str:
    """The name of the file with an application's definition; "" when its tags have none."""
    found = (_DEFINITION.match(tag) for tag in tags)
    return next((f"{match[1]}.definition" for match in found if match), "")


def of_the_user(tags: Iterable[str]) -> tuple[str, ...]:
    """The user's tags, sorted."""
    return tuple(sorted(t for t in tags if t != TAG and not t.startswith(DEFINITION)))
