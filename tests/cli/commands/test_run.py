from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path

import pytest

from tests import python_environments
from tests.cli.commands.call import call
from tests.cli.played_engine import SUCCESS, PlayedEngine, shell, status
from tests.lacking import needs_storage
from tfapp.api.arguments import Call
from tfapp.api.request import global_rows
from tfapp.api.travel.pack import pack
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


@pytest.fixture
def train(tmp_path, monkeypatch) -> str:
    """A script in the working folder."""
    (tmp_path / "train.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    return "train.py"


def ran(tmp_path: Path, *words: str, **more):
    """The exit code of `tfapp run WORDS`, what it says, and what it submits, () or one with its
    name. Relative paths are below tmp_path."""
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    code, a_shell = call(tmp_path, engine, "run", *words, **more)
    return code, a_shell.err.text, engine.created


def submitted(tmp_path: Path, *words: str, **more):
    """What `tfapp run WORDS` submits, and what it says."""
    code, said, created = ran(tmp_path, *words, **more)
    assert code == 0, said
    ((_, compiled),) = created
    return compiled, said


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


def options(*words: str) -> dict[str, str]:
    """The appConfig keys that the flags of `run` mean."""
    args = parsed(*words)
    return dict(run.options_of(args, args.script.name))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {ENTRY: "train.py", ARGS: ""}),
        (("--", "-x", "a b"), {ENTRY: "train.py", ARGS: "-x 'a b'"}),
        (
            ("-c", "bin/entry.sh", "--", "-x"),
            {ENTRY: "entry.sh", ARGS: "train.py -x"},
        ),
        (
            ("-p", "1999"),
            {
                ENTRY: "train.py",
                ARGS: "",
                "site.global.worker.port": "${worker.ALLOCATED_PORT}{DEFAULT_1999}{PER_CONTAINER}",
            },
        ),
    ],
    ids=str,
)
def test_options(words, expected):
    assert options(*words) == expected


COMMAND = "site.global.user.scripts.command"


@pytest.mark.parametrize(
    ("words", "begins", "command"),
    [
        (("--", "python", "/opt/a b.py", "-x"), "python-", "python '/opt/a b.py' -x"),
        (("-i", "r.example.org:5/team/digits:3", "--", "train"), "digits-", "train"),
        (("-i", "r.example.org/digits@sha256:0"), "digits-", "tfapp:image"),
    ],
)
def test_a_command_that_is_there_needs_no_script(words, begins, command):
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    args = parse(parser, list(words))
    args.engine = args.engine or "local"
    assert dict(run.options_of(args, ""))[COMMAND] == command
    assert run._new_name(None, args).startswith(begins)


def test_a_command_is_what_status_tells_of_the_program(tmp_path):
    compiled, _ = submitted(tmp_path, "-w", "1", "--", "sh", "-c", "exit 0")
    ran = {one.component: one.program for one in compiled.job.ran.components}
    assert ran == {"worker": "sh -c 'exit 0'"}


def test_a_program_is_needed(tmp_path, capsys):
    with pytest.raises(SystemExit):
        call(tmp_path, None, "run", "-w", "2")
    assert "SCRIPT, MODULE:FUNCTION, -m MODULE or -- COMMAND" in capsys.readouterr().err


LINK, VOLUMES = "site.global.user.scripts.link", "site.global.kubernetes.volumes"


@pytest.fixture
def images(monkeypatch):
    """The containers of the local engine are images, as those of Kubernetes are."""
    monkeypatch.setattr(local, "IMAGES", True, raising=False)


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (("-c", "bin/entry.sh"), LINK, "/script/training-script.py=train.py"),
        (("--pod-file", "/at/pod.yaml"), "site.global.kubernetes.pod.template", "/at/pod.yaml"),
    ],
    ids=str,
)
def test_options_where_containers_are_images(words, key, value, images):
    assert options(*words)[key] == value


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


