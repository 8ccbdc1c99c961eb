"""What TFJobs become: cases/NAME.expected, beside each manifest, has what is said of it and the
documents; `pytest --update-golden` writes it."""

from pathlib import Path

import pytest

from tests.compiler.packages import options
from tfapp.compiler.compile import compile_application
from tfapp.documents import render_yaml
from tfapp.engines.kubernetes.pods import Places, check
from tfapp.package.load import load_package
from tfapp.problems import has_errors, text_report
from tfapp.tfjob import convert, read_manifest, write

OPTIONS = options()
CASES = sorted(p for p in Path(__file__).with_name("cases").iterdir() if p.suffix != ".expected")


def told(path: Path) -> str:
    manifest = read_manifest(path)
    imported = convert(manifest)
    said = text_report(imported.problems).replace(f"{path.parent}/", "")
    flags = {"name": imported.name, "namespace": imported.namespace, "queue": imported.queue}
    documents = {
        **flags,
        "metainfo": dict(imported.application),
        "appConfig": dict(imported.app_config),
        "resources": dict(imported.resources),
        **imported.pods,
    }
    return "\n".join((*([said] if said else []), render_yaml(documents)))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_manifest(path, request):
    expected = path.with_suffix(".expected")
    if request.config.getoption("--update-golden"):
        expected.write_text(told(path), encoding="utf-8")
    assert told(path) == expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_package_is_valid_and_fits_to_kubernetes(path, tmp_path):
    """But for an image's own command, which nothing in a pod can know."""
    write(convert(read_manifest(path)), tmp_path / "package")
    loaded = load_package(tmp_path / "package")
    assert not has_errors(loaded.problems), text_report(loaded.problems)
    compiled = compile_application(loaded.package, OPTIONS)
    problems = tuple(check(compiled.plan, Places.of(OPTIONS, "research")))
    own = any(problem.code == "image-command" for problem in loaded.problems)
    assert has_errors(problems) == own, text_report(problems)
    of_template = [str(one) for one in problems if one.code == "pod-template"]
    assert not [line for line in of_template if "log-shipper" not in line]
