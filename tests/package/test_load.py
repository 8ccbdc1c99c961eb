"""Loading as a whole: which files are read, and how far each stage goes when another fails."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.package.packages import BASE, make_package, report, sound
from tfapp.package.load import load_package
from tfapp.package.overrides import Overrides
from tfapp.problems import Position


def findings(folder, **how):
    return report(load_package(folder, **how).problems, folder)


def test_a_sound_package():
    loaded = load_package(BASE)
    assert loaded.problems == ()
    package = loaded.package
    assert package == sound(BASE)
    assert [(c.name, c.role, c.script_timeout) for c in package.components] == [
        ("chief", "chief", 600.0),
        ("worker", "worker", 600.0),
        ("ps", "ps", 600.0),
    ]
    assert package.component("chief").max_instances == 1
    assert package.exports[1].value == "${worker_HOST}:${site.global.worker.port}"
    worker = package.config.components["worker"]
    assert worker["site.global.gang.timeout"].text == "600"
    assert worker["site.global.gang.timeout"].is_default
    assert worker["site.global.user.scripts.entry"].at == Position(
        f"{BASE}/appConfig-default.yaml", 3, 35
    )
    assert package.resources["worker"].container.memory == 1024
    assert (package.master.name, package.master.instances) == ("slider-appmaster", 1)


def test_each_stage_goes_on(tmp_path):
    """Broken YAML in one file, a broken schema in another: all else is found."""
    files = {"appConfig-default.yaml": "global: {\n", "resources-default.yaml": "componets: {}\n"}
    folder = make_package(tmp_path, files=files)
    (folder / "scripts" / "tensorflow.py").unlink()
    found = findings(folder)
    assert found.count("[missing-script]") == 3
    assert "appConfig-default.yaml:2:1: error: " in found
    assert "resources-default.yaml:1:1: error: unknown key 'componets' [unknown-key]" in found
    assert found.count(": error: ") == 5


def test_a_broken_metainfo_keeps_quiet_about_what_needs_it(tmp_path):
    folder = make_package(
        tmp_path, files={"metainfo.yaml": "schemaVersion: 2.1\napplication: []\n"}
    )
    assert findings(folder) == (
        "metainfo.yaml:2:14: error: application: expected a mapping of keys to values, "
        "found an empty list [wrong-type]\n"
    )


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        (
            "metainfo.yaml",
            "app: error: the package has no metainfo.yaml [missing-document]\n"
            "  hint: add it: it says what the application consists of\n",
        ),
        (
            "resources-default.yaml",
            "app: error: the package has no resources-default.yaml [missing-document]\n"
            "  hint: add it, or name another file with --resources\n",
        ),
    ],
)
def test_a_missing_document(tmp_path, removed, expected):
    folder = make_package(tmp_path)
    (folder / removed).unlink()
    assert report(load_package(folder).problems, tmp_path) == expected


def test_without_appconfig_all_is_default(tmp_path):
    folder = make_package(tmp_path)
    (folder / "appConfig-default.yaml").unlink()
    assert findings(folder).count("[unknown-reference]") == 3
    (folder / "files" / "train.py").unlink()
    assert (
        "error: the entry script 'train.py' (the default of site.global.user.scripts.entry) is "
        "neither in files/ nor in --files [missing-entry]"
    ) in report(load_package(folder).problems, tmp_path)


def test_the_default_program_is_not_looked_for_where_no_script_reads_its_key(tmp_path):
    config = (BASE / "appConfig-default.yaml").read_text()
    own = config.replace("  site.global.user.scripts.entry: train.py\n", "")
    script = (BASE / "scripts" / "tensorflow.py").read_text()
    files = {
        "appConfig-default.yaml": own,
        "scripts/tensorflow.py": script.replace("user.scripts.entry", "app.name"),
    }
    folder = make_package(tmp_path, files=files)
    (folder / "files" / "train.py").unlink()
    assert findings(folder) == ""
    (folder / "appConfig-default.yaml").write_text(config)
    assert findings(folder).startswith("appConfig-default.yaml:3:35: error: the entry script ")
    (folder / "appConfig-default.yaml").write_text(own)
    (folder / "scripts" / "tensorflow.py").write_text(script)
    assert findings(folder).count("[missing-entry]") == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Metainfo.yaml", "rename Metainfo.yaml to metainfo.yaml"),
        ("metainfo.xml", "metainfo.xml is not read; write it as metainfo.yaml"),
        ("tf/metainfo.yaml", "tf/metainfo.yaml is one; the package is the folder tf itself"),
    ],
)
def test_a_misnamed_document(tmp_path, name, hint):
    folder = make_package(tmp_path)
    (folder / "tf").mkdir()
    (folder / "metainfo.yaml").rename(folder / name)
    assert report(load_package(folder).problems, tmp_path).splitlines() == [
        "app: error: the package has no metainfo.yaml [missing-document]",
        f"  hint: {hint}",
    ]


def test_a_document_twice(tmp_path):
    folder = make_package(tmp_path)
    (folder / "metainfo.json").write_text("{")
    assert findings(folder) == (
        "metainfo.json: error: metainfo.yaml and metainfo.json are both the package's metainfo "
        "[ambiguous-document]\n"
        "  hint: remove one of them\n"
    )


def test_template_and_resources_from_elsewhere(tmp_path):
    folder = make_package(tmp_path)
    template = tmp_path / "mine.yml"
    template.write_text((folder / "appConfig-default.yaml").read_text() + "  env.A: 1.10\n")
    (folder / "appConfig-default.yaml").write_text("not: read")
    resources = tmp_path / "mine.json"
    resources.write_text(
        '{"components": {"worker": {"yarn.role.priority": 1, "yarn.component.instances": "3"}}}'
    )
    loaded = load_package(folder, template=template, resources=resources)
    assert loaded.problems == ()
    assert loaded.package.config.global_["env.A"].text == "1.10"
    assert loaded.package.config.global_["env.A"].at == Position(str(template), 7, 10)
    assert loaded.package.instances("worker") == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.yaml", "there is no such file [unreadable]\n  hint: check the path\n"),
        ("gone", "there is no such file [unreadable]\n  hint: check the path\n"),
        ("fiel.toml", "there is no such file [unreadable]\n  hint: did you mean file.toml?\n"),
        ("folder.yaml", "this is a folder [unreadable]\n  hint: give a .yaml or a .json file\n"),
        ("file.toml", "expected a .yaml or a .json file [unreadable]\n  hint: rename it\n"),
    ],
)
def test_a_template_that_is_none(tmp_path, name, message):
    folder = make_package(tmp_path)
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "file.toml").write_text("")
    found = report(load_package(folder, template=tmp_path / name).problems, tmp_path)
    assert found == f"{name}: error: {message}"


@pytest.mark.parametrize(
    ("given_as", "file", "message", "flag"),
    [
        ("resources", "appConfig-default", "expected resources, found appConfig", "--template"),
        ("template", "resources-default", "expected appConfig, found resources", "--resources"),
        ("template", "metainfo", "expected appConfig, found metainfo", ""),
    ],
    ids=lambda value: "",
)
def test_one_document_in_place_of_another(tmp_path, given_as, file, message, flag):
    config = (BASE / "appConfig-default.yaml").read_text() + "  site.global.epochs: 5\n"
    own = '{"properties": {"site.global.epochs": {"type": "integer"}}}'
    folder = make_package(
        tmp_path, files={"appConfig-default.yaml": config, "appConfig.schema.json": own}
    )
    hint = f"give it with {flag}" if flag else "a package has one of its own"
    (problem,) = load_package(folder, **{given_as: folder / f"{file}.yaml"}).problems
    assert (problem.message, problem.hint, problem.position.line) == (message, hint, 1)


def test_a_wrong_change_of_a_document_that_could_be_any(tmp_path):
    folder = make_package(tmp_path)
    (tmp_path / "empty.yaml").write_text("{}\n")
    overrides = Overrides(resopts=(("yarn.memry", "1"),))
    found = load_package(folder, resources=tmp_path / "empty.yaml", overrides=overrides).problems
    assert "unknown key 'yarn.memry'" in report(found, tmp_path)


def test_a_finding_at_a_default_of_the_package_stands_in_its_schema(tmp_path):
    own = """{
  "properties": {
    "site.global.label": {"type": "string", "default": "${NO_SUCH}"}
  }
}
"""
    folder = make_package(tmp_path, files={"appConfig.schema.json": own})
    assert findings(folder).splitlines()[0] == (
        "appConfig.schema.json:3:56: error: there is no placeholder ${NO_SUCH} "
        "[unknown-placeholder]"
    )
    (problem,) = load_package(folder).problems
    assert problem.position.file == f"{folder}/appConfig.schema.json"


def test_a_package_declares_keys_of_its_own(tmp_path):
    config = (BASE / "appConfig-default.yaml").read_text() + "  site.global.epochs: 5\n"
    folder = make_package(tmp_path, files={"appConfig-default.yaml": config})
    assert "unknown key 'site.global.epochs'" in findings(folder)
    (folder / "appConfig.schema.json").write_text(
        '{"properties": {"site.global.epochs": {"type": "integer"},'
        ' "site.global.rate": {"type": "number", "default": 0.1}}}'
    )
    package = sound(folder)
    assert package.config.components["ps"]["site.global.epochs"].text == "5"
    assert package.config.components["ps"]["site.global.rate"].text == "0.1"


def test_an_unusable_declaration_is_the_only_finding(tmp_path):
    folder = make_package(tmp_path)
    (folder / "appConfig.schema.json").write_text("[]")
    assert findings(folder) == (
        "appConfig.schema.json:1:1: error: expected a JSON Schema, which is a JSON object "
        "[package-schema]\n"
        '  hint: such as {"properties": {"site.global.epochs": {"type": "integer"}}}\n'
    )


def test_user_files_hold_the_entry_script(tmp_path):
    folder = make_package(tmp_path)
    (folder / "files" / "train.py").unlink()
    assert "[missing-entry]" in findings(folder)
    mine = tmp_path / "train.py"
    mine.write_text("")
    loaded = load_package(folder, user_files={"train.py": mine})
    assert loaded.problems == ()
    assert loaded.package.user_files == {"train.py": mine}
    assert findings(folder, user_files={"train.py": mine, "../x": mine}) == (
        "--files: error: the user's file '../x' leads out with '..' [unsafe-path]\n"
        "  hint: ship it under another name\n"
    )


def test_a_package_that_is_not_there_is_a_finding(tmp_path):
    loaded = load_package(tmp_path / "gone")
    assert (loaded.package, [problem.code for problem in loaded.problems]) == (None, ["package"])


def test_an_unsafe_package_is_a_finding(tmp_path):
    folder = make_package(tmp_path)
    (folder / "link").symlink_to("/etc/passwd")
    assert findings(folder) == (
        "link: error: this link leads out of the package [unsafe-path]\n"
        "  hint: put the file itself in its place\n"
    )


def test_a_zip_is_the_same_package(tmp_path):
    folder = make_package(tmp_path)
    archive = Path(shutil.make_archive(str(tmp_path / "app"), "zip", folder))
    assert sound(archive).components == sound(folder).components
    (folder / "metainfo.yaml").write_text("schemaVersion: 2.1\n")
    archive = Path(shutil.make_archive(str(tmp_path / "broken"), "zip", folder))
    assert report(load_package(archive).problems, tmp_path).startswith(
        "broken.zip/metainfo.yaml:1:1: error: the key 'application' is missing"
    )


def test_keys_without_effect_are_not_the_packages(tmp_path):
    folder = make_package(tmp_path)
    config = folder / "appConfig-default.yaml"
    config.write_text(config.read_text() + '  zookeeper.quorum: "${ZK}"\n  system_configs: [a]\n')
    loaded = load_package(folder)
    assert [problem.code for problem in loaded.problems] == ["ignored-key", "ignored-key"]
    assert "zookeeper.quorum" not in loaded.package.config.global_


@settings(max_examples=60)
@given(
    document=st.sampled_from(["metainfo.yaml", "appConfig-default.yaml", "resources-default.yaml"]),
    place=st.floats(0, 1),
    text=st.sampled_from(
        ["${", "null", "[]", "{", "}", "- ", ": ", "'", "&a ", "1e999", "\n  x: y"]
    ),
)
def test_nothing_in_a_document_raises(tmp_path_factory, document, place, text):
    folder = make_package(tmp_path_factory.mktemp("fuzz"))
    content = (folder / document).read_text()
    at = int(place * len(content))
    (folder / document).write_text(content[:at] + text + content[at:])
    loaded = load_package(folder)
    assert (loaded.package is None) == any(p.severity == "error" for p in loaded.problems)
