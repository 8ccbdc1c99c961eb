"""The package keras-jax: what its script refuses and starts, and the example with real JAX."""

import re
import signal
import sys

import pytest

from tests import programs, python_environments
from tests.app_packages.test_tensorflow import context, interpreter  # noqa: F401
from tests.end_to_end.conftest import tfapp  # noqa: F401
from tests.end_to_end.trainings import EXAMPLES, Application, wait_until
from tests.runner.test_tensorflow_env import cluster
from tests.test_script import PlayedHandle
from tfapp.runner import entry, ports
from tfapp.runner.package_script import load_script
from tfapp.script import ScriptError
from tfapp.shipped import app_packages

CONFIG = {"user.scripts.entry": "train.py", "user.checkpoint.prefix": "/ckpt"}


@pytest.fixture
def script():
    return load_script(app_packages()["keras-jax"], "scripts/keras_jax.py")


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_each_process_knows_its_number_and_the_coordinator(script, context, backend):  # noqa: F811
    env = {} if backend == "jax" else {"KERAS_BACKEND": backend}
    made = context(index=1, config=CONFIG, members=cluster(worker=2), env=env)
    first, second = (member.exports["worker"]["host_port"] for member in made.members)
    assert script.start(made).env == {
        "KERAS_BACKEND": backend,
        "JAX_COORDINATOR_ADDRESS": first,
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"{first},{second}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "1",
    }


def test_without_jax_it_is_refused(script, context, tmp_path):  # noqa: F811
    python = interpreter(tmp_path, f'exec {sys.executable} -S "$@"')
    with pytest.raises(ScriptError, match="^JAX is not installed in .*/python; install it, add it"):
        script.prepare(context(config=CONFIG, python=python))


def test_sigint_follows_where_jax_has_caught_sigterm(script, context, monkeypatch):  # noqa: F811
    for limit in ("SECOND_SIGNAL", "AFTER_PYTHON"):
        monkeypatch.setattr(entry, limit, 0.0)
    handle = PlayedHandle(catcher="/env/jaxlib/libjax_common.so", catching=0)
    script.stop(context(config=CONFIG), handle)
    assert handle.signals == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]


@pytest.mark.trains
def test_the_digits_are_learned_although_a_process_is_killed(tfapp, tmp_path):  # noqa: F811
    learns_although_a_process_is_killed(tfapp, tmp_path)


def learns_although_a_process_is_killed(tfapp, tmp_path):  # noqa: F811
    """In an environment without TensorFlow."""
    folder, python = EXAMPLES / "digits-keras-jax", python_environments.with_jax(tmp_path / "env")
    digits = Application(
        tfapp,
        "digits-jax",
        *("--appdef", "keras-jax", "--template", folder / "appConfig.yaml"),
        *("--resources", folder / "resources.yaml", "--files", folder / "train.py"),
        *("--option", "site.global.python.executable", python),
        *("--option", "site.global.user.checkpoint.prefix", tmp_path),
    )
    wait_until((tmp_path / "digits-jax" / "last.keras").exists, digits.told)
    digits.signal("worker/1", "train.py", signal.SIGKILL)
    status = digits.ends(0)
    assert (status["generation"], status["restarts"]) == (2, 1)
    begun = re.findall(r"goes on after epoch (\d+)", digits.log("worker/0"))
    assert len(begun) == 2 and int(begun[0]) == 0 < int(begun[1])
    (accuracy,) = re.findall(r"(?m)^test accuracy (0\.\d+)$", digits.log("worker/0"))
    assert float(accuracy) > 0.9
    assert {"Python", "JAX", "Keras"} == set(status["instances"][0]["versions"])


@pytest.mark.trains
def test_the_program_of_the_package_learns_while_the_runner_holds_its_port(tmp_path):
    held = ports.hold()
    environ = {
        "KERAS_BACKEND": "jax",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{held.number}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "1",
        "KERAS_DISTRIBUTION_PROCESS_ID": "0",
        "JAX_NUM_PROCESSES": "1",
        "JAX_PROCESS_ID": "0",
        "TFAPP_CHECKPOINT_DIR": str(tmp_path / "saved"),
    }
    program = app_packages()["keras-jax"] / "files" / "train.py"
    python = python_environments.with_jax(tmp_path / "env")
    done = programs.run(python, program, environ=environ)
    ports.release([held])
    assert "learned y = 3.00 x -1.00" in done.stdout, done.stderr
    assert (tmp_path / "saved" / "last.keras").exists()
