"""What is wrong with a manifest: mistakes.txt has manifests, each below its title, and
mistakes.expected what is said of them; `pytest --update-golden` writes it."""

import re
from pathlib import Path

from tests.cli.commands.call import call
from tfapp.problems import text_report
from tfapp.tfjob import convert, read_manifest
from tfapp.tfjob.manifest import InvalidManifestError

MISTAKES = Path(__file__).with_name("mistakes.txt")


def told(text: str, path: Path) -> str:
    path.write_text(text)
    try:
        problems = convert(read_manifest(path)).problems
    except InvalidManifestError as error:
        problems = error.problems
    return text_report(problems).replace(f"{path.parent}/", "")


def test_mistakes(tmp_path, request):
    _, *parts = re.split(r"(?m)^# (.*)\n", MISTAKES.read_text())
    cases = dict(zip(parts[::2], parts[1::2]))
    found = "".join(
        f"# {title}\n{told(text, tmp_path / 'job.yaml')}\n" for title, text in cases.items()
    )
    expected = MISTAKES.with_suffix(".expected")
    if request.config.getoption("--update-golden"):
        expected.write_text(found)
    assert found == expected.read_text()


def test_a_file_that_is_not_there(tmp_path):
    code, a_shell = call(tmp_path, None, "import-tfjob", f"{tmp_path}/no.yaml")
    assert code == 44
    assert "no.yaml cannot be read: No such file" in a_shell.err.text