def test_an_entrypoint_and_a_pod_file_of_tf_spawner(tmp_path, images, train):
    (tmp_path / "entry.sh").write_text("python /script/training-script.py\n")
    (tmp_path / "pod.yaml").write_text(SPAWNER_POD)
    words = (train, "-w", "2", "-c", "entry.sh", "-p", "1999")
    words += ("-i", "tf:2", "--pod-file", "pod.yaml", "-t", "attempt-7")
    words += ("-O", VOLUMES, "pvc:data:/data", "--name", "app")
    words += ("-O", "site.global.user.checkpoint.prefix", "/data/saved")
    compiled, _ = submitted(tmp_path, *words)
    settings = compiled.job.component("worker").settings
    assert settings.text("user.scripts.entry") == "entry.sh"
    assert settings.text("user.scripts.link") == "/script/training-script.py=train.py"
    at = Places("app", "ann", "ml", tags=("attempt-7",))
    pod = pods(compiled.plan, at)["worker"]
    (container,) = pod["spec"]["containers"]
    mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    assert "emptyDir" in volumes[mounts["/script"]]
    assert volumes[mounts["/data"]]["persistentVolumeClaim"] == {"claimName": "data"}
    assert (container["image"], container["resources"]["limits"]["nvidia.com/gpu"]) == ("tf:2", "1")
    assert pod["metadata"]["labels"]["training_attempt"] == "attempt-7"
    shared = {"data": ("ReadWriteMany",)}
    assert [p for p in check(compiled.plan, at, shared) if p.severity == "error"] == []


def test_a_service_is_not_needed(tmp_path, images, train):
    """What the Kubernetes engine says of TF-Spawner's service.yaml."""
    (tmp_path / "service.yaml").write_text("apiVersion: v1\nkind: Service\n")

    class Engine(PlayedEngine):
        def check(self, compiled):
            problems = check(compiled.plan, Places("app", "ann", "ml"))
            raise InvalidPackageError([p for p in problems if p.severity == "error"])

    engine = Engine(tmp_path, [])
    words = (train, "--pod-file", f"{tmp_path}/service.yaml")
    code, a_shell = call(tmp_path, engine, "run", *words)
    assert (code, engine.created) == (77, [])
    assert (
        f"{tmp_path}/service.yaml:2:7: error: expected a Pod, found a Service [pod-template]\n"
        "  remove it: programs reach each other by the addresses of their pods\n"
    ) in a_shell.err.text


def test_a_warning_of_the_engine_is_shown(tmp_path, train):
    class Engine(PlayedEngine):
        def check(self, compiled):
            return (
                Problem(Position("SparkSession"), "spark", "this is off", WARNING, "Turn it on."),
            )

    engine = Engine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    code, a_shell = call(tmp_path, engine, "run", train)
    assert (code, len(engine.created)) == (0, 1)
    assert "SparkSession: warning: this is off [spark]\n  Turn it on.\n" in a_shell.err.text


def test_a_pod_file_is_for_kubernetes(tmp_path, train):
    words = (train, "--pod-file", f"{tmp_path}/pod.yaml")
    code, said, _ = ran(tmp_path, *words)
    assert (code, said) == (44, f"error: there is no file {tmp_path}/pod.yaml\n")
    (tmp_path / "pod.yaml").write_text("kind: Pod\n")
    _, said = submitted(tmp_path, *words)
    assert "--pod-file is ignored: the engine local has no pods\n" in said


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


def test_the_script_its_environment_and_tags_are_submitted(tmp_path, train):
    (tmp_path / "env").write_text("EXPERIMENT=keras\n")
    (tmp_path / "secrets").write_text("S3_SECRET_KEY=hunter22\n")
    engine = PlayedEngine(tmp_path, [status("SUCCEEDED", verdict=SUCCESS)])
    words = (train, "-w", "3", "-e", f"{tmp_path}/env", "-t", "b", "-t", "a")
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
    (ran,) = compiled.job.ran.components
    assert (ran.program, ran.instances) == ("train.py", 3)
    assert "hunter22" not in repr(compiled) + a_shell.out.text + a_shell.err.text


def archives(tmp_path: Path) -> list[list[str]]:
    """The names in each archive that was made."""
    return [zipfile.ZipFile(path).namelist() for path in tmp_path.glob("**/cache/*.zip")]


