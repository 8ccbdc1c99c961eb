"""A registry of images that can be pulled and not pushed: files of a folder by HTTP, as the OCI
distribution specification has their paths.

    python registry.py FOLDER ADDRESS PORT"""

from __future__ import annotations

import http.server
import json
import re
import shutil
import sys
from pathlib import Path

# The second group is a tag or a digest.
_MANIFEST = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/manifests/(?P<reference>[\w.:-]+)")
_BLOB = re.compile(r"/v2/(?P<name>[a-z0-9._/-]+)/blobs/(?P<reference>sha256:[0-9a-f]{64})")
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


def place_of_blob(folder: Path, digest: str) -> Path:
    """Of a blob or manifest with the digest "sha256:HEX"."""
    return folder / "blobs" / digest.replace(":", "-")


def place_of_tag(folder: Path, name: str, tag: str) -> Path:
    """Of the file that has the digest of a manifest."""
    return folder / "tags" / name / tag


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        manifest, blob = _MANIFEST.fullmatch(path), _BLOB.fullmatch(path)
        if manifest:
            digest = self._digest(manifest["name"], manifest["reference"])
            self._send(digest, MANIFEST_TYPE, "MANIFEST_UNKNOWN", "manifest unknown")
        elif blob:
            self._send(
                blob["reference"], "application/octet-stream", "BLOB_UNKNOWN", "blob unknown"
            )
        elif path == "/v2/":
            self._answer(200, b"{}")
        else:
            self._answer(404, b"{}")

    do_HEAD = do_GET

    def _digest(self, name: str, reference: str) -> str:
        if ":" in reference:
            return reference
        tag = place_of_tag(self.folder, name, reference)
        return tag.read_text() if tag.is_file() else ""

    def _send(self, digest: str, kind: str, code: str, message: str) -> None:
        path = place_of_blob(self.folder, digest)
        if not digest or not path.is_file():
            errors = {"errors": [{"code": code, "message": message}]}
            self._answer(404, json.dumps(errors).encode())
            return
        with path.open("rb") as file:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(file, self.wfile)

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def main(folder: str, address: str, port: str) -> None:
    Handler.folder = Path(folder)
    http.server.ThreadingHTTPServer((address, int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
