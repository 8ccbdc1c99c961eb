"""The TensorFlow package's script: what it refuses, what it starts."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import signal
import stat
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path

import pytest

import tfapp.storage
from tests import programs, python_environments
from tests.lacking import needs_storage
from tests.runner.driving import PATIENCE
from tests.runner.test_tensorflow_env import cluster
from tests.test_script import PlayedHandle, context_of
from tfapp import shipped
from tfapp.contract.names import ENV_STORAGE
from tfapp.program.main import CALL_FILE
from tfapp.runner import entry, ports, tensorflow_env
from tfapp.runner.package_script import load_script
from tfapp.runner.run_mode import execute
from tfapp.script import Context, ScriptError

PACKAGE = shipped.app_packages_dir() / "tensorflow"
CONFIG = {
    "user.scripts.entry": "train.py",
    "user.checkpoint.prefix": "/ckpt",
    "keras.legacy": "true",
    "tensorboard.port": "6006",
    "tensorboard.logdir": "/ckpt/digits",
}


@pytest.fixture
def script():
    return load_script(PACKAGE, "scripts/tensorflow.py")


@pytest.fixture
def context(tmp_path):
    for name in ("files", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "files" / "train.py").write_text("print('trained')")

    def make(role: str = "worker", arguments: str = "", env=None, **changes) -> Context:
        site = {"site.global.user.scripts.args": arguments}
        base = context_of(site)
        component = dataclasses.replace(base.component, name=role, role=role)
        settings = {
            "component": component,
            "index": 0,
            "python": sys.executable,
            "files_dir": tmp_path / "files",
            "work_dir": tmp_path / "work",
            "env": {"PATH": os.environ["PATH"], **(env or {})},
            "config": CONFIG,
            "members": cluster(chief=1, worker=2, ps=1, evaluator=1, tensorboard=1),
        }
        made = dataclasses.replace(base, **{**settings, **changes})
        return dataclasses.replace(made, execute=lambda argv, limit: execute(made, argv, limit))

    return make


def interpreter(folder: Path, body: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_finds_a_file_at_another_path_too(script, context, tmp_path):
    link = tmp_path / "script" / "training-script.py"
    made = context(config={**CONFIG, "user.scripts.link": f"{link}=train.py"})
    for _ in range(2):
        script.prepare(made)
    assert (link.read_text(), [*link.parent.iterdir()]) == ("print('trained')", [link])
    (tmp_path / "taken").write_text("")
    made = context(config={**CONFIG, "user.scripts.link": f"{tmp_path}/taken/x=train.py"})
    with pytest.raises(ScriptError, match=r"user.scripts.link: .*/taken/x cannot be made: "):
        script.prepare(made)


@pytest.mark.parametrize("role", ["chief", "worker", "ps", "evaluator"])
def test_a_task_gets_the_cluster_and_a_shared_port(script, context, role):
    made = context(role, "--epochs 3 'two words'")
    script.prepare(made)
    program = script.start(made)
    assert program.argv == (
        *(sys.executable, str(made.files_dir / "train.py")),
        *("--epochs", "3", "two words"),
    )
    assert program.env == {
        "TF_GRPC_REUSE_PORT": "true",
        "TF_USE_LEGACY_KERAS": "1",
        **tensorflow_env.task_environment(f"{role}/0", made.members),
    }
    assert json.loads(program.env["TF_CONFIG"])["task"] == {"type": role, "index": 0}
    assert (program.cwd, program.release_ports) == (None, ())


@pytest.mark.parametrize(
    ("legacy", "env", "variable"),
    [
        ("true", {}, "1"),
        ("false", {}, None),
        ("True", {}, "1"),
        ("true", {"TF_USE_LEGACY_KERAS": "0"}, None),
    ],
)
def test_keras_2_is_a_matter_of_configuration(script, context, legacy, env, variable):
    made = context(env=env, config={**CONFIG, "keras.legacy": legacy})
    script.prepare(made)
    assert script.start(made).env.get("TF_USE_LEGACY_KERAS") == variable


@pytest.mark.parametrize(
    ("keras", "tf_keras", "variable", "warned"),
    [
        ("keras-2.15.0", False, None, False),
        ("keras-2.15.0", True, None, False),
        ("keras-3.8.0", True, "1", False),
        ("keras-3.8.0", False, None, True),
        ("keras_nightly-3.9.0.dev2", True, "1", False),
        ("keras_preprocessing-1.1.2", True, "1", False),
    ],
)
def test_keras_2_is_asked_for_where_it_is_beside_keras_3(
    script, context, tmp_path, keras, tf_keras, variable, warned, capfd
):
    modules = ["tensorflow", "keras", *(["tf_keras"] if tf_keras else [])]
    for module in modules:
        (tmp_path / "modules" / module).mkdir(parents=True)
        (tmp_path / "modules" / module / "__init__.py").write_text("raise RuntimeError")
    (tmp_path / "modules" / f"{keras}.dist-info").mkdir()
    made = context(
        python=interpreter(tmp_path, f'exec {sys.executable} -S "$@"'),
        env={"PYTHONPATH": str(tmp_path / "modules")},
    )
    script.prepare(made)
    assert script.start(made).env.get("TF_USE_LEGACY_KERAS") == variable
    assert ("tf-keras is not installed" in capfd.readouterr().out) == warned


@pytest.mark.parametrize(
    ("distributions", "tensorflow"),
    [
        (["tensorflow-2.16.1"], {"TensorFlow": "2.16.1"}),
        (["tensorflow_cpu-2.20.0rc1", "tensorflow_io-0.37.1"], {"TensorFlow": "2.20.0rc1"}),
        (["tf_nightly-2.21.0.dev20261101"], {"TensorFlow": "2.21.0.dev20261101"}),
        (["tensorflow_datasets-4.9.0"], {}),
    ],
)
def test_the_versions_that_a_program_runs_with_are_told(
    script, context, tmp_path, distributions, tensorflow
):
    for name in ("tensorflow", *(f"{one}.dist-info" for one in distributions)):
        (tmp_path / "modules" / name).mkdir(parents=True)
    (tmp_path / "modules" / "tensorflow" / "__init__.py").write_text("raise RuntimeError")
    python = interpreter(tmp_path, f'exec {sys.executable} -S "$@"')
    assert not script.versions
    script.prepare(context(python=python, env={"PYTHONPATH": str(tmp_path / "modules")}))
    assert script.versions == {"Python": sys.version.split()[0].rstrip("+"), **tensorflow}


def test_a_program_without_python_is_not_told_of_keras(script, context):
    made = context(python="/nowhere/python", config={**CONFIG, "user.scripts.entry": "run.sh"})
    (made.files_dir / "run.sh").write_text("exec true")
    script.prepare(made)
    assert "TF_USE_LEGACY_KERAS" not in script.start(made).env
    assert not script.versions


@pytest.mark.parametrize(("legacy", "asks"), [("true", 1), ("false", 0)])
def test_the_python_of_a_shell_script_is_asked_before_its_start(script, context, legacy, asks):
    config = {**CONFIG, "user.scripts.entry": "run.sh", "keras.legacy": legacy}
    made, asked = context(env={"HOME": "/elsewhere"}, config=config), []
    (made.files_dir / "run.sh").write_text("exec true")
    execute = made.execute
    made = dataclasses.replace(made, execute=lambda *words: asked.append(words) or execute(*words))
    script.prepare(made)
    assert len(asked) == asks
    assert ("TF_USE_LEGACY_KERAS" in script.start(made).env) == bool(asks)
    assert len(asked) == asks


@pytest.mark.parametrize("name", ["TRAIN.PY", "train.pyw", "app.pyz"])
def test_python_runs_what_is_named_as_python(script, context, name):
    made = context("worker", config={**CONFIG, "user.scripts.entry": name})
    path = made.files_dir / name
    path.write_text("")
    script.prepare(made)
    assert script.start(made).argv[:2] == (made.python, str(path))


def test_what_is_no_python_is_run_as_it_is(script, context):
    made = context("worker", "train.py", config={**CONFIG, "user.scripts.entry": "run.sh"})
    path = made.files_dir / "run.sh"
    path.write_text("exec python3 train.py")
    script.prepare(made)
    assert script.start(made).argv == ("bash", str(path), "train.py")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    assert script.start(made).argv == ("bash", str(path), "train.py")
    path.write_text("#!/bin/sh\nexec python3 train.py")
    assert script.start(made).argv == (str(path), "train.py")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/usr/bin/env python3", ("/usr/bin/env", "python3")),
        ("#! /usr/bin/env -S python3 -u\r", ("/usr/bin/env", "-S python3 -u")),
        ("#!/bin/bash -e", ("/bin/bash", "-e")),
        ("#!", ("bash",)),
        ("# none", ("bash",)),
    ],
)
@pytest.mark.parametrize("name", ["train", "run.sh"])
def test_the_interpreter_of_the_first_line_runs_what_is_not_executable(
    script, context, name, first, words
):
    made = context("worker", config={**CONFIG, "user.scripts.entry": name})
    (made.files_dir / name).write_text(f"{first}\n")
    assert script.start(made).argv == (*words, str(made.files_dir / name))


def test_tensorboard_serves_the_port_that_is_exported(script, context):
    made = context("tensorboard")
    argv = script.start(made).argv
    assert argv[0] == sys.executable
    assert argv[3:] == (
        *("--logdir", "/ckpt/digits", "--port", "6006", "--reuse_port", "true"),
        *("--host", "127.0.0.1"),
    )
    assert "TF_CONFIG" not in script.start(made).env
    assert script.start(dataclasses.replace(made, host="node7")).argv[-1] == "--bind_all"


def test_checkpoints_without_a_prefix_are_warned_of(script, context, capfd):
    config = {key: value for key, value in CONFIG.items() if "prefix" not in key}
    warning = (
        "tfapp: warning: site.global.user.checkpoint.prefix is not set: checkpoints go to "
        "/ckpt/digits, which no other instance sees and which ends with this container"
    )
    anew = "; after any restart all instances begin anew, with empty folders"
    for members, more in ((cluster(worker=1, ps=1), ""), (cluster(worker=2), anew)):
        script.start(context(config=config, members=members))
        assert capfd.readouterr().out == f"{warning}{more}\n"


def test_stop_and_status_use_the_handle(script, context):
    handle = PlayedHandle()
    script.stop(context(), handle)
    script.stop(context(config={**CONFIG, "stop.signal": "SIGINT"}), handle)
    assert handle.signals == [signal.SIGTERM, signal.SIGINT]
    script.stop(context(), (handle := PlayedHandle(catcher="/usr/lib/libpython3.11.so.1.0")))
    assert handle.signals == [signal.SIGTERM]
    assert script.status(context(), handle) is True
    assert script.status(context(), PlayedHandle(alive=False)) is False


@pytest.mark.parametrize(
    ("catcher", "touched", "signals"),
    [
        # The second one is for a TensorFlow that waits although its Python has ended.
        ("/env/tensorflow/libtensorflow_cc.so.2", False, [signal.SIGTERM, *2 * [signal.SIGINT]]),
        ("/env/tensorflow/libtensorflow_cc.so.2", True, [signal.SIGTERM]),
        ("/tensorflow/bin/python3.11", False, [signal.SIGTERM]),
        ("", False, [signal.SIGTERM]),
    ],
)
def test_sigint_follows_where_tensorflow_has_caught_sigterm(
    script, context, tmp_path, monkeypatch, catcher, touched, signals
):
    """Unless the program says by its progress file that it saves."""
    for limit in ("SECOND_SIGNAL", "AFTER_PYTHON"):
        monkeypatch.setattr(entry, limit, 0.0)
    made = context(env={"TFAPP_PROGRESS_FILE": str(tmp_path / "progress")})
    handle = PlayedHandle(catcher=catcher, catching=2)
    (tmp_path / "progress").touch()
    os.utime(tmp_path / "progress", (2**40, 2**40) if touched else (0, 0))
    script.stop(made, handle)
    assert handle.signals == signals
    assert handle.catching == (-1 if len(signals) == 3 else 2), "not before Python has ended"


def test_sigint_follows_at_once_where_the_program_has_saved(script, context, tmp_path, monkeypatch):
    """It waits to be stopped, in Python, and not in the middle of a step."""
    monkeypatch.setattr(entry, "SECOND_SIGNAL", 1e9)
    monkeypatch.setattr(entry, "AFTER_PYTHON", 0.0)
    file = tmp_path / "saved"
    file.write_text('{"id": "a", "action": "save", "step": 6, "saved": 7}')
    handle = PlayedHandle(catcher="/env/tensorflow/libtensorflow_cc.so.2", catching=2)
    script.stop(context(env={"TFAPP_SAVED_FILE": str(file)}), handle)
    assert handle.signals == [signal.SIGTERM, *2 * [signal.SIGINT]]


@pytest.mark.parametrize("role", ["worker", "tensorboard"])
def test_with_tensorflow_there_is_nothing_to_refuse(script, context, role, capfd):
    script.prepare(context(role))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("given", "asks"),
    [
        ({"PYTHONUNBUFFERED": "1"}, 0),
        ({"PYTHONPATH": "/elsewhere"}, 1),
        ({"HOME": "/elsewhere"}, 1),
    ],
)
def test_only_an_interpreter_with_other_modules_is_asked(script, context, given, asks):
    made, asked = context(env={**os.environ, **given}), []
    execute = made.execute
    script.prepare(
        dataclasses.replace(made, execute=lambda *words: asked.append(words) or execute(*words))
    )
    assert len(asked) == asks


def test_this_interpreter_knows_what_it_lacks(script, context, monkeypatch, capfd):
    made = context(env=os.environ)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ScriptError, match="TensorFlow is not installed in"):
        script.prepare(made)
    (made.work_dir / "tensorflow.py").write_text("raise RuntimeError('imported')")
    script.prepare(made)
    assert "tf-keras is not installed" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("role", "name"), [("worker", "TensorFlow"), ("tensorboard", "TensorBoard")]
)
def test_without_tensorflow_one_sentence_says_so(script, context, tmp_path, role, name):
    bare = interpreter(tmp_path, f'exec {sys.executable} -S "$@"')
    with pytest.raises(ScriptError) as error:
        script.prepare(context(role, python=bare))
    assert str(error.value) == (
        f"{name} is not installed in {bare}; install it, add it to site.global.python.packages, "
        "or set site.global.python.executable"
    )


def test_a_call_may_do_without_tensorflow(script, context, tmp_path, capfd):
    folder = tmp_path / "files" / "tfapp-call"
    folder.mkdir()
    for name in ("main.py", CALL_FILE):
        (folder / name).touch()
    bare = interpreter(tmp_path, f'exec {sys.executable} -S "$@"')
    made = context(python=bare, config={**CONFIG, "user.scripts.entry": "tfapp-call/main.py"})
    script.prepare(made)
    program = script.start(made)
    assert program.argv == (bare, str(folder / "main.py"))
    assert "TF_USE_LEGACY_KERAS" not in program.env
    assert capfd.readouterr() == ("", "")


def test_without_tf_keras_a_warning_says_so(script, context, tmp_path, capfd):
    (tmp_path / "tensorflow.py").touch()
    bare = interpreter(tmp_path, f'exec {sys.executable} -S "$@"')
    script.prepare(context(python=bare, env={"PYTHONPATH": str(tmp_path)}))
    assert capfd.readouterr().out == (
        "tfapp: warning: site.global.keras.legacy is true, but tf-keras is not installed in "
        f"{bare}: tf.keras is Keras 3, with which model.fit() fails under "
        "MultiWorkerMirroredStrategy and ParameterServerStrategy\n"
    )


def test_the_programs_own_modules_do_not_disturb_the_probe(script, context):
    made = context()
    for module in ("json.py", "importlib.py", "types.py"):
        (made.work_dir / module).write_text("raise RuntimeError('imported')")
    script.prepare(made)


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (
            "/nowhere/python",
            "/nowhere/python cannot be run: No such file or directory; "
            "set site.global.python.executable",
        ),
        ("broken", "python failed:\nno such library"),
    ],
)
def test_an_interpreter_that_does_not_work_is_named(script, context, tmp_path, python, message):
    if python == "broken":
        python = interpreter(tmp_path, "echo no such library >&2; exit 1")
    with pytest.raises(ScriptError) as error:
        script.prepare(context(python=python))
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"config": {**CONFIG, "user.scripts.entry": "eval.py"}},
            "site.global.user.scripts.entry: there is no eval.py in files/; put it into the "
            "package's files/ or give it with --files",
        ),
        (
            {"config": {**CONFIG, "user.scripts.entry": "../work/x.py"}},
            "site.global.user.scripts.entry: '../work/x.py' is not below files/",
        ),
        (
            {"checkpoint_dir": "ckpt/digits"},
            "site.global.user.checkpoint.prefix: 'ckpt/digits' is relative, which means another "
            "folder in every instance; give an absolute path or a URL",
        ),
    ],
)
def test_a_wrong_configuration_is_refused(script, context, changes, message):
    with pytest.raises(ScriptError) as error:
        script.prepare(context(**changes))
    assert str(error.value) == message


@pytest.mark.trains  # TensorFlow is imported
@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (
            {"checkpoint_dir": "hdfs://nn/ckpt/digits", "data_dir": "ram://data"},
            "site.global.user.checkpoint.prefix",
        ),
        (
            {"checkpoint_dir": "file:///ckpt", "data_dir": "hdfs://nn/data"},
            "site.global.user.data.dir",
        ),
    ],
)
def test_a_file_system_that_tensorflow_lacks_is_refused(script, context, changes, key):
    """Not those that it has."""
    with pytest.raises(ScriptError) as error:
        script.prepare(context(**changes))
    assert str(error.value) == (
        f"{key}: TensorFlow in {sys.executable} cannot open hdfs://: site.global.storage is false, "
        "or its packages did not travel; use a shared mount, or see docs/storage.md"
    )


# What is asked of a TensorFlow before the start.
ASKED = "class io:\n  class gfile:\n    get_registered_schemes = staticmethod(lambda: ['gs'])\n"


def opening(folder: Path, packages: str) -> dict[str, str]:
    """The variables of a program whose `packages` have travelled."""
    startup = str(Path(tfapp.storage.__file__).with_name("startup"))
    places = dict.fromkeys(("PYTHONPATH", "PEX_EXTRA_SYS_PATH"), startup)
    return {**places, ENV_STORAGE: packages, "PEX_ROOT": str(folder / "pex")}


@pytest.mark.slow
@pytest.mark.parametrize("is_environment", [True, False])
def test_a_pex_that_is_an_environment_opens_urls(script, context, tmp_path, is_environment):
    """Its Python is started with -sE. The start of another one fails."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "tensorflow.py").write_text(ASKED)
    path = tmp_path / "files" / "train.pex"
    kind = ["--venv"] if is_environment else []
    programs.printed("-m", "pex", "-D", tmp_path / "sources", "--output-file", path, *kind)
    made = context(
        config={**CONFIG, "user.scripts.entry": path.name},
        env=opening(tmp_path, sysconfig.get_path("purelib")),
        checkpoint_dir="s3://bucket/checkpoints",
    )
    if is_environment:
        script.prepare(made)
        return
    with pytest.raises(ScriptError) as error:
        script.prepare(made)
    assert str(error.value) == (
        "site.global.user.checkpoint.prefix: TensorFlow in train.pex cannot open s3://: this "
        "Python is started with -E, -I or -S, so that tfapp adds nothing to it; build the PEX with "
        "`pex --venv`; use a shared mount, or see docs/storage.md"
    )


