"""YAML and JSON text as data that remembers where each key and value stood.

The only room that parses YAML. A file that is wrong gives `Problem`s, never an exception:

    document, problems = read_document("app/metainfo.yaml", data, "yaml")
"""

from __future__ import annotations

from tfapp.documents.document import Document
from tfapp.documents.read import read_document

__all__ = ["Document", "read_document"]
