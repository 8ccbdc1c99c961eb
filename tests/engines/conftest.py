import subprocess

import pytest

from tests.engines.applications import environ, local_engine
from tfapp.engines import ENGINES, open_engine


@pytest.fixture
def engine(tmp_path):
    """The local engine, in a folder of its own."""
    with local_engine(tmp_path / "home") as engine:
        yield engine


@pytest.fixture(scope="session")
def bridge():
    """The address of a bridge on this machine, which namespaces can be joined to."""
    for number in range(1, 255):
        name, address = f"tfb{number}", f"10.99.{number}.1"
        # Without an address of its own it takes the lowest of its links', which come and go: who
        # knew the old one then reaches nobody for minutes.
        link = ["ip", "link", "add", name, "address", f"02:00:0a:63:{number:02x}:01"]
        made = subprocess.run([*link, "type", "bridge"], capture_output=True, text=True)
        if "File exists" not in made.stderr:
            break
    if made.returncode:
        pytest.skip("this user may make no bridge")
    try:
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", name], check=True)
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        yield address
    finally:
        subprocess.run(["ip", "link", "del", name], check=True)


@pytest.fixture
def isolated_engine(tmp_path, monkeypatch, bridge):
    """A third engine: one folder, and this line."""
    monkeypatch.setitem(ENGINES, "isolated", "tests.engines.isolated")
    engine = open_engine("isolated", tmp_path / "home", environ(ISOLATED_ADDRESS=bridge))
    yield engine
    for application in engine.list():
        engine.stop(application.name, "the test is over", force=True)
