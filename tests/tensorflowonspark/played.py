"""An application that `tfapp.submit` would start, of which the driver hears that it runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace as Made
from typing import Any


class Application:
    name, id, feed_is_over = "app", "app-1", False

    def __init__(self, components: Mapping[str, Any], fed: list[tuple[Any, int]]):
        self._fed = fed
        self._instances = [
            Made(
                instance=f"{role}/{number}",
                component=role,
                role=role,
                host="h",
                exports={role: {"host_port": f"h:{number}"}} if role != "evaluator" else {},
            )
            for role, one in sorted(components.items(), reverse=True)
            for number in range(one.instances)
        ]
        self._instances.insert(1, Made(instance="tensorboard/0", component="tensorboard"))

    def wait_until_running(self) -> Any:
        return Made(verdict=None)

    def status(self) -> Any:
        return Made(instances=self._instances)

    def open_feed(self, sc: Any) -> None:
        pass

    def feed(self, data: Any, epochs: int = 1, **more: Any) -> None:
        self._fed.append((data, epochs))


class Played:
    """`sc`: a SparkContext. `submitted`: the last keywords. `fed`: (data, epochs) of each feed."""

    def __init__(self, monkeypatch: Any):
        self.submitted: dict[str, Any] = {}
        self.fed: list[tuple[Any, int]] = []
        configuration = Made(get=lambda name: "file:///")
        self.sc = Made(
            _jsc=Made(hadoopConfiguration=lambda: configuration),
            parallelize=lambda numbers, _: numbers,
        )
        module = "tfapp.tensorflowonspark.TFCluster"
        monkeypatch.setattr("tfapp.tensorflowonspark.arguments.session_of", lambda sc: sc)
        monkeypatch.setattr(f"{module}.tfapp.submit", self._submit)

    def _submit(self, program: Any, components: Mapping[str, Any], **more: Any) -> Application:
        self.submitted = more
        return Application(components, self.fed)
