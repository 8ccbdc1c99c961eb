"""An image that may be pulled for longer than the application waits for its instances.

`site.global.gang.timeout` goes on while an image is pulled, so a longer
`site.global.docker.pull.timeout` changes nothing. It counts in run mode docker alone.

    gang.timeout: 1800    docker.pull.timeout: 1200    PASS
    gang.timeout: 600     docker.pull.timeout: 1200    WARNING
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage
from tfapp.problems import WARNING, Problem

CODE = "docker-pull-timeout"
NEEDS = ("metainfo", "appConfig")
MODE, PULL = "site.global.run.mode", "site.global.docker.pull.timeout"
GANG = "site.global.gang.timeout"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value, where one is written."""
    for component in package.components:
        values = package.config.components.get(component.name, {})
        mode, pull, gang = values.get(MODE), values.get(PULL), values.get(GANG)
        if mode is None or mode.text != "docker" or pull is None or pull.is_default:
            continue
        if gang is not None and float(pull.text) > float(gang.text):
            message = f"the image may be pulled for {pull.text} s, but {GANG} is {gang.text} s"
            hint = f"set {GANG} in global to more: it goes on while an image is pulled"
            yield Problem(pull.at, CODE, message, WARNING, hint)
