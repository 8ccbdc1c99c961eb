"""The command line's changes: where each goes, and where its findings stand."""

import pytest

from tests.package.packages import make_package, report
from tfapp.documents import Document
from tfapp.package.load import load_package
from tfapp.package.overrides import Override, Overrides
from tfapp.problems import Position

ALL = Overrides(
    options=(("site.global.x", "1"), ("yarn.memory", "2")),
    compopts=(("worker", "env.A", "3"), ("worker", "yarn.vcores", "4")),
    resopts=(("yarn.memory", "5"),),
    rescompopts=(("worker", "yarn.memory", "6"),),
    components=(("worker", "7"),),
)


def test_entries_in_the_order_of_application():
    worker = ("components", "worker")
    instances = "yarn.component.instances"
    at = Position
    assert list(ALL.entries()) == [
        Override("appConfig", ("global", "site.global.x"), "1", at("--option site.global.x")),
        Override("resources", ("global", "yarn.memory"), "2", at("--option yarn.memory")),
        Override("resources", (*worker, instances), "7", at("--component worker")),
        Override("appConfig", (*worker, "env.A"), "3", at("--compopt worker env.A")),
        Override("resources", (*worker, "yarn.vcores"), "4", at("--compopt worker yarn.vcores")),
        Override("resources", ("global", "yarn.memory"), "5", at("--resopt yarn.memory")),
        Override("resources", (*worker, "yarn.memory"), "6", at("--rescompopt worker yarn.memory")),
    ]


def test_the_options_for_people_to_read():
    program = ("site.global.user.scripts.args", "--epochs 8")
    assert Overrides(options=(program,)).in_words() == ()
    hook = ("site.global.on.end", "slack https://hooks.slack.com/T/B/secret")
    assert Overrides(options=(hook,)).in_words() == ("site.global.on.end",)
    assert ALL.in_words() == (
        "site.global.x=1",
        "yarn.memory=2",
        "yarn.memory=5",
        "worker env.A",
        "worker yarn.vcores=4",
        "worker yarn.memory=6",
    )


def test_apply_touches_its_own_document():
    document = Document.from_value({"global": {"site.global.x": "0", "y": "0"}}, "f")
    assert ALL.apply("appConfig", document).data == {
        "global": {"site.global.x": "1", "y": "0"},
        "components": {"worker": {"env.A": "3"}},
    }
    assert ALL.apply("metainfo", document) == document
    assert document.data == {"global": {"site.global.x": "0", "y": "0"}}


def test_overrides_reach_the_package(tmp_path):
    overrides = Overrides(
        options=(("site.global.user.data.dir", "/data"), ("yarn.memory", "3 GiB")),
        compopts=(("worker", "site.global.user.data.dir", "1.10"),),
        rescompopts=(("ps", "yarn.memory", "512"),),
        components=(("worker", "5"),),
    )
    package = load_package(make_package(tmp_path), overrides=overrides).package
    data = "site.global.user.data.dir"
    assert {name: values[data].text for name, values in package.config.components.items()} == {
        "chief": "/data",
        "worker": "1.10",
        "ps": "/data",
    }
    assert {name: (r.instances, r.container.memory) for name, r in package.resources.items()} == {
        "chief": (1, 3072),
        "worker": (5, 3072),
        "ps": (1, 512),
    }


def test_a_wrong_value_is_found_at_its_option(tmp_path):
    overrides = Overrides(
        options=(
            ("site.global.run.mod", "docker"),
            ("site.global.gang.timeout", "soon"),
        ),
        rescompopts=(("evaluator", "yarn.memory", "512"),),
    )
    folder = make_package(tmp_path)
    assert (
        report(load_package(folder, overrides=overrides).problems, folder)
        == """\
--option site.global.gang.timeout: error: site.global.gang.timeout: expected a number of seconds \
above 0, or one with a unit (s, min, h, d), found 'soon' [wrong-value]
--option site.global.run.mod: error: unknown key 'site.global.run.mod' [unknown-key]
  hint: did you mean 'site.global.run.mode'?
--rescompopt evaluator yarn.memory: error: metainfo has no component 'evaluator' \
[unknown-component]
  hint: metainfo's components are chief, worker, ps
"""
    )


WORKER = {"yarn.component.instances": 1, "yarn.role.priority": "7"}


@pytest.mark.parametrize(
    ("components", "priority"),
    [({"worker": WORKER}, "8"), ({}, "1"), (None, "1"), ({"worker": "odd"}, "1")],
    ids=str,
)
def test_a_component_that_resources_lack_gets_a_free_priority(components, priority):
    overrides = Overrides(components=(("chief", "1"),))
    document = Document.from_value({"components": components}, "resources.yaml")
    assert overrides.apply("resources", document).data["components"]["chief"] == {
        "yarn.component.instances": "1",
        "yarn.role.priority": priority,
    }


@pytest.mark.parametrize(
    ("option", "overrides"),
    [
        ("--component wroker", Overrides(components=(("wroker", "1"),))),
        ("--compopt wroker env.A", Overrides(compopts=(("wroker", "env.A", "1"),))),
        (
            "--rescompopt wroker yarn.memory",
            Overrides(rescompopts=(("wroker", "yarn.memory", "1024"),)),
        ),
    ],
)
def test_a_component_that_does_not_exist_is_called_that(tmp_path, option, overrides):
    folder = make_package(tmp_path)
    assert (
        report(load_package(folder, overrides=overrides).problems, folder)
        == f"""\
{option}: error: metainfo has no component 'wroker' [unknown-component]
  hint: did you mean 'worker'?
"""
    )


def test_the_master_is_no_component_but_may_be_sized(tmp_path):
    overrides = Overrides(rescompopts=(("slider-appmaster", "yarn.memory", "2048"),))
    loaded = load_package(make_package(tmp_path), overrides=overrides)
    assert loaded.package is not None
    assert loaded.package.master.container.memory == 2048


def test_rules_find_at_the_option(tmp_path):
    overrides = Overrides(
        options=(("site.global.user.data.dir", "${NOPE}"),),
        components=(("chief", "2"),),
    )
    folder = make_package(tmp_path)
    assert (
        report(load_package(folder, overrides=overrides).problems, folder)
        == """\
--component chief: error: 'chief' has 2 instances, metainfo allows at most 1 [instance-count]
  hint: lower yarn.component.instances of 'chief'
--option site.global.user.data.dir: error: there is no placeholder ${NOPE} [unknown-placeholder]
  hint: values are not given to a shell; write what it stands for, or ${DOLLAR}{NOPE} to keep it
"""
    )
