"""The Skein specification: its shape, whole, and what Skein's own classes make of it."""

import json
from pathlib import Path

import pytest
import skein

from tests.compiler.packages import MASTER, compile_with, component, package, resources
from tfapp.compiler.specification import container_script
from tfapp.engines.definition import definition_file, of_the_user
from tfapp.errors import InvalidPackageError

CACHE = "file:///home/ann/.tfapp/cache/"


KEY = "site.global.python.executable"


def test_the_whole_of_it():
    built = package(
        component("ps"),
        resources={"ps": resources("ps", 2, memory=512, vcores=2, gpus=1, label="gpu")},
    )
    compiled = compile_with(built, queue="research", tags=("t1",))
    runtime, shipped, files, job, private = (f"file://{file.path}" for file in compiled.files)
    assert all(path.startswith(CACHE) for path in (runtime, shipped, files, job, private))
    archive = {"type": "ARCHIVE", "visibility": "APPLICATION", "size": 0, "timestamp": 0}
    plain = {**archive, "type": "FILE"}
    data = compiled.spec.to_dict()
    data["tags"].sort()
    assert data == {
        "name": "digits",
        "queue": "research",
        "user": "",
        "node_label": "",
        "tags": ["t1", "tfapp"],
        "file_systems": [],
        "max_attempts": 3,
        "acls": {
            "enable": True,
            "view_users": [],
            "view_groups": [],
            "modify_users": [],
            "modify_groups": [],
            "ui_users": [],
        },
        "master": {
            "resources": {"memory": 1024, "vcores": 1, "gpus": 0, "fpgas": 0},
            "script": container_script("/opt/python/bin/python3", "coordinator", KEY),
            "files": {
                "tfapp-runtime": {"source": runtime, **archive},
                "tfapp-job.json": {"source": job, **plain},
                "tfapp-private.json": {"source": private, **plain},
            },
            "env": {
                "JAVA_TOOL_OPTIONS": "-XX:CompressedClassSpaceSize=64m "
                "-XX:ReservedCodeCacheSize=64m -XX:+UseSerialGC "
                "-XX:TieredStopAtLevel=1",
                "JDK_JAVA_OPTIONS": "--add-opens=java.base/java.util=ALL-UNNAMED",
                "MALLOC_ARENA_MAX": "2",
            },
            "log_level": "INFO",
        },
        "services": {
            "ps": {
                "resources": {"memory": 512, "vcores": 2, "gpus": 1, "fpgas": 0},
                "script": container_script("/opt/python/bin/python3", "runner", KEY),
                "instances": 2,
                "files": {
                    "tfapp-runtime": {"source": runtime, **archive},
                    "tfapp-package": {"source": shipped, **archive},
                    "files": {"source": files, **archive},
                    "tfapp-job.json": {"source": job, **plain},
                    "tfapp-private.json": {"source": private, **plain},
                },
                "env": {},
                "depends": [],
                "max_restarts": 0,
                "allow_failures": True,
                "node_label": "gpu",
                "nodes": [],
                "racks": [],
                "relax_locality": False,
            }
        },
    }


@pytest.mark.parametrize(
    "cache", ["/c", '/a b/c\'d/"e"', "/\u00fcbung/\u6570", "/a;b/c%20d/[e]&$f", "/a:b@c/~d/`e`"]
)
def test_skein_keeps_every_path(cache):
    spec = compile_with(package(), cache=Path(cache)).spec
    assert skein.ApplicationSpec.from_yaml(spec.to_yaml()) == spec
    assert skein.ApplicationSpec.from_json(spec.to_json()) == spec
    message = spec.to_protobuf()
    for service in (message.master, *message.services.values()):
        for file in service.files.values():
            assert (file.source.scheme, file.source.host) == ("file", "")
            assert file.source.file.startswith(f"{cache}/")
    spec.max_attempts = 1  # Skein reads one attempt back, whatever was written
    assert skein.ApplicationSpec.from_protobuf(message) == spec


def test_archives_come_from_their_place_and_the_rest_from_the_cache():
    url = "hdfs://namenode:9000/user/ann/.tfapp/cache"
    compiled = compile_with(package(), place=url)
    files = compiled.spec.services["worker"].files
    assert {name: (file.source, str(file.visibility)) for name, file in files.items()} == {
        name: (f"{url}/{shipped.path.name}", "PRIVATE")
        if shipped.path.suffix == ".zip"
        else (f"file://{shipped.path}", "APPLICATION")
        for name, shipped in zip(files, compiled.files)
    }
    assert [bool(shipped.place) for shipped in compiled.files] == [True, True, True, False, False]


def test_a_tag_names_the_definition_where_there_is_a_place_for_it():
    def tags(**changes):
        return compile_with(package(), tags=("t1",), **changes).spec.tags

    place = "hdfs://namenode:9000/user/ann/.tfapp/cache"
    assert tags() == {"tfapp", "t1"}
    placed = tags(place=place)
    assert of_the_user(placed) == ("t1",)
    (own,) = placed - {"tfapp", "t1"}
    assert definition_file(placed) == f"{own[len('tfapp-definition-') :]}.definition"
    assert len(own) <= 100  # YARN's limit
    assert own == own.lower()  # as YARN keeps it
    others = [tags(place=place, **change) for change in ({"name": "b"}, {"queue": "b"}, {})]
    assert [other == placed for other in others] == [False, False, True]


@pytest.mark.parametrize("tags", [(), ("tfapp", "x"), ("tfapp-definition-1a",)], ids=str)
def test_tags_that_name_no_definition(tags):
    assert definition_file(tags) == ""


def test_no_credentials_and_nothing_private():
    spec = compile_with(
        package(credentials={"KEY": "env:KEY"}, settings={"env.MODE": "m0de"}),
        secrets={"KEY": "hunter22"},
    ).spec
    assert spec.master.security is None
    text = json.dumps(spec.to_dict())
    assert "hunter22" not in text
    assert "m0de" not in text


def test_a_label_of_the_master_would_hold_for_all():
    master = resources("slider-appmaster", priority=0, label="infra")
    with pytest.raises(InvalidPackageError) as caught:
        compile_with(package(master=master))
    assert [str(problem) for problem in caught.value.problems] == [
        "app/resources.yaml:7:20: error: yarn.label.expression of slider-appmaster would also "
        "hold for worker: in Skein a component without a label of its own inherits it "
        "[master-label]"
    ]
    labelled = {"worker": resources("worker", label="gpu")}
    spec = compile_with(package(master=master, resources=labelled)).spec
    assert (spec.node_label, spec.services["worker"].node_label) == ("infra", "gpu")


def test_the_master_is_sized_as_asked():
    assert compile_with(package()).spec.master.resources.memory == MASTER.container.memory
