"""Packages on disk and what each compiles to, whole. A new case is a new folder in golden/ with
a `package`; `pytest tests/compiler --update-golden` writes its spec.yaml, job.json and
problems.txt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import skein
import yaml

from tests.compiler.packages import options
from tfapp.compiler.compile import compile_application
from tfapp.compiler.render import render_job, render_spec
from tfapp.package.load import load_package

GOLDEN = Path(__file__).with_name("golden")
CASES = sorted(folder.name for folder in GOLDEN.iterdir())
SECRET = "not for the eyes of others"
OPTIONS = options(maximum={"memory": 8192, "vcores": 4}, secrets={"DATA_TOKEN": SECRET})


def compile_at(path):
    """(what is compiled, all findings as text) of the package at `path`."""
    loaded = load_package(path)
    assert loaded.package is not None, "\n".join(map(str, loaded.problems))
    compiled = compile_application(loaded.package, OPTIONS)
    problems = "".join(f"{problem}\n" for problem in (*loaded.problems, *compiled.problems))
    return compiled, problems.replace(f"{path}/", "")


@pytest.mark.parametrize("case", CASES)
def test_golden(case, request):
    compiled, problems = compile_at(GOLDEN / case / "package")
    rendered = {
        "spec.yaml": render_spec(compiled.spec),
        "job.json": render_job(compiled.job),
        "problems.txt": problems,
    }
    if request.config.getoption("--update-golden", default=False):
        for name, text in rendered.items():
            (GOLDEN / case / name).write_text(text, encoding="utf-8")
    expected = {name: (GOLDEN / case / name).read_text(encoding="utf-8") for name in rendered}
    assert rendered == expected
    assert skein.ApplicationSpec.from_yaml(rendered["spec.yaml"]) == compiled.spec
    assert SECRET not in "".join(rendered.values())


def test_nothing_else_is_expected():
    names = {path.name for case in CASES for path in (GOLDEN / case).iterdir()}
    assert names == {"package", "spec.yaml", "job.json", "problems.txt"}


@pytest.mark.parametrize("case", CASES)
def test_a_zip_compiles_to_the_same_bytes(case, tmp_path):
    folder = GOLDEN / case / "package"
    archive = Path(shutil.make_archive(str(tmp_path / "package"), "zip", folder))
    from_zip, _ = compile_at(archive)
    from_folder, _ = compile_at(folder)
    assert from_zip.spec == from_folder.spec
    assert from_zip.files == from_folder.files


def test_json_and_yaml_compile_to_the_same_job(tmp_path):
    written = GOLDEN / "slider-json" / "package"
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    for document in sorted(tmp_path.glob("*.json")):
        name = document.stem.replace(".default", "-default")
        text = yaml.safe_dump(json.loads(document.read_text()))
        (tmp_path / f"{name}.yaml").write_text(text)
        document.unlink()
    assert compile_at(tmp_path)[0].job == compile_at(written)[0].job
