import dataclasses
import re

import pytest

from tests.engines.kubernetes.api_server import Answer, ApiServer
from tfapp.contract import status as moments
from tfapp.contract.status import ApplicationStatus, Moment, Verdict
from tfapp.engines.kubernetes.pod import events
from tfapp.engines.kubernetes.pod.api import Api
from tfapp.engines.kubernetes.pod.events import EVERY, MOST, REASONS, Events

HISTORY = (
    Moment(1.0, "generation 1 begins", moments.BEGINS, "", 1),
    Moment(2.0, "generation 1 starts, 2 instances", moments.STARTS, "", 1),
    Moment(3.0, "worker/1 was lost with its node", moments.FAILURE, "worker/1", 1),
    Moment(3.0, "as an older version wrote it"),
    Moment(4.0, "the application's master was lost and is back", moments.FAILURE),
    Moment(4.5, "gets another container", moments.REPLACED, "worker/1", 2),
)
RUNNING = ApplicationStatus("a", "RUNNING", 2, 1.0, 5.0, (), timeline=HISTORY)
FAILED = Verdict("FAILED", 65, "Failed: worker/1: exit code 3")


@pytest.fixture
def server():
    return ApiServer()


@pytest.fixture
def told(server, clock):
    """`told()` -> (reason, message) of all Events that there are, in their order. `told.events`
    makes them; `told.another()` those of another master."""

    def found():
        made = [each for key, each in server.objects.items() if key.startswith("Event/")]
        return [(each["reason"], each["message"]) for each in made]

    def another() -> Events:
        return Events(Api(server, "team", clock, clock.sleep), "tfapp-a-1", "u", "master", clock)

    found.another, found.events = another, another()
    return found


def test_the_history_and_the_verdict_are_told_once(told):
    for status in (RUNNING, RUNNING, dataclasses.replace(RUNNING, timeline=HISTORY[1:])):
        told.events.tell(status)
    told.events.verdict(dataclasses.replace(RUNNING, verdict=FAILED))
    assert told() == [
        ("Forming", "generation 1 begins"),
        ("Formed", "generation 1 starts, 2 instances"),
        ("InstanceFailed", "worker/1 was lost with its node"),
        ("MasterReplaced", "the application's master was lost and is back"),
        ("Replaced", "worker/1: gets another container"),
        ("Failed", "Failed: worker/1: exit code 3"),
    ]


def test_an_event_is_of_the_job(server, told):
    told.events.tell(dataclasses.replace(RUNNING, timeline=HISTORY[2:3]))
    (event,) = server.objects.values()
    assert event["involvedObject"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "tfapp-a-1",
        "namespace": "team",
        "uid": "u",
    }
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "1970-01-01T00:00:03Z"
    assert re.fullmatch(r"tfapp-a-1\.[0-9a-f]{16}", event["metadata"]["name"])


def test_another_master_does_not_tell_it_again(server, told):
    told.events.tell(RUNNING)
    before = told()
    told.another().tell(RUNNING)
    assert told() == before


def test_the_rate_is_bounded_but_the_verdict_is_always_told(clock, told):
    many = [Moment(float(n), f"failure {n}", moments.FAILURE) for n in range(3 * MOST)]
    status = dataclasses.replace(RUNNING, timeline=tuple(many))
    told.events.tell(status)
    assert len(told()) == MOST
    told.events.tell(status)  # what had no room is in the history alone
    assert len(told()) == MOST
    clock.now += 2 * EVERY
    more = [Moment(1e3 + n, f"more {n}", moments.FAILURE) for n in range(3)]
    told.events.tell(dataclasses.replace(RUNNING, timeline=(*many, *more)))
    assert [message for _, message in told()[MOST:]] == ["more 0", "more 1"]
    told.events.verdict(dataclasses.replace(RUNNING, verdict=FAILED))
    assert told()[-1][0] == "Failed"


def test_what_the_server_does_not_take_now_is_told_later(server, told):
    told.events.tell(dataclasses.replace(RUNNING, timeline=HISTORY[:1]))
    server.away = True
    told.events.tell(RUNNING)
    server.away = False
    told.events.tell(RUNNING)
    reasons = [reason for reason, _ in told()]
    assert reasons == ["Forming", "Formed", "InstanceFailed", "MasterReplaced", "Replaced"]


def test_without_the_right_nothing_more_is_tried(server, told, caplog):
    server.refusals.append(Answer({"reason": "Forbidden", "message": "no"}, 403))
    told.events.tell(RUNNING)
    told.events.verdict(dataclasses.replace(RUNNING, verdict=FAILED))
    assert told() == []
    assert len([request for request in server.requests if request.method == "POST"]) == 1
    assert caplog.text.count("no Events are made: ") == 1


def test_a_long_text_is_cut(told):
    long = Moment(1.0, "x" * 5000, moments.FAILURE)
    told.events.tell(dataclasses.replace(RUNNING, timeline=(long,)))
    assert len(told()[0][1]) == events.MAX_MESSAGE


def test_every_kind_of_moment_has_a_reason():
    kinds = {
        value
        for name, value in vars(moments).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch(r"[a-z-]+", value)
    }
    assert set(REASONS) | {moments.ENDS} >= kinds - {moments.OWN_STEP}
