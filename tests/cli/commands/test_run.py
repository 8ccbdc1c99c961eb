from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, status
from tfapp.cli.commands import run
from tfapp.cli.parser import parse
from tfapp.compiler.options import new_name
from tfapp.contract.job import Private, Resources
from tfapp.engines import local
from tfapp.engines.kubernetes.pods import Places, check, pods
from tfapp.errors import InvalidPackageError, UsageError
from tfapp.problems import WARNING, Position, Problem


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    args = parse(parser, ["dir/train.py", *words])
    args.engine = args.engine or "local"
    return args


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ((), {"worker": 2}),
        (("-w", "4"), {"worker": 4}),
        (("-w", "2", "--ps", "1"), {"chief": 1, "worker": 2, "ps": 1}),
        (
            ("-w", "1", "--evaluator", "--tensorboard"),
            {"worker": 1, "evaluator": 1, "tensorboard": 1},
        ),
    ],
    ids=str,
)
def test_components(words, counts):
    everything = dict.fromkeys(("chief", "worker", "ps", "evaluator", "tensorboard"), 0)
    expected = {name: str(count) for name, count in {**everything, **counts}.items()}
    assert dict(run.components_of(parsed(*words))) == expected


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ((), {}),
        (("-w", "4"), {"worker": "4"}),
        (("-w", "0", "--ps", "0", "--evaluator"), {"worker": "0", "ps": "0", "evaluator": "1"}),
    ],
    ids=str,
)
def test_components_of_a_package_are_its_own_unless_flags_say_otherwise(words, counts):
    assert dict(run.components_of(parsed("--appdef", "my-app", *words))) == counts


def test_a_package_is_not_a_script(tmp_path):
    (tmp_path / "package").mkdir()
    code, a_shell = call(tmp_path, None, "run", f"{tmp_path}/package")
    assert (code, a_shell.err.text) == (
        44,
        f"error: {tmp_path}/package is a folder, and not a script\n"
        f"  If it is a package: `tfapp create NAME --appdef {tmp_path}/package`.\n",
    )


def test_no_workers_at_all():
    with pytest.raises(UsageError, match="there is nothing to run with no workers"):
        run.components_of(parsed("-w", "0"))


ENTRY, ARGS = "site.global.user.scripts.entry", "site.global.user.scripts.args"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {ENTRY: "train.py", ARGS: ""}),
        (("--", "-x", "a b"), {ENTRY: "train.py", ARGS: "-x 'a b'"}),
        (
            ("-c", "bin/entry.sh", "--", "-x"),
            {ENTRY: "entry.sh", ARGS: "train.py -x"},
        ),
        (
            ("-i", "tf:2", "-p", "1999"),
            {
                ENTRY: "train.py",
                ARGS: "",
                "site.global.run.mode": "docker",
                "site.global.docker.image": "tf:2",
                "site.global.worker.port": "${worker.ALLOCATED_PORT}{DEFAULT_1999}{PER_CONTAINER}",
            },
        ),
    ],
    ids=str,
)
def test_options(words, options):
    assert dict(run.options_of(parsed(*words))) == options


LINK, VOLUMES = "site.global.user.scripts.link", "site.global.kubernetes.volumes"


@pytest.fixture
def images(monkeypatch):
    """The containers of the local engine are images, as those of Kubernetes are."""
    monkeypatch.setattr(local, "IMAGES", True, raising=False)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("-i", "tf:2"), {"site.global.docker.image": "tf:2"}),
        (("-c", "bin/entry.sh"), {LINK: "/script/training-script.py=train.py"}),
        (
            ("--pod-file", "/at/pod.yaml"),
            {"site.global.kubernetes.pod.template": "/at/pod.yaml"},
        ),
    ],
    ids=str,
)
def test_options_where_containers_are_images(words, options, images):
    assert dict(run.place_options(parsed(*words))) == options


SPAWNER_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: PODNAME
  labels: {app: APPNAME, training_attempt: ATTEMPT}
spec:
  containers:
    - name: tensorflow
      resources:
        requests: {memory: 2Gi, cpu: 1000m}
        limits: {nvidia.com/gpu: "1"}
      env:
      volumeMounts:
      - {name: script, mountPath: /script}
      command: [python, /script/training-script.py]
  volumes:
    - name: script
      configMap: {name: script}
  restartPolicy: Never
