"""TF_CONFIG, Slider's flags and TF-Spawner's variables for every layout."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tfapp.contract.messages import Member
from tfapp.runner import tensorflow_env
from tfapp.runner.tensorflow_env import NoAddressError


def cluster(**counts: int) -> tuple[Member, ...]:
    """Members in job order, each at "<component><index>:1"."""
    return tuple(
        Member(
            instance=f"{role}/{index}",
            component=role,
            index=index,
            role=role,
            host=f"{role}{index}",
            exports={role: {"host_port": f"{role}{index}:1"}},
        )
        for role, count in counts.items()
        for index in range(count)
    )


LAYOUT = cluster(ps=2, chief=1, worker=2, evaluator=1, tensorboard=1)
SPEC = {"ps": ["ps0:1", "ps1:1"], "chief": ["chief0:1"], "worker": ["worker0:1", "worker1:1"]}
HOSTS = {"PS_HOSTS": "ps0:1,ps1:1", "WORKER_HOSTS": "chief0:1,worker0:1,worker1:1"}


def test_two_members_at_one_address():
    worker, other = cluster(worker=2)
    same = (worker, dataclasses.replace(other, exports=worker.exports))
    with pytest.raises(NoAddressError) as caught:
        tensorflow_env.tf_config("worker/0", same)
    assert str(caught.value) == (
        "worker/0 and worker/1 both export worker0:1: on one host each needs a port of its own, "
        "as ${worker.ALLOCATED_PORT}{PER_CONTAINER} gives it"
    )


@pytest.mark.parametrize(
    ("instance", "task"),
    [
        ("chief/0", {"type": "chief", "index": 0}),
        ("worker/1", {"type": "worker", "index": 1}),
        ("ps/1", {"type": "ps", "index": 1}),
        ("evaluator/0", {"type": "evaluator", "index": 0}),
    ],
)
def test_tf_config(instance, task):
    own = {"evaluator": ["evaluator0:1"]} if instance == "evaluator/0" else {}
    assert json.loads(tensorflow_env.tf_config(instance, LAYOUT)) == {
        "cluster": {**SPEC, **own},
        "task": task,
    }


@pytest.mark.parametrize(("host", "address"), [("h", "h:0"), ("::1", "[::1]:0")])
def test_an_evaluator_that_exports_no_address(host, address):
    evaluator = dataclasses.replace(cluster(evaluator=1)[0], host=host, exports={})
    config = json.loads(tensorflow_env.tf_config("evaluator/0", (*cluster(chief=1), evaluator)))
    assert config["cluster"] == {"chief": ["chief0:1"], "evaluator": [address]}


MEMBERS = "ps0,ps1,chief0,worker0,worker1,evaluator0"


@pytest.mark.parametrize(
    ("env", "without"),
    [
        ({}, None),
        ({"no_proxy": "a"}, None),
        ({"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:1"}, None),
        ({"http_proxy": ""}, None),
        ({"http_proxy": "http://p:1"}, MEMBERS),
        ({"https_proxy": "http://p:1"}, MEMBERS),
        ({"grpc_proxy": "http://p:1"}, MEMBERS),
        ({"http_proxy": "p", "no_proxy": "a, b,"}, f"a,b,{MEMBERS}"),
        ({"http_proxy": "p", "no_proxy": "a", "no_grpc_proxy": "c,ps1"}, f"c,ps1,{MEMBERS[:4]}"
         + MEMBERS[8:]),
    ],
)  # fmt: skip
def test_members_are_reached_without_a_proxy(env, without):
    """Whatever gRPC reads; and what the user has excepted stays so."""
    expected = {} if without is None else {"no_grpc_proxy": without}
    assert tensorflow_env.without_proxy(LAYOUT, env) == expected


def test_an_address_in_brackets_is_excepted_without_them():
    member = Member("worker/0", "worker", 0, "worker", "::1", {"w": {"host_port": "[::1]:5"}})
    found = tensorflow_env.without_proxy((member,), {"http_proxy": "p"})
    assert found == {"no_grpc_proxy": "::1"}


@pytest.mark.parametrize(
    ("instance", "job", "index"),
    [
        ("chief/0", "worker", "0"),
        ("worker/0", "worker", "1"),
        ("worker/1", "worker", "2"),
        ("ps/1", "ps", "1"),
        ("evaluator/0", "evaluator", "0"),
        ("tensorboard/0", "tensorboard", "0"),
    ],
)
def test_slider_flags_count_a_chief_as_worker_0(instance, job, index):
    flags = {"JOB_NAME": job, "TASK_INDEX": index, **HOSTS}
    assert tensorflow_env.slider_flags(instance, LAYOUT) == flags


@pytest.mark.parametrize(
    ("instance", "layout", "variables"),
    [
        ("chief/0", LAYOUT, {"WORKER_NUMBER": "0", "TOT_WORKERS": "3"}),
        ("worker/1", LAYOUT, {"WORKER_NUMBER": "2", "TOT_WORKERS": "3"}),
        ("ps/0", LAYOUT, {"TOT_WORKERS": "3"}),
        ("worker/1", cluster(worker=2), {"WORKER_NUMBER": "1", "TOT_WORKERS": "2"}),
    ],
)
def test_spawner_variables(instance, layout, variables):
    assert tensorflow_env.spawner_environment(instance, layout) == variables


def test_without_a_chief_worker_0_is_the_first():
    members = cluster(worker=2)
    assert json.loads(tensorflow_env.tf_config("worker/0", members)) == {
        "cluster": {"worker": ["worker0:1", "worker1:1"]},
        "task": {"type": "worker", "index": 0},
    }
    assert tensorflow_env.slider_flags("worker/0", members)["TASK_INDEX"] == "0"


def test_components_of_one_role_share_its_indexes():
    fast = Member("fast/0", "fast", 0, "worker", "f", {"fast": {"host_port": "f:1"}})
    slow = Member("slow/0", "slow", 0, "worker", "s", {"slow": {"host_port": "s:1"}})
    config = json.loads(tensorflow_env.tf_config("slow/0", (fast, slow)))
    assert config == {
        "cluster": {"worker": ["f:1", "s:1"]},
        "task": {"type": "worker", "index": 1},
    }


def test_a_member_without_an_address_is_named():
    member = Member("worker/0", "worker", 0, "worker", "h", {"worker": {"url": "http://h"}})
    with pytest.raises(NoAddressError) as error:
        tensorflow_env.tf_config("worker/0", (member,))
    assert str(error.value) == (
        "worker/0 exports no host_port: give component worker a compExports word "
        "<group>-host_port in metainfo"
    )


def test_all_variables_of_a_task():
    members = cluster(chief=1)
    assert tensorflow_env.task_environment("chief/0", members) == {
        "TF_CONFIG": tensorflow_env.tf_config("chief/0", members),
        "WORKER_NUMBER": "0",
        "TOT_WORKERS": "1",
    }
