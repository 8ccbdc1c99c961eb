"""JSON Schema for a package's documents: findings with places, defaults, and the manual.

The files in `schemas/` are the only declaration of a key, its type, its default and what it
means; everything here is derived from them. The only room that imports jsonschema, and that only
when a document is checked.

    data, problems = check_document(document, "appConfig")

Beside the standard keywords the schemas carry annotations, which other validators pass over:

    x-tfapp-expected  what a value must be, in words, where the schema's own would not be clear
    x-tfapp-hint      what to do about a value that is refused
    x-tfapp-ignored   the key has no effect, and why (a warning)
    x-tfapp-refused   beside `"not": {}`: why the key is refused
    x-tfapp-code      the code of a finding, in place of the keyword's
    x-tfapp-message   what is said of a value that is refused; {value}, its {length} and its {key},
                      without what comes before the first dot, are put in
    x-tfapp-unknown   what to do about a key that is unknown in this mapping
    x-tfapp-prefix    what a key of this mapping may lack in front
    x-tfapp-capitals  what a key in capitals may lack in front
    x-tfapp-secret    a wrong value is not repeated in the message
    x-tfapp-key       how the manual names the keys of a pattern
"""

from __future__ import annotations

from tfapp.schema.check import check_document, check_extension
from tfapp.schema.describe import KeyDescription, defaults, describe, is_refused
from tfapp.schema.load import KINDS, schema_text

__all__ = [
    "KINDS",
    "KeyDescription",
    "check_document",
    "check_extension",
    "defaults",
    "describe",
    "is_refused",
    "schema_text",
]
