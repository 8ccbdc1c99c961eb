"""A master in a process of its own, for calls over the network."""

import subprocess
import sys
from pathlib import Path

import skein

from tfapp.protocol.connection import Connection, connect

PATIENCE = 120  # seconds, for what happens at once unless it is broken


class Server:
    def __init__(self, folder: Path):
        self.security = skein.Security.new_credentials()
        certificate, key = folder / "cert", folder / "key"
        certificate.write_bytes(self.security.cert_bytes)
        key.write_bytes(self.security.key_bytes)
        script = Path(__file__).parent.parent / "small_master.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(certificate), str(key)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def connect(self, deadline: float = PATIENCE) -> Connection:
        return connect(
            f"127.0.0.1:{self.port}",
            self.security.cert_bytes,
            self.security.key_bytes,
            deadline,
        )

    def end(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
