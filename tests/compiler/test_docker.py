"""A component's container, from metainfo and appConfig."""

from __future__ import annotations

import pytest

from tests.compiler.packages import compile_with, component, package
from tests.contract_values import make_docker
from tfapp.contract.job import Docker, Mount
from tfapp.errors import InvalidPackageError

MODE, IMAGE = "site.global.run.mode", "site.global.docker.image"
DECLARED = {
    "name": "training",
    "image": "declared:1",
    "mounts": [{"hostMount": "/data", "containerMount": "/in", "readOnly": True}],
    "options": "--shm-size 1g",
}


def docker_of(*containers, **settings) -> Docker | None:
    worker = component("worker", docker_containers=containers)
    built = package(worker, settings={MODE: "docker", **settings})
    return compile_with(built).job.component("worker").docker


def test_without_run_mode_docker_there_is_no_container():
    built = package(component("worker", docker_containers=(DECLARED,)))
    assert compile_with(built).job.component("worker").docker is None


def test_metainfo_declares_a_container():
    mounts = (Mount("/data", "/in", True),)
    assert docker_of(DECLARED) == make_docker("declared:1", mounts, shm_size=1 << 30)


def test_app_config_names_another_image_and_more_mounts():
    docker = docker_of(
        DECLARED,
        **{
            IMAGE: "mine:2",
            "site.global.docker.mounts": "/scratch/${USER_NAME}:/scratch",
            "site.global.docker.pull": "always",
            "site.global.docker.pull.timeout": "30",
            "site.global.docker.credential": "",
            "site.global.docker.host": "unix:///run/d.sock",
        },
    )
    assert docker == make_docker(
        "mine:2",
        (Mount("/data", "/in", True), Mount("/scratch/ann", "/scratch")),
        pull="always",
        pull_timeout=30.0,
        host="unix:///run/d.sock",
        shm_size=1 << 30,
    )


def test_a_job_is_read_back_with_its_containers():
    import json

    from tfapp.contract.encoding import encode
    from tfapp.contract.job import Job

    built = package(
        component("worker", docker_containers=(DECLARED,)),
        settings={MODE: "docker"},
    )
    job = compile_with(built).job
    assert Job.from_dict(json.loads(encode(job))) == job


@pytest.mark.parametrize(
    "containers, settings, message",
    [
        (
            ({"name": "t", "image": "a b"},),
            {},
            "worker: 'a b' cannot be told to YARN",
        ),
        (
            (DECLARED,),
            {},
            "worker: YARN's Docker runtime takes no options of dockerContainers",
        ),
        (
            ({"name": "t", "image": "a"},),
            {"site.global.docker.pull": "always"},
            "worker: YARN's Docker runtime has a pull policy of its own",
        ),
        (
            ({"name": "t", "image": "a"},),
            {"site.global.docker.host": "unix:///d.sock"},
            "worker: YARN's Docker runtime has an engine of its own",
        ),
        (
            ({"name": "t", "image": "a"},),
            {"site.global.docker.mounts": "/a,/b$(touch x)"},
            "worker: '/b$(touch x)' cannot be told to YARN",
        ),
    ],
    ids=["image", "options", "pull", "host", "mount"],
)
def test_what_yarns_runtime_cannot_be_told_is_refused(containers, settings, message):
    worker = component("worker", docker_containers=containers)
    built = package(worker, settings={MODE: "yarn-docker", **settings})
    with pytest.raises(InvalidPackageError) as caught:
        compile_with(built)
    assert {problem.message for problem in caught.value.problems} == {message}