def test_nothing_but_what_is_given_is_shipped_beside_the_script(tmp_path):
    (tmp_path / "go.py").write_text("import train\n")
    code, said, _ = ran(tmp_path, f"{tmp_path}/go.py")
    assert (code, said.count("[missing-module]")) == (77, 1)
    (tmp_path / "train.py").write_text("print(1)\n")
    submitted(tmp_path, f"{tmp_path}/go.py", "--files", f"{tmp_path}/train.py")
    assert ["go.py", "train.py"] in archives(tmp_path)
    submitted(tmp_path, f"{tmp_path}/train.py")
    assert ["train.py"] in archives(tmp_path)


def test_what_is_refused_leaves_no_secret_in_the_cache(tmp_path, train):
    (tmp_path / "env").write_text("EXPERIMENT=keras\n")
    (tmp_path / "secrets").write_text("S3_SECRET_KEY=hunter22\n")
    code, said, _ = ran(tmp_path, train, "-e", f"{tmp_path}/env", "--name", "taken")
    assert code == 75, said
    kept = {path.name for path in tmp_path.glob("**/cache/*") if path.is_file()}
    assert kept == {".lock", "known-to-fit", "private.key"}


def test_single_keys_are_set_as_for_other_packages(tmp_path, train):
    keys = (
        *("--rescompopt", "worker", "yarn.memory", "300", "--resopt", "yarn.vcores", "3"),
        *("-O", "site.global.stop.grace", "7", "--component", "evaluator", "1"),
    )
    compiled, _ = submitted(tmp_path, train, "-w", "1", *keys)
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
    words = (f"{module}:experiment", "-w", "3", "--evaluator", "--name", "app")
    compiled, said = submitted(tmp_path, *words)
    assert f"ships {module}.py, which experiment needs\n" in said
    job = compiled.job
    counts = {c.name: c.instances for c in job.components if c.instances}
    assert counts == {"worker": 3, "evaluator": 1}
    assert {c.settings.text("user.scripts.entry") for c in job.components} == {"tfapp-call/main.py"}
    assert {one.program for one in job.ran.components} == {f"{module}:experiment"}
    (files,) = (names for names in archives(tmp_path) if "tfapp-call/main.py" in names)
    own = {name for name in files if not name.startswith("tfapp-call/tfapp/")}
    assert own == {f"{module}.py", "tfapp-call/main.py", "tfapp-call/call.json"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("no_such_module_x:fn",), 77, "there is no module no_such_module_x"),
        (("digits_of_mine:no_such",), 77, "has no no_such"),
        (("digits_of_mine.py:experiment",), 77, "without .py: digits_of_mine:experiment."),
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


CALL_FLAGS = (
    *("--packages", "pandas, keras-cv<1", "--packages", "attrs", "--python", "3.11"),
    *("-i", "tf:2", "--checkpoints", "saved", "--data", "hdfs:///digits", "--timeout", "90"),
)


def test_flags_mean_what_the_arguments_of_the_python_call_mean(tmp_path):
    call = Call(
        packages=["pandas, keras-cv<1", "attrs"],
        python="3.11",
        image="tf:2",
        checkpoints="saved",
        data="hdfs:///digits",
        timeout=90,
    )
    rows = list(run._call_options(parsed(*CALL_FLAGS), shell(tmp_path)))
    assert rows == list(global_rows(call, False, tmp_path))
    assert ("data", "site.global.user.data.dir", "hdfs:///digits") in rows
    assert ("checkpoints", "site.global.user.checkpoint.prefix", f"{tmp_path}/saved") in rows


def shipped(compiled) -> set[str]:
    """The user's files of the application."""
    names = compiled.plan.package.user_files
    return {name for name in names if not name.startswith("tfapp-call/")}


