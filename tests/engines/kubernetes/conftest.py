from pathlib import Path

import pytest

from tests.engines.kubernetes.api_server import ApiServer


class Clock:
    """Time that passes in `sleep` alone. `slept`: the pauses so far, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def server():
    with ApiServer(answers=[]).running() as running:
        yield running


@pytest.fixture
def kubeconfig(tmp_path):
    """Writes a kubeconfig file: `kubeconfig(server, name="a")` has a context "a" of that server,
    with a user and a cluster of this name. `user`: YAML of the user."""

    def write(
        server: str = "https://192.0.2.1",
        name: str = "a",
        user: str = "{token: secret}",
        namespace: str = "",
        current: bool = True,
        cluster: str = "",
    ) -> Path:
        path = tmp_path / f"{name}.yaml"
        within = f", namespace: {namespace}" if namespace else ""
        path.write_text(
            f"""
apiVersion: v1
kind: Config
clusters: [{{name: {name}, cluster: {{server: "{server}"{cluster}}}}}]
users: [{{name: {name}, user: {user}}}]
contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}{within}}}}}]
{f"current-context: {name}" if current else ""}
"""
        )
        return path

    return write
