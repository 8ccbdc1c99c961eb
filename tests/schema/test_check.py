import importlib.metadata

import pytest
from packaging.version import Version

from tests import programs
from tfapp.documents import Document, read_document
from tfapp.problems import WARNING, Position, Problem
from tfapp.schema import check_document, check_extension
from tfapp.schema.check import normalised
from tfapp.schema.parts import SchemaParts

EXTENSION = {
    "properties": {"site.global.batch": {"$ref": "#/$defs/count", "default": 32}},
    "patternProperties": {"^site\\.layer\\.": {"type": "boolean"}},
    "$defs": {"count": {"type": "integer", "minimum": 1}},
}


def test_data_has_the_types_of_the_schema_and_no_defaults():
    value = {"components": {"worker": {"yarn.role.priority": "1", "yarn.component.instances": "2"}}}
    data, problems = check_document(Document.from_value(value, "<python>"), "resources")
    assert problems == ()
    assert data == {
        "components": {"worker": {"yarn.role.priority": 1, "yarn.component.instances": 2}}
    }


DIGEST = "0123456789abcdef" * 4
IMAGES = {
    "[::1]:5000/team/train:1": True,
    "train": True,
    "team/train:3.1-gpu": True,
    "localhost:5000/team/my_train": True,
    "Registry.example.org/team/train:3@sha256:" + DIGEST: True,
    "sha256:" + DIGEST: True,
    "mine/${USER_NAME}": True,
    "": True,
    "Train": False,
    "my train": False,
    "train:": False,
    "team//train": False,
    "https://example.org/train": False,
    "train@sha256:0123": False,
}


@pytest.mark.parametrize(("image", "fits"), IMAGES.items())
def test_names_of_images(image, fits):
    value = {"global": {"site.global.docker.image": image}}
    _, problems = check_document(Document.from_value(value, "<python>"), "appConfig")
    assert (problems == ()) is fits


HOSTS = {
    **dict.fromkeys(("h", "node-1.example.org", "10.0.0.5", "::1", "fe80::1%eth0", "${x}"), True),
    **dict.fromkeys(
        ("a b", "[::1]", "host:80", "10.0.0.5:80", "fed:80", "http://h", "h/", ""), False
    ),
}


@pytest.mark.parametrize(("host", "fits"), HOSTS.items())
def test_hosts_to_advertise(host, fits):
    value = {"global": {"site.global.advertise.host": host}}
    _, problems = check_document(Document.from_value(value, "<python>"), "appConfig")
    assert (problems == ()) is fits


def test_a_value_of_the_command_line_is_found_at_its_option():
    document, _ = read_document("app.yaml", b"global: {}\n", "yaml")
    option = Position("--option site.global.run.mode")
    changed = document.with_value(("global", "site.global.run.mode"), "lokal", option)
    _, problems = check_document(changed, "appConfig")
    assert problems == (
        Problem(
            option,
            "wrong-value",
            "site.global.run.mode: expected 'local', 'docker' or 'yarn-docker', found 'lokal'",
            hint="did you mean 'local'?",
        ),
    )


def test_an_alias_is_found_where_its_value_stands():
    text = b"global: &shared\n  site.global.stop.grace: soon\ncomponents: {worker: *shared}\n"
    document, _ = read_document("f", text, "yaml")
    _, problems = check_document(document, "appConfig")
    assert [(str(problem.position), problem.code) for problem in problems] == [
        ("f:2:3", "refused-key"),
        ("f:2:27", "wrong-value"),
    ]


def test_a_package_declares_its_own_keys():
    text = b"global:\n  site.global.batch: 0\n  site.layer.x: 'true'\n  site.other.x: 1\n"
    document, _ = read_document("f", text, "yaml")
    extra, none = check_extension(Document.from_value(EXTENSION, "appConfig.schema.json"))
    data, problems = check_document(document, "appConfig", extra)
    assert none == ()
    assert data["global"]["site.layer.x"] is True
    assert [(str(problem.position), problem.code) for problem in problems] == [
        ("f:2:22", "wrong-value"),
        ("f:4:3", "unknown-key"),
    ]


def test_a_packages_keys_hold_for_components_too():
    document = Document.from_value({"components": {"worker": {"site.global.batch": "x"}}}, "f")
    _, (problem,) = check_document(document, "appConfig", EXTENSION)
    assert problem.message == "site.global.batch: expected a whole number of at least 1, found 'x'"


def test_an_extension_changes_nothing_for_other_packages():
    document = Document.from_value({"global": {"site.global.batch": 1}}, "f")
    check_document(document, "appConfig", EXTENSION)
    _, (problem,) = check_document(document, "appConfig")
    assert problem.code == "unknown-key"


