"""Packages on disk and what each compiles to: `minimal` whole (spec.yaml, job.json), the others
as far as they differ from it (differs.yaml). A new case is a new folder in golden/ with a
`package`; `pytest tests/compiler --update-golden` writes the rest."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import pytest
import skein
import yaml

from tests.compiler.packages import options
from tfapp.compiler.compile import compile_application
from tfapp.compiler.render import render_spec
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


def job_text(job):
    return json.dumps(dataclasses.asdict(job), indent=2, ensure_ascii=False) + "\n"


def differing(value, base):
    """The part of `value` that is not in `base`; None for a key that only `base` has."""
    if not isinstance(value, dict) or not isinstance(base, dict):
        return value
    both = dict.fromkeys((*base, *value))
    differs = (key for key in both if value.get(key) != base.get(key))
    return {key: differing(value.get(key), base.get(key)) for key in differs}


def one_after_another(values, base):
    """As far as each of `values` differs from the one before it, the first one from `base`."""
    return [differing(value, before) for value, before in zip(values, [base, *values])]


def differences(compiled, problems) -> str:
    """Of an application from the minimal one, as YAML."""
    minimal, _ = compile_at(GOLDEN / "minimal" / "package")
    (spec, job), (base_spec, base_job) = (
        (yaml.safe_load(render_spec(each.spec)), json.loads(job_text(each.job)))
        for each in (compiled, minimal)
    )
    services, base_services = spec.pop("services"), base_spec.pop("services")
    components, base_components = job.pop("components"), base_job.pop("components")
    of_services = one_after_another(list(services.values()), base_services["worker"])
    differs = {
        "problems": problems.splitlines(),
        "spec": differing(spec, base_spec),
        "services": dict(zip(services, of_services)),
        "job": differing(job, base_job),
        "components": one_after_another(components, base_components[0]),
    }
    return yaml.safe_dump(differs, sort_keys=False, width=sys.maxsize)


@pytest.mark.parametrize("case", CASES)
def test_golden(case, request):
    compiled, problems = compile_at(GOLDEN / case / "package")
    spec, job = render_spec(compiled.spec), job_text(compiled.job)
    rendered = {"spec.yaml": spec, "job.json": job}
    if case != "minimal":
        rendered = {"differs.yaml": differences(compiled, problems)}
    if request.config.getoption("--update-golden"):
        for name, text in rendered.items():
            (GOLDEN / case / name).write_text(text, encoding="utf-8")
    expected = {name: (GOLDEN / case / name).read_text(encoding="utf-8") for name in rendered}
    assert rendered == expected
    assert skein.ApplicationSpec.from_yaml(spec) == compiled.spec
    assert SECRET not in spec + job


def test_nothing_else_is_expected():
    names = {case: {path.name for path in (GOLDEN / case).iterdir()} for case in CASES}
    assert names.pop("minimal") == {"package", "spec.yaml", "job.json"}
    assert all(found == {"package", "differs.yaml"} for found in names.values())


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
