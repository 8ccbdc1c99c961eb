"""What the pages of docs/ say of the code is so, and their links lead somewhere."""

import argparse
import ast
import collections
import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

from tests import programs
from tests.readme import README, table
from tfapp import placeholders, temporary
from tfapp.cli.commands import COMMANDS
from tfapp.contract import names
from tfapp.documents import read_document
from tfapp.engines import tidying
from tfapp.engines.kubernetes.pod import names as pod_names
from tfapp.engines.yarn import driver_daemon, register, shared_folder
from tfapp.runner import context
from tfapp.runner.docker import ownership
from tfapp.schema import check_document
from tfapp.script import Script

ROOT = README.parent
TOP = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PAGES = [README, *(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*/README.md"))
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


BLOCK = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
# The tests that run or check the blocks of a page, by the page and the language of the blocks, and
# the number of these blocks. A block of the language `console`, or with MARK as its first line, is
# for a cluster or for files of the reader's own, as the README says.
TESTS = {
    ("README.md", "sh"): (5, "tests/test_readme.py"),
    ("README.md", "python"): (1, "tests/api/test_docs.py"),
    ("commands.md", "yaml"): (1, "tests/launch/test_defaults.py"),
    ("grid.md", "sh"): (1, "tests/end_to_end/test_grid.py"),
    ("grid.md", "yaml"): (1, "tests/launch/test_points.py"),
    ("feed.md", "python"): (4, "tests/clusters/spark/test_docs.py"),
    ("getting-started.md", "sh"): (5, "tests/test_readme.py"),
    ("kubernetes.md", "yaml"): (2, "tests/engines/kubernetes/test_docs.py"),
    ("packages.md", "python"): (1, "tests/test_docs.py"),
    ("programs.md", "python"): (2, "tests/program/test_saving.py"),
    ("python-call.md", "python"): (2, "tests/api/test_docs.py"),
    ("reading-data.md", "python"): (6, "tests/storage/test_docs.py"),
    ("slider.md", "json"): (1, "tests/test_docs.py"),
    ("tensorflowonspark.md", "python"): (2, "tests/clusters/spark/test_docs.py"),
    ("tf-yarn.md", "python"): (1, "tests/api/test_tf_yarn.py"),
    ("write-a-package.md", "json"): (1, "tests/examples/test_primes.py"),
    ("write-a-package.md", "python"): (2, "tests/examples/test_primes.py"),
    ("write-a-package.md", "sh"): (2, "tests/examples/test_primes.py"),
    ("write-a-package.md", "yaml"): (3, "tests/examples/test_primes.py"),
}
MARK = re.compile(r"# needs a \w+ cluster\n")
PICTURES = {"", "text"}


def anchors(text: str) -> set[str]:
    """Of a page's headings, as they are made of their words."""
    words = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in words}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target, anchor in LINK.findall(re.sub(r"(?ms)^```.*?^```", "", text)):
        if "://" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), (target, anchor)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_run_or_marked(page):
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    kinds = {"global:": "appConfig", "components:": "resources"}
    configurations = [code for _, code in blocks if code.partition("\n")[0] in kinds]
    for code in configurations:  # a part of a document: its keys and values are right
        document, problems = read_document(page.name, code.encode(), "yaml")
        kind = kinds[code.partition("\n")[0]]
        assert document is not None and (*problems, *check_document(document, kind)[1]) == ()
    unmarked = collections.Counter(
        language
        for language, code in blocks
        if language not in {*PICTURES, "console"}
        and not MARK.match(code)
        and code not in configurations
    )
    expected = {key[1]: value for key, value in TESTS.items() if key[0] == page.name}
    assert unmarked == {language: count for language, (count, _) in expected.items()}
    for _, test in expected.values():
        text = (ROOT / test).read_text(encoding="utf-8")
        assert page.name in text or "import README" in text


def command_lines(text: str) -> list[str]:
    """What stands in a page as a command: lines of blocks for a shell, and code that begins with
    tfapp."""
    blocks = [code for language, code in BLOCK.findall(text) if language in ("sh", "console")]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    inline = re.findall(r"`(tfapp [^`]+)`", BLOCK.sub("", text))
    return [" ".join(part.split()) for part in (*lines, *inline)]


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=name)
def test_every_command_is_one_and_has_its_flags(page):
    for line in command_lines(page.read_text(encoding="utf-8")):
        line = re.split(r" -- | [|>#&(]|\)", line)[0]
        found = re.search(r"(?:^|[ /])tfapp ([a-z][a-z-]*)(.*)", line)
        if found is None:
            continue
        name, rest = found.groups()
        assert name in COMMANDS, line
        parser = argparse.ArgumentParser()
        importlib.import_module(COMMANDS[name][0]).add_arguments(parser)
        flags = re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", rest)
        assert set(flags) <= parser._option_string_actions.keys(), line


def test_every_page_is_named_in_the_readme():
    named = {target for target, _ in LINK.findall(README.read_text(encoding="utf-8"))}
    assert {name(page) for page in PAGES[1:]} <= named


def test_every_page_is_named_in_the_order_to_read():
    index = ROOT / "docs" / "index.md"
    targets = {target for target, _ in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {(index.parent / target).resolve() for target in targets} == {*PAGES} - {index}


def test_what_is_left_behind_has_the_names_of_the_code():
    text = (ROOT / "docs" / "clean-up.md").read_text(encoding="utf-8")
    for name in (
        shared_folder.CHECKPOINTS,
        shared_folder.STAGING.format(application="APPLICATION_ID"),
        f"{pod_names.MANAGED_BY}=tfapp",
        f"{pod_names.APPLICATION}=NAME",
        f"label={ownership.LABEL}",
        f"{temporary.PREFIX}*",
        f"{driver_daemon.IDLE_LIMIT / 60:g} minutes after the last command",
        f"after {tidying.KEPT / 86400:g} days or beyond {tidying.ROOM >> 30} GiB",
        f"after {register.KEPT / 86400:g} days or beyond {register.ROOM >> 30} GiB",
    ):
        assert name in text


@pytest.mark.parametrize(
    ("page", "flags"), [("keys.md", ()), ("keys-without-effect.md", ("--without-effect",))]
)
def test_the_pages_of_keys_are_what_the_command_prints(page, flags):
    printed = programs.printed("-m", "tfapp", "schema", "--format", "markdown", *flags, cwd=ROOT)
    page = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert page.partition("\n\n## ")[2] == printed.partition("## ")[2]


def test_a_program_finds_the_variables_of_the_code():
    cells = " ".join(row[0] for row in table("programs.md", "Environment variables"))
    made = set(re.findall(r'"(TFAPP_[A-Z_]+)"', inspect.getsource(context._own_variables)))
    made |= {names.ENV_STORAGE, names.ENV_STORAGE_SCHEMES}
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