@needs_storage
def test_packages_that_do_not_fit_to_the_python_of_an_image_are_told(script, context, tmp_path):
    made = python_environments.make(tmp_path / "environment", borrow=False)
    (site,) = made.glob("lib/python3*/site-packages")
    (site / "tensorflow.py").write_text(ASKED)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "obstore.py").write_text("raise ImportError('undefined symbol')")
    env = opening(tmp_path, str(tmp_path / "packages"))
    with pytest.raises(ScriptError) as error:
        script.prepare(context(env=env, data_dir="s3://bucket/data", python=f"{made}/bin/python"))
    assert (
        "cannot open s3://: what travels does not fit to Python "
        f"{platform.python_version()}: undefined symbol; install obstore beside TensorFlow; "
    ) in str(error.value)


@pytest.mark.trains  # TensorBoard starts
def test_tensorboard_answers_at_a_held_port(script, context, tmp_path):
    held = ports.hold()
    config = {**CONFIG, "tensorboard.port": str(held.number), "tensorboard.logdir": str(tmp_path)}
    made = context("tensorboard", config=config)
    program = script.start(made)
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(
            program.argv,
            env={**made.env, **program.env},
            cwd=made.work_dir,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        assert "<title>TensorBoard" in fetch(f"http://127.0.0.1:{held.number}/", process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        held.close()


def fetch(url: str, process: subprocess.Popen) -> str:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as response:
                return response.read().decode()
        except OSError:
            assert process.poll() is None and time.monotonic() < end, "no answer in time"
            time.sleep(0.1)


def command(context, text: str, arguments: str = "", **config) -> Context:
    """The context of an instance whose program is the command `text`."""
    made = context("worker", arguments)
    site = {**made.component.site, "site.global.user.scripts.command": text}
    component = dataclasses.replace(made.component, site=site)
    settings = {**CONFIG, "user.scripts.command": text, **config}
    return dataclasses.replace(made, component=component, config=settings)


def test_a_command_of_the_image_needs_no_file(script, context):
    made = command(context, "sh -c 'exec train'", "--epochs 3")
    (made.files_dir / "train.py").unlink()
    script.prepare(made)
    started = script.start(made)
    assert started.argv == ("sh", "-c", "exec train", "--epochs", "3")
    assert (started.cwd, started.of_image, started.entry_point) == (None, True, False)
    assert json.loads(started.env["TF_CONFIG"])["task"] == {"type": "worker", "index": 0}


def test_the_images_own_command_gets_the_arguments(script, context):
    made = command(context, "tfapp:image", "--epochs 3", **{"user.scripts.dir": "/opt/model"})
    started = script.start(made)
    assert started.argv == ("--epochs", "3")
    assert (started.cwd, started.of_image, started.entry_point) == (Path("/opt/model"), True, True)
