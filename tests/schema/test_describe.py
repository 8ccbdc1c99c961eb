import pytest

from tfapp.schema import KINDS, KeyDescription, defaults, describe

EXTENSION = {
    "properties": {
        "site.global.batch": {"$ref": "#/$defs/count", "default": 32, "examples": [64]},
    },
    "$defs": {"count": {"type": "integer", "minimum": 1, "description": "Rows at a time."}},
}


def rows(kind, extra=None):
    return {(row.section, row.key): row for row in describe(kind, extra)}


def test_a_key_with_all_that_is_said_of_it():
    assert rows("resources")["components.<component>", "yarn.component.instances"] == (
        KeyDescription(
            section="components.<component>",
            key="yarn.component.instances",
            type="a whole number from 0 to 100000",
            default="",
            description="How many instances the component has; --component NAME COUNT gives "
            "another number.",
            examples=("2",),
            status="",
        )
    )


def test_a_refused_key_says_why_and_what_instead():
    row = rows("metainfo")["application.components[]", "commands"]
    assert row.status == "refused"
    assert row.description == (
        "Slider: shell commands in place of a script. Refused: a component is started by its "
        "commandScript, not by shell commands. Write a script whose start() returns the command "
        "as the Program to run."
    )


def test_an_ignored_key_says_why():
    row = rows("appConfig")["global", "zookeeper.quorum"]
    assert (row.status, row.description) == (
        "ignored",
        "Slider: its use of ZooKeeper. Ignored: tfapp uses no ZooKeeper.",
    )


def test_keys_of_a_pattern_have_a_name_for_people():
    described = rows("appConfig")
    assert ("global", "site.global.<component>.port") in described
    assert ("global", "env.<NAME>") in described
    assert ("components", "<component>") in described


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_is_described_twice(kind):
    described = describe(kind)
    assert len(described) == len(rows(kind))


def test_a_packages_own_keys_are_part_of_the_manual():
    assert rows("appConfig", EXTENSION)["global", "site.global.batch"] == KeyDescription(
        section="global",
        key="site.global.batch",
        type="a whole number of at least 1",
        default="32",
        description="Rows at a time.",
        examples=("64",),
        status="",
    )


def test_defaults_of_resources():
    assert defaults("resources", "component") == {
        "yarn.memory": 1024,
        "yarn.vcores": 1,
        "yarn.gpus": 0,
        "yarn.label.expression": "",
        "yarn.relax.locality": False,
        "yarn.container.failure.threshold": 5,
        "yarn.container.failure.window.hours": 6,
    }
    assert defaults("resources", "master") == {
        "yarn.memory": 1024,
        "yarn.vcores": 1,
        "yarn.label.expression": "",
    }


def test_defaults_of_metainfo():
    assert defaults("metainfo", "commandScript") == {"scriptType": "PYTHON", "timeout": 600}


def test_defaults_of_app_config_with_a_packages_own():
    standard = defaults("appConfig")
    assert standard["site.global.run.mode"] == "local"
    assert standard["site.global.keras.legacy"] is True
    assert defaults("appConfig", extra=EXTENSION) == {**standard, "site.global.batch": 32}


def test_there_are_no_defaults_of_nothing():
    with pytest.raises(KeyError):
        defaults("resources", "nothing")
