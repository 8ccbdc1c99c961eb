"""What the pages of docs/ say of the code is so, and their links lead somewhere."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys

import pytest

from tests.readme import README, table
from tfapp import placeholders
from tfapp.runner import context
from tfapp.script import Script

ROOT = README.parent
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(text: str) -> set[str]:
    """Of a page's headings, as they are made of their words."""
    words = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in LINK.findall(re.sub(r"(?ms)^```.*?^```", "", text)):
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), (target, anchor)


def test_every_page_is_named_in_the_readme():
    named = {target for target, _ in LINK.findall(README.read_text(encoding="utf-8"))}
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= named


def test_the_page_of_keys_is_what_the_command_prints():
    command = [sys.executable, "-m", "tfapp", "schema", "--format", "markdown"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8")
    assert page.partition("\n\n## ")[2] == printed.partition("## ")[2]


def test_a_program_finds_the_variables_of_the_code():
    cells = " ".join(row[0] for row in table("programs.md", "Environment variables"))
    made = set(re.findall(r'"(TFAPP_[A-Z_]+)"', inspect.getsource(context._own_variables)))
    assert made == set(re.findall(r"TFAPP_[A-Z_]+", cells))


def test_the_placeholders_are_those_of_the_code():
    cells = " ".join(row[0] for row in table("programs.md", "Placeholders"))
    named = set(re.findall(r"\$\{([A-Z_]+)\}", cells))
    assert named == set(placeholders.NAMES)


def test_the_script_of_the_page_is_one():
    text = (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    found: dict[str, object] = {}
    exec(compile(ast.parse(code), "page", "exec"), found)
    trainer = found["Trainer"]
    assert issubclass(trainer, Script)
    for name in ("prepare", "start", "stop", "status"):
        assert inspect.signature(getattr(trainer, name)).parameters.keys() == (
            inspect.signature(getattr(Script, name)).parameters.keys()
        )


def test_sliders_configuration_is_the_one_that_is_compiled():
    text = (ROOT / "docs" / "slider.md").read_text(encoding="utf-8")
    (written,) = re.findall(r"(?ms)^```json\n(.*?)^```$", text)
    package = ROOT / "tests" / "compiler" / "golden" / "slider-json" / "package"
    compiled = json.loads((package / "appConfig-default.json").read_text())
    assert json.loads(written) == compiled
