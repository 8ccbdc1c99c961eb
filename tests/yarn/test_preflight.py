"""What a cluster cannot run is refused before anything is submitted."""

from __future__ import annotations

import re

import pytest

RESOURCES = """\
schema: http://example.org/specification/v2.0.0
metadata: {}
global:
  yarn.memory: 512
components:
  worker:
    yarn.role.priority: 1
    yarn.component.instances: 1
    %s
"""


@pytest.mark.parametrize(
    ("line", "queue", "finding"),
    [
        (
            "yarn.memory: 9000",
            "default",
            "resources.yaml:9:18: error: yarn.memory of worker is 9000 MiB, and the largest node "
            "has 8192 MiB [never-fits]",
        ),
        (
            "yarn.gpus: 3",
            "default",
            "resources.yaml:9:16: error: yarn.gpus of worker is 3, and the largest node has 2 "
            "[never-fits]",
        ),
        (
            "yarn.label.expression: specail",
            "default",
            "resources.yaml:9:28: error: no node that works has the label 'specail' [node-label]",
        ),
        (
            "yarn.label.expression: special",
            "batch",
            "resources.yaml:9:28: error: queue 'batch' may not use nodes of label 'special' "
            "[node-label]",
        ),
        ("", "bacth", "--queue bacth: error: there is no queue 'bacth' on the cluster [queue]"),
        (
            "",
            "closed",
            "--queue closed: error: queue 'closed' is stopped: it takes no applications [queue]",
        ),
    ],
    ids=["memory", "gpus", "label", "label-of-queue", "queue", "stopped-queue"],
)
def test_what_never_fits_is_refused(user, cluster, tmp_path, line, queue, finding):
    resources = tmp_path / "resources.yaml"
    resources.write_text(RESOURCES % line)
    before = cluster.metric("appsSubmitted")
    done = user.call(
        *("create", "never", "--appdef", "app-packages/tensorflow"),
        *("--resources", str(resources), "--queue", queue),
    )
    assert done.returncode == 77
    said = [re.sub(r"^\S*/(?=resources)", "", line) for line in done.stderr.splitlines()]
    assert finding in said
    assert cluster.metric("appsSubmitted") == before
