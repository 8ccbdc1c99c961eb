import pytest

from tests.engines.applications import (
    FOREVER,
    compiled,
    local_engine,
    service,
    stock_client,
    wait_for_containers,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Skein's client of an application with one ended container, box_0, and a live one, box_1."""
    with local_engine(tmp_path_factory.mktemp("shared") / "home") as engine:
        engine.create("app", compiled(master=FOREVER, box=service(instances=2)))
        with stock_client(engine) as client:
            wait_for_containers(client, 2, "RUNNING")
            client.kill_container("box_0")
            yield client


@pytest.fixture
def client(shared):
    """`shared` with an empty store and one live container, box_<n>."""
    shared.kv.clear()
    shared.scale("box", 1)
    return shared


@pytest.fixture
def box(client):
    """The id of the live container."""
    (container,) = client.get_containers()
    return container.id


@pytest.fixture
def boxes(client):
    """The ids of two live containers, the older one first."""
    client.scale("box", 2)
    return [container.id for container in client.get_containers()]


@pytest.fixture
def engine(tmp_path):
    """The local engine, in a folder of its own."""
    with local_engine(tmp_path / "home") as engine:
        yield engine
