"""Validates documents against JSON Schemas: problems with positions, defaults, and the key
reference.

The files in `schemas/` are the only declaration of keys with their types, defaults and
descriptions. Everything else is derived from them. This is the only room that imports jsonschema,
and it does so only when a document is validated.

    data, problems = check_document(document, "appConfig")

The schemas have annotations in addition to the standard keywords; other validators ignore them:

    x-tfapp-expected  the expected value in words, if the keywords do not describe it well
    x-tfapp-hint      the hint for a value that is refused
    x-tfapp-ignored   the reason why the key has no effect (a warning)
    x-tfapp-refused   beside `"not": {}`: the reason why the key is refused
    x-tfapp-code      the code of a problem, in place of the default of the keyword
    x-tfapp-message   the message for a value that is refused; {value}, {length} and {key} (without
                      the part before the first dot) are replaced
    x-tfapp-unknown   the hint for an unknown key in this mapping
    x-tfapp-prefix    a prefix that users may forget in keys of this mapping
    x-tfapp-capitals  the same for keys in capital letters
    x-tfapp-secret    messages do not repeat a wrong value
    x-tfapp-key       the name of a pattern's keys in the key reference
"""

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
