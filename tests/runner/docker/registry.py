"""A real registry of images that asks for a login, on a port of this machine."""

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.runner.docker.engine import BASE, Engine, end, eventually

USER, PASSWORD = "reader", "hush-hush"
# The password as htpasswd(1) keeps it, by bcrypt.
_HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuu4uoW5CdSDmY8cLkib7pLDRBlvRVo8Pe\n"
_CONFIG = """
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: "127.0.0.1:{port}"}}
auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}
"""


@contextlib.contextmanager
def registry(engine: Engine, folder: Path, content: str = BASE) -> Iterator[str]:
    """The name of an image that only the registry has: that of the engine called `content`."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "htpasswd").write_text(_HTPASSWD)
    (folder / "config.yml").write_text(_CONFIG.format(folder=folder, port=port))
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(folder / "config.yml")],
            env=engine.environ(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: _listens(port), 60, f"no registry, see {folder}/log")
        name = f"127.0.0.1:{port}/mine/train:3"
        config = folder / "client"
        log_in(engine, config, port)
        engine.docker("tag", content, name)
        engine.docker("--config", str(config), "push", name)
        engine.docker("rmi", name)
        yield name
        if name in engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split():
            engine.docker("rmi", name)
    finally:
        end(process, 15)


def log_in(engine: Engine, config: Path, port: int) -> None:
    """Puts the login at the registry into the Docker configuration in the folder `config`."""
    login = ("login", "--username", USER, "--password", PASSWORD, f"127.0.0.1:{port}")
    engine.docker("--config", str(config), *login)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
