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


def found(conf, master="yarn", own=None, **sizes):
    """(severity, message, hint) of an application of components with `sizes`, (instances, MiB,
    vcores) each."""
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
    problems = check(Context(conf, master), compile_with(built, python="python3"))
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
