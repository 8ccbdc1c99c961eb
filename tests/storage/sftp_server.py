"""A real SFTP server for tests, of asyncssh: `sftp_server.py ROOT PORT` prints its port. The client
of fsspec is another implementation, paramiko. Any user with PASSWORD may log in."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

PASSWORD = "open"
# Else paramiko asks an agent, and tries the keys of this user.
SETTINGS = {"look_for_keys": False, "allow_agent": False, "username": "ann", "password": PASSWORD}


@contextlib.contextmanager
def running(root, port=0):
    """Serves the folder `root`; gives the URL of its top, and variables for the client."""
    root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.storage.sftp_server", str(root), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"sftp://127.0.0.1:{int(server.stdout.readline())}"
            yield url, {"FSSPEC_SFTP": json.dumps(SETTINGS), "TFAPP_STORAGE_SCHEMES": "sftp"}
        finally:
            server.kill()


async def _serve(root, port):
    import asyncssh

    class Server(asyncssh.SSHServer):
        def begin_auth(self, username):
            return True

        def password_auth_supported(self):
            return True

        def validate_password(self, username, password):
            return password == PASSWORD

    def files(channel):
        return asyncssh.SFTPServer(channel, chroot=root)

    listening = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=Server,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        sftp_factory=files,
    )
    print(listening.get_port(), flush=True)
    await listening.wait_closed()


if __name__ == "__main__":
    asyncio.run(_serve(os.fsencode(Path(sys.argv[1])), int(sys.argv[2])))
