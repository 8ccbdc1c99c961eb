"""`tfapp test-package`: the packages of tfapp and of the examples pass, mistakes are told at their
places. Its run is in tests/end_to_end."""

import shutil
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tfapp.engines import open_engine
from tfapp.shipped import app_packages

PRIMES = Path(__file__).parents[3] / "examples" / "primes"


def on_this_machine(tmp_path, *words):
    return call(tmp_path, open_engine("local", tmp_path, {}), "test-package", *map(str, words))


@pytest.mark.parametrize("package", [*app_packages(), PRIMES])
def test_a_package_passes(tmp_path, package):
    code, a_shell = on_this_machine(tmp_path, package)
    assert (code, a_shell.out.text) == (0, "")
    assert "valid, its scripts load, and it compiles" in a_shell.err.text


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "appConfig.schema.json",
            '"description": "How many numbers a counter takes at a time.",\n',
            "",
            ":11:5: error: the key 'site.global.primes.range' has no description [no-description]",
        ),
        (
            "scripts/primes.py",
            "class Primes(Script)",
            "class Primes",
            ":17:13: error: scripts/primes.py cannot be loaded: tfapp.script.ScriptError: "
            "scripts/primes.py must define one class that subclasses tfapp.script.Script",
        ),
        (
            "scripts/primes.py",
            "class Primes(",
            "import no_such_module\n\n\nclass Primes(",
            ":17:13: error: scripts/primes.py cannot be loaded: ModuleNotFoundError: ",
        ),
        ("metainfo.yaml", "role: other", "role: others", ":12:13: error: role: expected 'chief'"),
    ],
)
def test_a_mistake_is_told_at_its_place(tmp_path, file, old, new, told):
    package = tmp_path / "primes"
    shutil.copytree(PRIMES, package)
    text = (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new))
    code, a_shell = on_this_machine(tmp_path, package)
    assert (code, told in a_shell.out.text) == (77, True), a_shell.out.text


def test_kill_is_for_a_run(tmp_path):
    code, a_shell = on_this_machine(tmp_path, PRIMES, "--kill", "dealer/0")
    assert (code, "--run" in a_shell.err.text) == (2, True)