def test_sizes_are_those_of_the_instances_that_run_the_program(tmp_path, train):
    words = (train, "--ps", "1", "--evaluator", "--tensorboard")
    words += ("--memory", "300 MiB", "--vcores", "3", "--gpus", "1", "--retries", "7")
    words += ("--losses", "8")
    compiled, _ = submitted(tmp_path, *words)
    sizes = {c.name: c.container for c in compiled.job.components if c.instances}
    trains, serves = Resources(300, 3, 1), Resources(300, 3)
    assert sizes == {
        **dict.fromkeys(("chief", "worker"), trains),
        **dict.fromkeys(("ps", "evaluator"), serves),
        "tensorboard": Resources(1024, 1),
    }
    failure = compiled.plan.package.failure
    assert (failure.max_restarts, failure.max_losses) == (7, 8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--memory", "2GB5"), "--memory: error: "),
        (("--timeout", "soon"), "--timeout: error: "),
        (("--checkpoints", "~{"), ""),
        (("--gpus", "some"), "--gpus: error: "),
        (
            ("--", "--lr", "${HOME}"),
            "the arguments after --: error: there is no placeholder ${HOME}",
        ),
        (("-e", "no_such_variable_x"), "error: -e no_such_variable_x: this shell has no such"),
        (("-e", "no/such.env"), "error: -e no/such.env cannot be read"),
    ],
    ids=str,
)
def test_a_wrong_value_is_told_by_its_flag(tmp_path, train, words, said):
    code, told, _ = ran(tmp_path, train, *words)
    assert (bool(code), said in told) == (bool(said), True), told
    assert told.count(said or "\0") <= 1


def test_variables_come_from_files_flags_and_the_shell(tmp_path, train):
    (tmp_path / "a.env").write_bytes(b"\xef\xbb\xbfA=file\nB=file\n")
    (tmp_path / "LIKE_A_NAME").write_text("C=file\n")
    words = ("-e", "B=flag=1", "-e", "MINE", "--env-file", "a.env", "-e", "LIKE_A_NAME", "-e", "D=")
    compiled, _ = submitted(tmp_path, train, *words, environ={"MINE": "shell", "OTHER": "x"})
    env = compiled.private.env["worker"]
    names = ("A", "B", "C", "D", "MINE", "OTHER")
    assert [env.get(name) for name in names] == ["file", "flag=1", "file", "", "shell", None]


SIBLINGS = {
    "train.py": "import helper\nimport lib.net\n",
    "helper.py": "import deeper\n",
    "deeper.py": "",
    "lib/__init__.py": "",
    "lib/net.py": "from . import table\n",
    "lib/table.py": "",
    "unused.py": "",
}
USED = set(SIBLINGS) - {"unused.py"}


@pytest.fixture
def siblings(tmp_path, monkeypatch):
    for name, source in SIBLINGS.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(source)
    monkeypatch.chdir(tmp_path)


def test_what_a_script_imports_is_shipped_as_the_python_call_ships_it(tmp_path, siblings):
    compiled, said = submitted(tmp_path, "src/train.py")
    assert "ships deeper.py, helper.py, lib/, which train needs\n" in said
    assert shipped(compiled) == USED
    assert set(pack({"worker": Path("src/train.py")}, tmp_path).files) == USED


def test_a_file_that_is_given_takes_the_place_of_a_module_beside_the_script(tmp_path, siblings):
    (tmp_path / "helper.py").write_text("mine = 1\n")
    compiled, _ = submitted(tmp_path, "src/train.py", "--files", "helper.py")
    assert compiled.plan.package.user_files["helper.py"].read_text() == "mine = 1\n"


def test_a_module_is_run_with_its_package(tmp_path, siblings, monkeypatch):
    (tmp_path / "src" / "lib" / "train.py").write_text("from .net import table\n")
    monkeypatch.chdir(tmp_path / "src")
    compiled, _ = submitted(tmp_path / "src", "-m", "lib.train", "--", "--epochs", "3")
    (component,) = (c for c in compiled.job.components if c.instances)
    assert component.settings.text("user.scripts.entry") == "tfapp-call/main.py"
    assert component.settings.text("user.scripts.args") == "--epochs 3"
    assert shipped(compiled) == {"lib/__init__.py", "lib/net.py", "lib/table.py", "lib/train.py"}


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("lib.train",), 44, "`tfapp run -m lib.train` runs this module."),
        (("lib/train.py",), 77, "lib/train.py:1:1: a relative import, and a script belongs to no"),
        (("lib/train.py",), 77, "`-m lib.train`"),
        (("-m", "lib.trian"), 77, "there is no module lib.trian"),
        (("-m", "lib.train", "-c", "lib/train.py"), 2, "--command is for a script"),
    ],
    ids=str,
)
def test_a_module_that_is_not_run_as_one(tmp_path, monkeypatch, words, code, told):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "net.py").touch()
    (tmp_path / "lib" / "train.py").write_text("from .net import table\n")
    monkeypatch.chdir(tmp_path)
    found, a_shell = call(tmp_path, PlayedEngine(tmp_path, []), "run", *words)
    assert (found, told in a_shell.err.text) == (code, True), a_shell.err.text


