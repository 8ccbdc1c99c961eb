"""What is said of an application before anything is made, by the settings of a SparkContext."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from tests.compiler.packages import compile_with, component, package, resources
from tfapp.engines.spark.preflight import check
from tfapp.engines.spark.session import mebibytes, overhead_memory
from tfapp.problems import ERROR, WARNING, Position

PROTECTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@dataclasses.dataclass(frozen=True)
class Context:
    """As much of a SparkContext as is looked at."""

    conf: Mapping[str, str]
    master: str = "yarn"

    def getConf(self) -> Mapping[str, str]:
        return {"spark.executor.instances": "9", **PROTECTED, **self.conf}


@pytest.fixture(autouse=True)
def executors_python(monkeypatch):
    """What is wrong with it, by what a test has put there."""
    wrong = [""]
    look = "tfapp.engines.spark.preflight.unfit"
    monkeypatch.setattr(look, lambda context, python: wrong[0] and f"{python} {wrong[0]}")
    return wrong


@pytest.fixture(autouse=True)
def slots(monkeypatch):
    """Of the registered executors, by what a test has put there, and those that are free."""
    now = [0, 0]
    monkeypatch.setattr("tfapp.engines.spark.session.slots", lambda context: tuple(now))
    return now


def found(conf, master="yarn", own=None, fed=False, **sizes):
    """(severity, message, hint) of an application of components with `sizes`, (instances, MiB,
    vcores) each. `fed`: by the same session."""
    built = package(
        *map(component, sizes),
        resources={
            name: resources(
                name,
                instances,
                priority,
                memory=memory,
                vcores=vcores,
                positions={"yarn.memory": Position("app/resources.yaml", priority, 20)},
            )
            for priority, (name, (instances, memory, vcores)) in enumerate(sizes.items(), start=1)
        },
        own=own,
    )
    problems = check(Context(conf, master), compile_with(built, python="python3"), fed)
    return [(p.severity, p.message, p.hint) for p in problems]


@pytest.mark.parametrize(
    ("conf", "room"),
    [
        ({}, 384),
        ({"spark.executor.memory": "8g"}, 819),
        (
            {
                "spark.executor.memory": "8192",
                "spark.executor.memoryOverheadFactor": "0.5",
            },
            4096,
        ),
        ({"spark.executor.minMemoryOverhead": "1g"}, 1024),
        (
            {"spark.executor.memory": "8g", "spark.executor.memoryOverhead": "3000"},
            3000,
        ),
        ({"spark.executor.memoryOverhead": "4gb"}, 4096),
        # Of which the Python of tasks has its own part.
        ({"spark.executor.memoryOverhead": "1g", "spark.executor.pyspark.memory": "2g"}, 3072),
        ({"spark.executor.pyspark.memory": "2g"}, 384 + 2048),
    ],
)
def test_overhead_memory(conf, room):
    assert overhead_memory(Context(conf)) == room


def test_overhead_memory_by_cluster_manager():
    conf = {
        "spark.executor.memory": "8g",
        "spark.kubernetes.memoryOverheadFactor": "0.4",
    }
    masters = (
        "k8s://https://host:6443",
        "yarn",
        "spark://host:7077",
        "local-cluster[2,1,1024]",
    )
    rooms = [overhead_memory(Context(conf, master)) for master in masters]
    assert rooms == [3276, 819, None, None]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2g", 2048),
        ("512M", 512),
        ("1536", 1536),
        ("2048k", 2),
        ("1T", 1 << 20),
        (" 3GB ", 3072),
    ],
)
def test_amounts_of_memory(text, amount):
    assert mebibytes(text) == amount


def test_a_container_that_has_no_room_beside_the_heap():
    assert found({}, worker=(2, 4096, 1), ps=(1, 256, 1)) == [
        (
            ERROR,
            "4096 MiB, and an executor has 384 MiB beside its heap",
            "before the session begins, set spark.executor.memoryOverhead=4096m or more",
        )
    ]
    assert found({"spark.executor.memoryOverhead": "4g"}, worker=(2, 4096, 1)) == []
    assert found({}, "spark://host:7077", worker=(2, 4096, 1)) == []


def test_containers_that_have_no_room_together():
    conf = {"spark.executor.cores": "4", "spark.executor.memoryOverhead": "2g"}
    assert found(conf, worker=(2, 1024, 2)) == []
    assert found(conf, worker=(9, 1024, 3)) == []  # one on each executor
    # Two workers and the ps are 3 cores; a third worker is the fourth.
    assert found(conf, worker=(3, 1024, 1), ps=(1, 512, 1)) == [
        (
            WARNING,
            "an executor has 4 cores, so containers of 3584 MiB together can be on it, and "
            "2048 MiB beside its heap",
            "before the session begins, set spark.executor.memoryOverhead=3584m or more; or fewer "
            "cores with spark.executor.cores",
        )
    ]


def test_on_the_driver_no_executor_has_to_have_room():
    own = {"worker": {"site.global.spark.on.driver": "true"}}
    unsafe = {"spark.authenticate": "false"}  # and no credentials travel
    assert found(unsafe, own=own, worker=(1, 4096, 1)) == []


CRYPTO, TLS = "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"
SASL = "spark.authenticate.enableSaslEncryption"


@pytest.mark.parametrize(
    ("conf", "off"),
    [
        ({}, ["spark.authenticate", CRYPTO]),
        (
            {"spark.authenticate": "false", "spark.ssl.enabled": "true"},
            ["spark.authenticate", CRYPTO],
        ),
        ({"spark.authenticate": "true"}, [CRYPTO]),
        ({CRYPTO: "true"}, ["spark.authenticate"]),
        ({TLS: "true"}, ["spark.authenticate"]),
        ({"spark.authenticate": "true", CRYPTO: "TRUE"}, []),
        ({"spark.authenticate": "true", TLS: "true"}, []),
        ({"spark.authenticate": "true", SASL: "true"}, []),
    ],
)
def test_credentials_travel_unprotected(conf, off):
    nothing = dict.fromkeys(PROTECTED, "")
    said = found({**nothing, **conf}, worker=(2, 256, 1))
    if not off:
        assert said == []
        return
    ((severity, message, hint),) = said
    verb = "is" if len(off) == 1 else "are"
    assert (severity, message) == (
        WARNING,
        f"Spark's connections are not protected: {' and '.join(off)} {verb} off",
    )
    assert f"Set {' and '.join(f'{key}=true' for key in off)} before the session begins" in hint


STANDALONE = "spark://host:7077"
MORE = (
    "give Spark more with spark.cores.max, or spark.executor.instances and spark.executor.cores, "
    "or ask for fewer instances"
)
HOLDS = f"each container holds a slot: {MORE}"
FEEDS = f"each container holds a slot, and feeding needs one more: {MORE}"


@pytest.mark.parametrize(
    ("conf", "master", "fed", "size", "said"),
    [
        ({"spark.cores.max": "4"}, STANDALONE, False, (4, 256, 1), None),
        (
            {"spark.cores.max": "4"},
            STANDALONE,
            False,
            (5, 256, 1),
            ("5 containers on executors, and Spark runs at most 4 tasks at a time", HOLDS),
        ),
        ({"spark.cores.max": "4"}, STANDALONE, True, (3, 256, 1), None),
        (
            {"spark.cores.max": "4"},
            STANDALONE,
            True,
            (4, 256, 1),
            (
                "4 containers on executors leave no slot from which they could be fed: Spark runs "
                "at most 4 tasks at a time",
                FEEDS,
            ),
        ),
        (
            {"spark.cores.max": "4"},
            STANDALONE,
            False,
            (3, 256, 2),
            (
                "3 containers on executors with 6 cores, and Spark runs at most 4 tasks at a time, "
                "on 4 cores",
                HOLDS,
            ),
        ),
        # A task has two cores, and so have containers; an executor's fifth is nobody's.
        (
            {
                "spark.executor.instances": "2",
                "spark.executor.cores": "5",
                "spark.task.cpus": "2",
                "spark.executor.memoryOverhead": "4g",
            },
            "yarn",
            True,
            (4, 256, 2),
            (
                "4 containers on executors leave no slot from which they could be fed: Spark runs "
                "at most 4 tasks at a time",
                FEEDS,
            ),
        ),
        ({"spark.dynamicAllocation.enabled": "true"}, STANDALONE, True, (99, 256, 1), None),
    ],
)
def test_slots_that_can_never_be_there(conf, master, fed, size, said):
    expected = [] if said is None else [(ERROR, *said)]
    assert found(conf, master, fed=fed, worker=size) == expected


def test_slots_that_are_not_there_now(slots):
    assert found({}, STANDALONE, fed=True, worker=(4, 256, 1)) == []  # none has registered yet
    slots[:] = [4, 4]
    assert found({}, STANDALONE, worker=(4, 256, 1)) == []
    assert found({}, STANDALONE, fed=True, worker=(4, 256, 1)) == [
        (
            WARNING,
            "4 containers on executors and a slot from which they are fed, and Spark's executors "
            "have 4 slots now",
            "the application waits for more until site.global.queue.timeout is over",
        )
    ]


def test_the_memory_of_pythons_is_a_limit_of_the_address_space():
    conf = {"spark.executor.pyspark.memory": "3g", "spark.executor.cores": "2"}
    hint = (
        "before the session begins, leave spark.executor.pyspark.memory out and set "
        "spark.executor.memoryOverhead: TensorFlow maps more than it uses"
    )
    limits = "spark.executor.pyspark.memory limits each program's address space to 1536 MiB"
    assert found(conf, STANDALONE, worker=(2, 1024, 1)) == [(WARNING, limits, hint)]
    assert found(conf, STANDALONE, worker=(2, 2048, 1), ps=(1, 256, 1)) == [
        (ERROR, f"{limits}, and this one asks for 2048 MiB", hint)
    ]


def test_a_python_of_executors_that_cannot_run_containers(executors_python):
    executors_python[0] = "lacks grpcio"
    hint = (
        "executors need a Python of the driver's version with grpcio and protobuf, which "
        "TensorFlow brings: PYSPARK_PYTHON, or site.global.python.runner"
    )
    said = [(ERROR, "Python python3 lacks grpcio", hint)]
    assert found({}, worker=(2, 256, 1)) == said
    assert found({}, worker=(99, 256, 1)) != said  # there is no slot to ask in
    own = {"worker": {"site.global.spark.on.driver": "true"}}
    assert found({}, own=own, worker=(2, 256, 1)) == []
    own = {"worker": {"site.global.python.archive": "hdfs:///env.tgz"}}
    assert found({}, own=own, worker=(2, 256, 1)) == []
    assert found({}, own=own, worker=(2, 256, 1), ps=(1, 256, 1)) == said
