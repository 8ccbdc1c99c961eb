"""An application that a cluster cannot run is refused before anything is submitted."""

import getpass
import re
import shutil
from pathlib import Path

import pytest

RESOURCES = """\
schema: http://example.org/specification/v2.0.0
metadata: {}
global:
  yarn.memory: 512
components:
"""


def resources(folder: Path, **settings: str) -> str:
    """A file of components of one instance, each with a setting of its own."""
    path = folder / "resources.yaml"
    components = (
        f"  {name}: {{yarn.role.priority: {number}, yarn.component.instances: 1, {setting}}}\n"
        for number, (name, setting) in enumerate(settings.items(), 1)
    )
    path.write_text(RESOURCES + "".join(components))
    return str(path)


@pytest.mark.parametrize(
    ("queue", "settings", "said"),
    [
        (
            "default",
            {
                "chief": "yarn.memory: 9000",
                "worker": "yarn.gpus: 3",
                "ps": "yarn.label.expression: specail",
                "evaluator": "'yarn.nodes': '127.0.0.2, 127.0.0.33'",
            },
            [
                "yarn.memory of chief is 9000 MiB, and the largest node has 8192 MiB [never-fits]",
                "yarn.gpus of worker is 3, and the largest node has 2 [never-fits]",
                "no node that works has the label 'specail' [node-label]",
                "no node that works is called '127.0.0.33' [place]",
            ],
        ),
        (
            "batch",
            {"chief": "yarn.label.expression: special", "worker": "yarn.memory: 5000"},
            [
                "queue 'batch' may not use nodes of label 'special' [node-label]",
                "yarn.memory of worker is 5000 MiB, and queue 'batch' gives a container at most "
                "4096 MiB [never-fits]",
            ],
        ),
        (
            "labelled",
            {"worker": "yarn.gpus: 1"},
            [
                "worker asks for GPUs, and no node of label 'special', the default of queue "
                "'labelled', has any [never-fits]"
            ],
        ),
        (
            "private",
            {"worker": "yarn.vcores: 1"},
            [
                "queue 'private' does not take the application of {user}: User {user} does not "
                "have permission to submit APPLICATION to queue private [queue]"
            ],
        ),
        (
            "root",
            {"worker": "yarn.vcores: 1"},
            ["queue 'root' takes no applications: it consists of other queues [queue]"],
        ),
    ],
    ids=["default", "batch", "labelled", "private", "root"],
)
def test_what_never_fits_is_refused(user, cluster, tmp_path, queue, settings, said):
    """Each kind of finding that a real cluster's answers lead to;
    tests/engines/yarn/test_preflight.py has the rest."""
    before = cluster.metric("appsSubmitted")
    done = user.call(
        *("create", "never", "--appdef", "app-packages/tensorflow"),
        *("--resources", resources(tmp_path, **settings), "--queue", queue),
    )
    assert done.returncode == 77
    told = re.sub(r"application_\d+_\d+", "APPLICATION", done.stderr)
    found = re.findall(r": error: (.*\])$", told, re.MULTILINE)
    assert sorted(found) == sorted(text.format(user=getpass.getuser()) for text in said)
    assert cluster.metric("appsSubmitted") == before


def test_without_the_managers_pages_the_nodes_still_count(user, cluster, tmp_path):
    """Whoever cannot reach them is told less, and is not kept from submitting."""
    conf = tmp_path / "conf"
    shutil.copytree(cluster.folder / "conf", conf)
    site = conf / "yarn-site.xml"
    pages = r"(webapp.address</name><value>)[^<]*"
    site.write_text(re.sub(pages, r"\g<1>127.0.0.99:9", site.read_text()))
    done = user.call(
        *("create", "never", "--appdef", "app-packages/tensorflow", "--queue", "batch"),
        *("--resources", resources(tmp_path, worker="yarn.memory: 5000, yarn.gpus: 3")),
        environ={"HADOOP_CONF_DIR": str(conf)},
    )
    assert done.returncode == 77
    assert re.findall(r"error: .*\]", done.stderr) == [
        "error: yarn.gpus of worker is 3, and the largest node has 2 [never-fits]"
    ]