"""


def test_an_entrypoint_and_a_pod_file_of_tf_spawner(tmp_path, images):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "entry.sh").write_text("python /script/training-script.py\n")
    (tmp_path / "pod.yaml").write_text(SPAWNER_POD)
    packages = []

    class Engine(PlayedEngine):
        def options(self, options, package):
            packages.append(package)
            return options

    engine = Engine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = (f"{tmp_path}/train.py", "-w", "2", "-c", f"{tmp_path}/entry.sh", "-p", "1999")
    words += ("-i", "tf:2", "--pod-file", f"{tmp_path}/pod.yaml", "-t", "attempt-7")
    words += ("-O", VOLUMES, "pvc:data:/data", "--name", "app")
    words += ("-O", "site.global.user.checkpoint.prefix", "/data/saved")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert code == 0, a_shell.err.text
    ((_, compiled),) = engine.created
    settings = compiled.job.component("worker").settings
    assert settings.text("user.scripts.entry") == "entry.sh"
    assert settings.text("user.scripts.link") == "/script/training-script.py=train.py"
    at = Places("app", "ann", "ml", tags=("attempt-7",))
    pod = pods(packages[0], compiled.job, at)["worker"]
    (container,) = pod["spec"]["containers"]
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    assert "emptyDir" in volumes[mounts["/script"]]
    assert volumes[mounts["/data"]]["persistentVolumeClaim"] == {"claimName": "data"}
    assert (container["image"], container["resources"]["limits"]["nvidia.com/gpu"]) == ("tf:2", "1")
    assert pod["metadata"]["labels"]["training_attempt"] == "attempt-7"
    shared = {"data": ("ReadWriteMany",)}
    assert [p for p in check(packages[0], compiled.job, at, shared) if p.severity == "error"] == []


def test_a_service_is_not_needed(tmp_path, images):
    """What the Kubernetes engine says of TF-Spawner's service.yaml."""
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "service.yaml").write_text("apiVersion: v1\nkind: Service\n")

    class Engine(PlayedEngine):
        def options(self, options, package):
            self.package = package
            return options

        def check(self, compiled):
            at = Places("app", "ann", "ml")
            problems = list(check(self.package, compiled.job, at))
            raise InvalidPackageError([p for p in problems if p.severity == "error"])

    engine = Engine(tmp_path, [])
    words = (f"{tmp_path}/train.py", "--pod-file", f"{tmp_path}/service.yaml")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert (code, engine.created) == (77, [])
    assert (
        f"{tmp_path}/service.yaml:2:7: error: expected a Pod, found a Service [pod-template]\n"
        "  remove it: programs reach each other by the addresses of their pods\n"
    ) in a_shell.err.text


