"""compile_application as a whole: pure, equal for equal input, refusing what cannot run."""

from __future__ import annotations

import copy
import json

import pytest

from tests import programs
from tests.compiler.packages import (
    DEFAULT_TEXTS,
    compile_with,
    component,
    options,
    package,
    port_of,
    resources,
)
from tests.contract_values import FAILURE_POLICY, make_docker, make_limits
from tfapp import __version__
from tfapp.compiler.compile import compile_application
from tfapp.contract.job import (
    MAX,
    ComponentJob,
    Docker,
    ExportTemplate,
    Job,
    Mount,
    Private,
    Resources,
)
from tfapp.contract.names import STORAGE_DIR
from tfapp.errors import InvalidPackageError
from tfapp.frozen import replace
from tfapp.package.model import CommandOrder
from tfapp.problems import Position

MODE, IMAGE = "site.global.run.mode", "site.global.docker.image"
DECLARED = {
    "name": "training",
    "image": "declared:1",
    "mounts": [{"hostMount": "/data", "containerMount": "/in", "readOnly": True}],
    "options": "--shm-size 1g",
}


def findings(built, **changes):
    with pytest.raises(InvalidPackageError) as caught:
        compile_with(built, **changes)
    return [str(problem) for problem in caught.value.problems]


def test_the_job_of_a_package():
    built = package(
        component("ps"),
        component("worker", min_instances=1, max_instances=4),
        counts={"worker": 2},
        settings={
            "site.global.user.checkpoint.prefix": "/mnt/${USER_NAME}/${CLUSTER_NAME}",
            "site.global.application.lifetime": "3600",
            "site.global.stop.grace": "2.5",
            "java_home": "/usr/lib/jvm",
        },
        own={"worker": {"site.global.role": "${COMPONENT_NAME}"}},
    )
    shared = {
        **DEFAULT_TEXTS,
        "site.global.ps.port": port_of("ps"),
        "site.global.worker.port": port_of("worker"),
        "site.global.user.checkpoint.prefix": "/mnt/ann/digits",
        "site.global.application.lifetime": "3600",
        "site.global.stop.grace": "2.5",
    }
    common = {"container": Resources(2048, 1), "script": "scripts/tensorflow.py"}
    common |= {"python": "/opt/python/bin/python3"}
    common |= {"failure_threshold": 5, "failure_window": 21600.0}
    assert compile_with(built).job == Job(
        name="digits",
        application="tfyarn",
        version="1.10",
        user="ann",
        called={"ps": "", "worker": ""},  # the scripts of these tests read no setting
        attempts=3,
        tfapp=__version__,
        components=(
            ComponentJob(
                name="ps",
                role="ps",
                instances=1,
                min_instances=0,
                max_instances=None,
                script_timeout=600.0,
                exports=(ExportTemplate("ps", "host_port", "${ps_HOST}:${site.global.ps.port}"),),
                site=shared,
                **common,
            ),
            ComponentJob(
                name="worker",
                role="worker",
                instances=2,
                min_instances=1,
                max_instances=4,
                script_timeout=600.0,
                exports=(
                    ExportTemplate(
                        "worker", "host_port", "${worker_HOST}:${site.global.worker.port}"
                    ),
                ),
                site={**shared, "site.global.role": "worker"},
                **common,
            ),
        ),
        success=("worker",),
        limits=make_limits(lifetime=3600.0, stop_grace=2.5),
        failure=FAILURE_POLICY,
    )


@pytest.mark.parametrize(
    ("instances", "least", "forms_with"), [(8, 4, 4), (4, 4, 4), (8, None, 0), (1, 1, 0)]
)
def test_a_generation_forms_with_as_many_instances_as_resources_say(instances, least, forms_with):
    """Also where that is all of them: there may be more later."""
    asked = resources("worker", instances, least=least)
    built = package(component("worker"))
    built = replace(built, resources={**built.resources, "worker": asked})
    assert compile_with(built).job.component("worker").elastic_min == forms_with


def test_the_same_input_gives_the_same_output_and_stays_as_it_was():
    built = package(
        component("ps"), component("worker"), settings={"env.A": "1"}, credentials={"KEY": "env:K"}
    )
    chosen = options(secrets={"KEY": "hunter22"}, tags=("b", "a"))
    before = copy.deepcopy((built, chosen))
    first = compile_application(built, chosen)
    second = compile_application(built, chosen)
    assert first == second
    assert [file.data for file in first.files] == [file.data for file in second.files]
    assert (built, chosen) == before


