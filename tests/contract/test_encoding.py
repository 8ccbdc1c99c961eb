"""Values of the contract come back from JSON as they were."""

import dataclasses
import importlib
import json

import pytest

from tfapp.contract.encoding import Coded, _readers, encode
from tfapp.contract.exit import Exit
from tfapp.contract.job import Docker, Mount
from tfapp.contract.messages import Cluster, Member
from tfapp.contract.status import (
    ApplicationStatus,
    Cause,
    Curve,
    FeedStatus,
    InstanceStatus,
    Moment,
    Samples,
    Series,
    Verdict,
)

FAILED = Exit(3, None, "exit", "exit code 3")
STATUS = ApplicationStatus(
    name="app",
    state="FAILED",
    generation=None,
    started=1.0,
    updated=2.5,
    instances=(
        InstanceStatus("worker/0", "worker", "worker", "FAILED", exit=FAILED, metrics={"a": 1.5}),
        InstanceStatus("ps/0", "ps", "ps", "LOST", exports={"ps": {"host": "h:1"}}),
    ),
    verdict=Verdict("FAILED", 56, "It failed.", Cause("worker/0", 1, "h", "c", FAILED, "a\nb")),
    timeline=(Moment(1.0, "begins", "begins", generation=1),),
    curves=(Curve("worker/0", "loss", ((0.0, None, 1.0), (1.0, 7, 0.5))),),
    samples=Samples((0.5, 5.5), (Series("worker", "loss", "- 1.5", "lowest", True),)),
    joined={"worker/1": 2},
    feed=FeedStatus(rows=7, instances={"worker/0": 7}),
)
DOCKER = Docker(
    "i", "never", 1.0, (Mount("/a", "/b", True),), ulimits={"nofile": (1, 2)}, cap_drop=("ALL",)
)
CLUSTER = Cluster(2, (Member("ps/0", "ps", 0, "ps", "h", {"ps": {"host": "h:1"}}),), ("worker",))


@pytest.mark.parametrize("value", [STATUS, DOCKER, CLUSTER, FAILED], ids=lambda v: type(v).__name__)
def test_a_value_comes_back(value):
    data = json.loads(encode(value))
    assert type(value).from_dict(data) == value
    assert type(value).from_dict({**data, "of a newer tfapp": 1}) == value


def test_what_is_not_there_is_the_default():
    assert Docker.from_dict({"image": "i", "pull": "never", "pull_timeout": 1.0}) == Docker(
        "i", "never", 1.0
    )


@pytest.mark.parametrize("data", [{}, {"code": 1}, [], None, "text"])
def test_other_data_is_refused(data):
    with pytest.raises(ValueError):
        Exit.from_dict(data)


def test_a_list_is_no_value_even_where_all_has_a_default():
    with pytest.raises(ValueError):
        FeedStatus.from_dict([])


def changed(data):
    """`data` with one of its values of another type, once for each."""
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            for other in changed(value):
                copy = data.copy()
                copy[key] = other
                yield copy
    if data is not None:  # what may be null may also be of its own type
        yield 3 if isinstance(data, str) else "x"


def test_a_value_of_another_type_is_refused():
    data = json.loads(encode(STATUS))
    data["instances"][0]["metrics"], data["curves"] = {}, []
    wrong = list(changed(data))
    assert len(wrong) > 60
    for each in wrong:
        with pytest.raises(ValueError, match="^expected "):
            ApplicationStatus.from_dict(each)


def test_the_types_of_all_fields_can_be_read():
    for module in ("engines.definition", "engines.machine.state", "engines.kubernetes.pod.record"):
        importlib.import_module(f"tfapp.{module}")
    assert len(Coded.__subclasses__()) > 20
    for cls in Coded.__subclasses__():
        assert _readers(cls).keys() == {field.name for field in dataclasses.fields(cls)}
