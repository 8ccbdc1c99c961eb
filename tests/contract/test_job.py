"""What an application runs, for people to read."""

import dataclasses
import json

from tests.contract_values import make_component, make_docker, make_job
from tfapp.contract.encoding import encode
from tfapp.contract.job import MAX_OPTION, MAX_OPTIONS, Resources
from tfapp.contract.status import ApplicationStatus, Ran, RanComponent, fitting

ENTRY, ARGS = "site.global.user.scripts.entry", "site.global.user.scripts.args"


def test_what_runs():
    job = make_job(
        make_component(site={ENTRY: "fit.py", ARGS: "--epochs 8"}),
        make_component(
            name="ps",
            instances=1,
            site={ENTRY: "tfapp-call/main.py", "site.global.python.executable": "/opt/python3"},
            container=Resources(512, 2, 1),
            docker=make_docker("img:1"),
        ),
        make_component(name="tensorboard", role="tensorboard", site={ENTRY: "fit.py"}),
        make_component(name="chief", instances=0),
        called={"ps": "train (t2.py:9)"},
        options=("site.global.x=1",),
        tfapp="1.2",
        commit="abc",
    )
    assert job.ran == Ran(
        (
            RanComponent("worker", "fit.py --epochs 8", 2, 1024, 1, 0, "python3", ""),
            RanComponent("ps", "train (t2.py:9)", 1, 512, 2, 1, "/opt/python3", "img:1"),
            RanComponent("tensorboard", "", 2, 1024, 1, 0, "python3", ""),
        ),
        ("site.global.x=1",),
        "1.2",
        "ada",
        "abc",
    )


def test_a_program_that_no_setting_names_is_not_told():
    """Its script alone knows it: the default of the entry is not what runs. A command is."""
    command = {ENTRY: "train.py", "site.global.user.scripts.command": "serve"}
    own = make_component(name="own", role="other", site={ENTRY: "train.py"})
    given = make_component(name="given", role="other", site=command)
    ran = make_job(own, given, called={"own": "", "given": ""}).ran
    assert [one.program for one in ran.components] == ["", "serve"]


def test_what_is_told_of_it_is_bounded():
    site = {ENTRY: "fit.py", ARGS: "x" * 100_000}
    ran = make_job(make_component(site=site), options=("k=" + "v" * 1000,) * 1000).ran
    assert len(ran.components[0].program) == MAX_OPTION
    assert len(ran.options) == MAX_OPTIONS
    assert {len(option) for option in ran.options} == {MAX_OPTION}
    status = ApplicationStatus("a", "RUNNING", 1, 1.0, 2.0, (), ran=ran)
    assert ApplicationStatus.from_dict(json.loads(encode(status))) == status
    left = ApplicationStatus.from_dict(json.loads(fitting(status, 1000)))
    assert left == dataclasses.replace(status, ran=None)