def test_an_ignored_key_is_a_warning_with_a_reason():
    document, _ = read_document("f", b"global: {zookeeper.quorum: zk}\n", "yaml")
    _, problems = check_document(document, "appConfig")
    assert problems == (
        Problem(
            Position("f", 1, 10),
            "ignored-key",
            "'zookeeper.quorum' has no effect: tfapp uses no ZooKeeper",
            WARNING,
            "remove it, or leave it for Slider",
        ),
    )


def test_an_unknown_kind_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="'config' is no kind of document"):
        check_document(Document.from_value({}, "f"), "config")


def imported(statements):
    """The modules that a fresh Python has after `statements`."""
    code = f"{statements}\nimport sys; print(*sys.modules)"
    return programs.printed("-c", code).split()


def test_importing_the_room_does_not_import_jsonschema():
    assert "jsonschema" not in imported("import tfapp.schema")


def test_checking_imports_no_network_library():
    modules = imported(
        "from tfapp.documents import Document; from tfapp.schema import check_document\n"
        "check_document(Document.from_value({}, 'f'), 'appConfig')"
    )
    network = {"requests", "urllib3"}
    if Version(importlib.metadata.version("jsonschema")) >= Version("4.26"):
        network.add("http.client")  # before, as for Python 3.9, it imports that by itself
    assert "jsonschema" in modules
    assert network.isdisjoint(modules)


def normalise(text, schema, syntax="yaml"):
    document, problems = read_document("f", text.encode(), syntax)
    assert problems == ()
    return normalised(document.root, SchemaParts(schema))


TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, MAPPING, LIST = {"type": "boolean"}, {"type": "object"}, {"type": "array"}

SCALARS = [
    ("1.10", TEXT, "1.10"),
    ("true", TEXT, "true"),
    ("0x10", TEXT, "0x10"),
    ("~", TEXT, None),
    ("'2'", INTEGER, 2),
    ("' 2 '", INTEGER, 2),
    ("'0x10'", INTEGER, 16),
    ("2.0", INTEGER, 2),
    ("'2.0'", INTEGER, 2),
    ("2.5", INTEGER, 2.5),
    ("010", INTEGER, "010"),
    ("two", INTEGER, "two"),
    ("'true'", INTEGER, "true"),
    ("'2'", NUMBER, 2),
    ("'2.5'", NUMBER, 2.5),
    ("2", NUMBER, 2),
    ("'true'", BOOLEAN, True),
    ("'False'", BOOLEAN, False),
    ("yes", BOOLEAN, "yes"),
    ("1", BOOLEAN, 1),
    ("'2048'", {"type": ["integer", "string"]}, 2048),
    ("2 GiB", {"type": ["integer", "string"]}, "2 GiB"),
    ("2.5", {"type": ["integer", "string"]}, "2.5"),
    ("2.1", {"const": "2.1"}, "2.1"),
    ("'1'", {"enum": [0, 1]}, 1),
    ("'2'", {"anyOf": [INTEGER, {"const": "max"}]}, 2),
    ("'2'", {"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, 2),
    ("'2'", {"allOf": [INTEGER]}, 2),
    ("1.10", {}, 1.1),
    ("", MAPPING, {}),
    ("", LIST, []),
    ("", {"type": ["object", "null"]}, None),
    ("", INTEGER, None),
]


@pytest.mark.parametrize(("text", "schema", "value"), SCALARS)
def test_scalars(text, schema, value):
    result = normalise(text, schema)
    assert (result, type(result)) == (value, type(value))


def test_each_place_has_the_types_of_its_own_schema():
    schema = {
        "properties": {
            "version": TEXT,
            "counts": {"items": INTEGER},
            "pair": {"prefixItems": [TEXT]},
        },
        "patternProperties": {"^n\\.": NUMBER},
        "additionalProperties": {"type": "object", "additionalProperties": BOOLEAN},
    }
    text = "version: 1.0\ncounts: ['1', 2]\npair: [1.0, 1.0]\nn.a: '3'\nother: {x: 'true'}\n"
    assert normalise(text, schema) == {
        "version": "1.0",
        "counts": [1, 2],
        "pair": ["1.0", 1.0],
        "n.a": 3,
        "other": {"x": True},
    }


def test_json_is_treated_the_same():
    schema = {"properties": {"version": TEXT, "count": INTEGER}}
    assert normalise('{"version": 1.10, "count": "2"}', schema, "json") == {
        "version": "1.10",
        "count": 2,
    }
