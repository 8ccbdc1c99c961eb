"""What a cluster cannot run is refused before anything is submitted."""

from __future__ import annotations

import getpass
import re
import shutil

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
        (
            "yarn.memory: 5000",
            "batch",
            "resources.yaml:9:18: error: yarn.memory of worker is 5000 MiB, and queue 'batch' "
            "gives a container at most 4096 MiB [never-fits]",
        ),
        (
            "yarn.gpus: 1",
            "labelled",
            "resources.yaml:9:16: error: worker asks for GPUs, and no node of label 'special', the "
            "default of queue 'labelled', has any [never-fits]",
        ),
        (
            "",
            "root.nope.default",
            "--queue root.nope.default: error: there is no queue 'root.nope.default' on the "
            "cluster [queue]",
        ),
        (
            "",
            "root",
            "--queue root: error: queue 'root' takes no applications: it consists of other queues "
            "[queue]",
        ),
        (
            "",
            "private",
            "--queue private: error: queue 'private' takes no applications of {user} [queue]",
        ),
        (
            "yarn.nodes: 127.0.0.2, 127.0.0.33",
            "default",
            "resources.yaml:9:17: error: no node that works is called '127.0.0.33' [place]",
        ),
        ("", "bacth", "--queue bacth: error: there is no queue 'bacth' on the cluster [queue]"),
        (
            "",
            "closed",
            "--queue closed: error: queue 'closed' is stopped: it takes no applications [queue]",
        ),
    ],
    ids=[
        *("memory", "gpus", "label", "label-of-queue", "memory-of-queue"),
        *("gpus-of-queues-label", "no-such-path", "parent-queue"),
        *("private-queue", "node", "queue", "stopped-queue"),
    ],
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
    assert finding.format(user=getpass.getuser()) in said
    assert cluster.metric("appsSubmitted") == before


def test_without_the_managers_pages_the_nodes_still_count(user, cluster, tmp_path):
    """Whoever cannot reach them is told less, and is not kept from submitting."""
    conf = tmp_path / "conf"
    shutil.copytree(cluster.folder / "conf", conf)
    site = conf / "yarn-site.xml"
    pages = r"(webapp.address</name><value>)[^<]*"
    site.write_text(re.sub(pages, r"\g<1>127.0.0.99:9", site.read_text()))
    resources = tmp_path / "resources.yaml"
    resources.write_text(RESOURCES % "yarn.memory: 5000\n    yarn.gpus: 3")
    done = user.call(
        *("create", "never", "--appdef", "app-packages/tensorflow", "--queue", "batch"),
        *("--resources", str(resources)),
        environ={"HADOOP_CONF_DIR": str(conf)},
    )
    assert done.returncode == 77
    assert re.findall(r"error: .*\]", done.stderr) == [
        "error: yarn.gpus of worker is 3, and the largest node has 2 [never-fits]"
    ]