def test_two_compilations_share_nothing_that_can_change():
    built = package(settings={"env.A": "1"})
    first, second = compile_with(built), compile_with(built)
    first.spec.master.env["A"] = "changed"
    first.spec.services["worker"].env["A"] = "changed"
    first.job.component("worker").site["x"] = "changed"
    assert compile_with(built) == second


def test_what_is_shipped_reads_back_as_what_was_compiled():
    compiled = compile_with(package(settings={"env.A": "1"}))
    *_, job, private = compiled.files
    assert Job.from_dict(json.loads(job.data)) == compiled.job
    assert Private.from_dict(json.loads(private.data)) == compiled.private


def test_components_stand_by_priority_and_those_without_resources_are_left_out():
    built = package(component("ps"), component("worker"), component("evaluator"))
    sized = {
        "worker": resources("worker", 1, priority=1),
        "ps": resources("ps", 0, priority=7),
    }
    compiled = compile_application(package(*built.components, resources=sized), options())
    assert [(c.name, c.instances) for c in compiled.job.components] == [("worker", 1), ("ps", 0)]
    assert sorted(compiled.spec.services) == ["ps", "worker"]


def test_command_orders_become_requirements_of_components_that_are_there():
    at = Position("app/metainfo.yaml", 30, 5)
    built = package(
        component("ps"),
        component("chief"),
        component("worker"),
        command_orders=(
            CommandOrder("worker", ("ps", "chief"), at),
            CommandOrder("worker", ("ps", "evaluator"), at),
        ),
    )
    required = {c.name: c.requires for c in compile_with(built).job.components}
    assert required == {"ps": (), "chief": (), "worker": ("ps", "chief")}


def test_max_needs_a_number_from_the_engine():
    sized = {"worker": resources("worker", memory=MAX, vcores=MAX)}
    built = package(resources=sized)
    assert findings(built, maximum={"vcores": 4}) == [
        "app/resources.yaml:8:20: error: yarn.memory of worker is 'max', and no engine says how "
        "much that is [max-resources]"
    ]
    compiled = compile_with(built, maximum={"memory": 8192, "vcores": 4})
    job = compiled.job.component("worker")
    service = compiled.spec.services["worker"].resources
    assert (
        (job.container.memory, job.container.vcores)
        == (service.memory, service.vcores)
        == (8192, 4)
    )


def test_nothing_to_run():
    assert findings(package(counts={"worker": 0})) == [
        "app/resources.yaml:3:3: error: every component has 0 instances: there is nothing to run "
        "[no-instances]"
    ]


def test_all_errors_come_at_once_sorted():
    built = package(
        resources={"worker": resources("worker", memory=MAX)},
        credentials={"KEY": "env:KEY"},
    )
    codes = [finding.rpartition(" ")[2] for finding in findings(built)]
    assert codes == ["[credential]", "[max-resources]"]


def test_importing_the_compiler_loads_neither_skein_nor_yaml():
    code = (
        "import sys, tfapp.compiler.compile, tfapp.compiler.store;"
        "print(sorted({'skein', 'yaml', 'grpc', 'jsonschema'} & set(sys.modules)))"
    )
    assert programs.printed("-c", code) == "[]\n"


def test_no_secret_shows_in_what_is_printed():
    compiled = compile_with(package(credentials={"KEY": "env:KEY"}), secrets={"KEY": "hunter22"})
    shown = repr(compiled) + repr(options(secrets={"KEY": "hunter22"})) + compiled.spec.to_yaml()
    assert "hunter22" not in shown


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
    ("containers", "settings", "message"),
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


def test_a_master_that_writes_to_a_url_gets_what_opens_it(tmp_path):
    libraries = tmp_path / "storage.tar.gz"
    libraries.write_bytes(b"")
    for folder, has in (("s3://bucket/history", True), ("/mnt/history", False), ("", False)):
        settings = {"site.global.history.dir": folder} if folder else {}
        compiled = compile_with(package(settings=settings), storage=libraries)
        assert (STORAGE_DIR in compiled.spec.master.files) == has
        assert STORAGE_DIR in compiled.spec.services["worker"].files