READS = """\
import os
steps = int(os.environ.get("STEPS", 1))
print(os.environ["PASSED"], os.getenv("UNSET"), os.environ["PATH"], os.environ["TF_CONFIG"])
print(os.environ["STEPS"], os.environ["TF_CPP_MIN_LOG_LEVEL"])
"""


@pytest.mark.parametrize("program", ["train.py", "train:main"])
def test_a_variable_of_the_shell_that_does_not_reach_the_program_is_told(
    tmp_path, monkeypatch, program
):
    (tmp_path / "train.py").write_text(f"{READS}def main(): pass\n")
    monkeypatch.chdir(tmp_path)
    here = ("STEPS", "PASSED", "PATH", "TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "OTHER")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    _, said = submitted(tmp_path, program, "-e", "PASSED", environ=dict.fromkeys(here, "1"))
    assert [line for line in said.splitlines() if "warning" in line or "pass it on" in line] == [
        "train.py:2:13: warning: the program reads STEPS, which is set here and does "
        "not reach it [variable]",
        "  pass it on with -e STEPS, with env={...}, or set env.STEPS",
    ]


def test_the_modules_of_a_link_are_those_beside_its_target(tmp_path, siblings):
    (tmp_path / "link.py").symlink_to("src/train.py")
    compiled, _ = submitted(tmp_path, "link.py")
    assert shipped(compiled) == {"link.py", *USED} - {"train.py"}


@pytest.mark.parametrize(
    ("program", "source", "place"),
    [
        ("train.py", "print(1)\n", "train.py: error: `scripts/tensorflow.py` needs tensorflow"),
        ("train.py", "import tensorflow\n", "train.py:1:1: error: the program imports tensorflow"),
        ("train.py", "import sys; sys.path\n", "train.py: error: `scripts/tensorflow.py` needs"),
        ("train:main", "def main(): pass\n", ""),
        ("train.sh", "true\n", ""),
    ],
)
def test_an_interpreter_without_tensorflow_is_told_before_the_start(
    tmp_path, monkeypatch, program, source, place
):
    (tmp_path / program.replace(":main", ".py")).write_text(source)
    monkeypatch.chdir(tmp_path)
    python = python_environments.make(tmp_path / "env", borrow=False) / "bin" / "python"
    code, said, _ = ran(tmp_path, program, "--python", str(python))
    assert (code, place in said) == (77 if place else 0, True), said
    assert said.count("[missing-module]") == bool(place)
    sys.modules.pop("train", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "digits"), ""),
        (("--data", "none"), "--data: warning: there is no HERE/none on this machine"),
        pytest.param(("--data", "hdfs:///none"), "", marks=needs_storage),
        (
            ("-O", "site.global.user.data.dir", "digits"),
            "'digits' is relative: it is looked for in",
        ),
        (("-O", "site.global.user.data.dir", "digits", "--files", "digits"), ""),
    ],
    ids=str,
)
def test_data_that_a_program_will_not_find_is_told(tmp_path, train, words, said):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "x.csv").touch()
    _, told = submitted(tmp_path, train, *words)
    assert said in told.replace(str(tmp_path), "HERE")
    assert told.count("[data-folder]") == bool(said)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("train", "#!/usr/bin/env python3\nimport os\n", ""),
        ("train", "\x7fELF", ""),
        ("train.bash", "true\n", ""),
        ("train.PY", "import os\n", ""),
        ("train", "import os.path\n", "error: 'train' is Python without a `#!` line"),
        ("train.txt", "from os import path\n", "error: 'train.txt' is Python without a `#!` line"),
        ("train", "true\n", "warning: nothing says what runs 'train': bash does"),
        ("train.R", "library(keras)\n", "warning: nothing says what runs 'train.R': bash does"),
    ],
)
def test_what_runs_a_program_that_does_not_say_it_is_told(tmp_path, monkeypatch, name, text, said):
    (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    code, told, _ = ran(tmp_path, name, "-w", "1")
    assert code == (77 if said.startswith("error") else 0), told
    assert said in told
    assert told.count("[entry-interpreter]") == bool(said)
