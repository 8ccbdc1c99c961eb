"""Every mistake of the table: what is said of it, word for word. A new mistake is a new file in
mistakes/, whose form tests.package.packages.Mistake describes."""

import re

import pytest

from tests.cli.commands.call import call
from tests.package.packages import BASE, MISTAKES, make_package, make_zip, read_mistake, report
from tfapp.package.load import load_package
from tfapp.package.rules import RULES
from tfapp.schema import KINDS, schema_text

TABLE = sorted(MISTAKES.glob("*/*.txt"))
# What is a rule about one value stands in its schema.
CODES_OF_SCHEMAS = {
    code for kind in KINDS for code in re.findall(r'"x-tfapp-code": "([a-z-]+)"', schema_text(kind))
}


def test_base_has_no_findings():
    assert load_package(BASE).problems == ()


@pytest.mark.parametrize("path", TABLE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_mistake(path, tmp_path, monkeypatch, capsys):
    mistake = read_mistake(path)
    folder = make_package(tmp_path, files=mistake.files)
    for name in mistake.without:
        (folder / name).unlink()
    if mistake.zipped:
        folder = make_zip(folder, mistake.zipped)
    if mistake.command:
        monkeypatch.chdir(tmp_path)
        found = written(mistake.command, tmp_path, capsys)
    else:
        found = report(load_package(folder).problems, folder.parent if mistake.zipped else folder)
    assert found == mistake.expected


def written(command, home, capsys) -> str:
    """All that a command writes, but for its usage."""
    try:
        _, shell = call(home, None, *command)
    except SystemExit:  # argparse
        errors = capsys.readouterr().err
        return errors[errors.index(f"tfapp {command[0]}: error: ") :]
    return shell.out.text + shell.err.text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_rule_has_a_manual_page(rule):
    assert rule.check.__doc__ and "PASS" in rule.check.__doc__
    assert "FAIL" in rule.check.__doc__ or "WARNING" in rule.check.__doc__
    assert rule.check.__name__ == rule.code.replace("-", "_")
    assert rule.needs <= {"metainfo", "appConfig", "resources"}


def test_every_rule_has_mistakes():
    found = {
        path.parent.name for path in TABLE if f"[{path.parent.name}]" in read_mistake(path).expected
    }
    assert found >= {rule.code for rule in RULES} | CODES_OF_SCHEMAS