def test_a_warning_of_the_engine_is_shown(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")

    class Engine(PlayedEngine):
        def check(self, compiled):
            return (
                Problem(Position("SparkSession"), "spark", "this is off", WARNING, "Turn it on."),
            )

    engine = Engine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/train.py")
    assert (code, len(engine.created)) == (0, 1)
    assert "SparkSession: warning: this is off [spark]\n  Turn it on.\n" in a_shell.err.text


def test_a_pod_file_is_for_kubernetes(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = ("run", f"{tmp_path}/train.py", "--pod-file", f"{tmp_path}/pod.yaml")
    code, a_shell = call(tmp_path, engine, *words)
    assert (code, a_shell.err.text) == (44, f"error: there is no file {tmp_path}/pod.yaml\n")
    (tmp_path / "pod.yaml").write_text("kind: Pod\n")
    code, a_shell = call(tmp_path, engine, *words)
    assert code == 0
    assert "--pod-file is ignored: the engine local has no pods\n" in a_shell.err.text


@pytest.mark.parametrize(
    ("script", "pattern"),
    [
        ("train.py", r"train-[0-9a-f]{4}"),
        ("My Model_2.py", r"my-model_2-[0-9a-f]{4}"),
        ("2nd.py", r"run-2nd-[0-9a-f]{4}"),
        ("ünder.py", r"nder-[0-9a-f]{4}"),
        ("__.py", r"run-[0-9a-f]{4}"),
        (f"{'a' * 200}.py", r"a{95}-[0-9a-f]{4}"),
    ],
)
def test_names(script, pattern):
    assert re.fullmatch(pattern, new_name(Path(script).stem))


def test_the_script_its_environment_and_tags_are_submitted(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "env").write_text("EXPERIMENT=keras\n")
    (tmp_path / "secrets").write_text("S3_SECRET_KEY=hunter22\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = (f"{tmp_path}/train.py", "-w", "3", "-e", f"{tmp_path}/env", "-t", "b", "-t", "a")
    words += ("--secret-env-file", f"{tmp_path}/secrets")
    code, a_shell = call(tmp_path, engine, "run", *words, "--name", "app")
    assert code == 0, a_shell.err.text
    ((name, compiled),) = engine.created
    counts = {component.name: component.instances for component in compiled.job.components}
    assert (name, counts.get("worker"), counts.get("chief", 0)) == ("app", 3, 0)
    assert {"a", "b"} <= set(compiled.spec.tags)
    assert isinstance(compiled.private, Private)
    assert compiled.private.env["worker"]["S3_SECRET_KEY"] == "hunter22"
    assert compiled.private.env["worker"]["EXPERIMENT"] == "keras"
    assert compiled.private.redact == ("hunter22",)
    assert "hunter22" not in repr(compiled) + a_shell.out.text + a_shell.err.text


def test_nothing_but_what_is_given_is_shipped_beside_the_script(tmp_path):
    (tmp_path / "go.py").write_text("import train\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/go.py")
    assert (code, a_shell.err.text.count("[missing-module]")) == (77, 1)
    (tmp_path / "train.py").write_text("print(1)\n")
    words = (f"{tmp_path}/go.py", "--files", f"{tmp_path}/train.py")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert code == 0, a_shell.err.text
    names = [zipfile.ZipFile(path).namelist() for path in tmp_path.glob("**/cache/*.zip")]
    assert ["go.py", "train.py"] in names
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/train.py")
    assert code == 0, a_shell.err.text
    names = [zipfile.ZipFile(path).namelist() for path in tmp_path.glob("**/cache/*.zip")]
    assert ["train.py"] in names


def test_what_is_refused_leaves_no_secret_in_the_cache(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "env").write_text("EXPERIMENT=keras\n")
    (tmp_path / "secrets").write_text("S3_SECRET_KEY=hunter22\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = (f"{tmp_path}/train.py", "-e", f"{tmp_path}/env", "--name", "taken")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert code == 75, a_shell.err.text
    kept = {path.name for path in tmp_path.glob("**/cache/*") if path.is_file()}
    assert kept == {".lock", "known-to-fit", "private.key"}


def test_single_keys_are_set_as_for_other_packages(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    keys = (
        *("--rescompopt", "worker", "yarn.memory", "300", "--resopt", "yarn.vcores", "3"),
        *("-O", "site.global.stop.grace", "7", "--component", "evaluator", "1"),
    )
    code, a_shell = call(tmp_path, engine, "run", f"{tmp_path}/train.py", "-w", "1", *keys)
    assert code == 0, a_shell.err.text
    ((_, compiled),) = engine.created
    assert compiled.job.limits.stop_grace == 7
    sizes = {c.name: (c.instances, c.container) for c in compiled.job.components}
    assert sizes["worker"] == (1, Resources(300, 3))
    assert sizes["evaluator"] == (1, Resources(2048, 3))


def test_a_missing_script_is_44(tmp_path):
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, []), "run", "none.py")
    assert (code, a_shell.err.text) == (
        44,
        f"error: there is no file none.py\n  The working folder is {a_shell.cwd}.\n",
    )


def test_a_misspelt_script_is_guessed(tmp_path):
    (tmp_path / "train.py").write_text("")
    script = tmp_path / "tarin.py"
    code, a_shell = call(tmp_path, PlayedEngine(tmp_path, []), "run", str(script))
    assert code == 44
    assert a_shell.err.text == (
        f"error: there is no file {script}\n  Did you mean {tmp_path}/train.py?\n"
    )


@pytest.mark.parametrize(
    "words", [("-w", "many"), ("-p", "0"), ("-p", "70000"), ("--wait", "-1"), ("--wait", "nan")]
)
def test_wrong_numbers_are_wrong_usage(tmp_path, words, capsys):
    with pytest.raises(SystemExit) as caught:
        call(tmp_path, None, "run", "train.py", *words)
    assert caught.value.code == 2
    assert f"argument {words[0]}" in capsys.readouterr().err


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's own in the working folder."""
    (tmp_path / "digits_of_mine.py").write_text("def experiment():\n    return 1\n")
    monkeypatch.chdir(tmp_path)
    yield "digits_of_mine"
    sys.modules.pop("digits_of_mine", None)


def test_a_function_is_submitted_with_its_module(tmp_path, module):
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = ("run", f"{module}:experiment", "-w", "3", "--evaluator", "--name", "app")
    code, a_shell = call(tmp_path, engine, *words)
    assert code == 0, a_shell.err.text
    assert f"ships {module}.py, which experiment needs\n" in a_shell.err.text
    ((_, compiled),) = engine.created
    job = compiled.job
    counts = {c.name: c.instances for c in job.components if c.instances}
    assert counts == {"worker": 3, "evaluator": 1}
    assert {c.settings.text("user.scripts.entry") for c in job.components} == {"tfapp-call/main.py"}
    shipped = [zipfile.ZipFile(path).namelist() for path in tmp_path.glob("**/cache/*.zip")]
    (files,) = (names for names in shipped if "tfapp-call/main.py" in names)
    own = {name for name in files if not name.startswith("tfapp-call/tfapp/")}
    assert own == {f"{module}.py", "tfapp-call/main.py", "tfapp-call/call.json"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("no_such_module_x:fn",), 77, "there is no module no_such_module_x"),
        (("digits_of_mine:no_such",), 77, "has no no_such"),
        (("digits_of_mine:experiment", "--", "--epochs"), 2, "is a function"),
        (("digits_of_mine:experiment", "-c", "entry.sh"), 44, "there is no file entry.sh"),
    ],
    ids=str,
)
def test_functions_that_cannot_be_run(tmp_path, module, words, code, told):
    engine = PlayedEngine(tmp_path, [])
    found, a_shell = call(tmp_path, engine, "run", *words)
    assert engine.created == []
    assert (found, told in a_shell.err.text) == (code, True), a_shell.err.text
