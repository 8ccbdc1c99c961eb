"""The package keras-tuner: what its script refuses and starts, and the example with KerasTuner."""

import json
import signal
import sys
import types

import pytest

from tests import python_environments
from tests.app_packages.test_tensorflow import ASKED, context, interpreter  # noqa: F401
from tests.end_to_end.conftest import tfapp  # noqa: F401
from tests.end_to_end.trainings import EXAMPLES, Application, wait_until
from tests.runner.test_tensorflow_env import cluster
from tests.storage import s3_server
from tfapp.contract.messages import Member
from tfapp.runner.package_script import load_script
from tfapp.script import ScriptError
from tfapp.shipped import app_packages

PACKAGE = app_packages()["keras-tuner"]
CONFIG = {"user.scripts.entry": "train.py", "user.checkpoint.prefix": "/ckpt"}
ORACLE = Member("oracle/0", "oracle", 0, "other", "h0", {"oracle": {"host_port": "h0:5050"}})
MEMBERS = (ORACLE, *cluster(tuner=2))
TRIALS = 6


@pytest.fixture
def script():
    return load_script(PACKAGE, "scripts/keras_tuner.py")


@pytest.mark.parametrize(("component", "name"), [("oracle", "chief"), ("tuner", "tuner1")])
def test_each_process_knows_its_name_and_the_oracle(script, context, component, name):  # noqa: F811
    made = context(component, config=CONFIG, index=int(component == "tuner"), members=MEMBERS)
    started = script.start(made)
    assert started.env == {
        "KERASTUNER_TUNER_ID": name,
        "KERASTUNER_ORACLE_IP": "h0",
        "KERASTUNER_ORACLE_PORT": "5050",
    }
    assert started.argv[:2] == (sys.executable, "-c")
    assert started.argv[3:] == (str(made.files_dir / "train.py"),)


def test_what_it_lacks_is_said_before_the_start(script, context, tmp_path):  # noqa: F811
    python = interpreter(tmp_path, f'exec {sys.executable} -S "$@"')
    with pytest.raises(ScriptError, match="^KerasTuner is not installed in .*/python; install it"):
        script.prepare(context(config=CONFIG, python=python))
    made = context(config={**CONFIG, "user.scripts.entry": "run.sh"})
    (made.files_dir / "run.sh").write_text("exec true")
    with pytest.raises(ScriptError, match="'run.sh' is no Python file"):
        script.prepare(made)


def test_a_url_that_cannot_be_opened_is_said_before_the_start(script, context, tmp_path):  # noqa: F811
    """As where site.global.storage is false."""
    made = python_environments.make(tmp_path / "environment", borrow=False)
    (site,) = made.glob("lib/python3*/site-packages")
    (site / "tensorflow.py").write_text(ASKED)
    (site / "keras_tuner.py").touch()
    of_url = {"checkpoint_dir": "s3://bucket/search", "python": f"{made}/bin/python"}
    with pytest.raises(ScriptError, match="prefix: TensorFlow in .* cannot open s3://"):
        script.prepare(context(config=CONFIG, **of_url))
    (site / "tensorflow.py").unlink()
    script.prepare(context(config=CONFIG, **of_url))  # the program says which backend it has


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_a_url_needs_the_backend_tensorflow(script, monkeypatch, backend):
    """By itself KerasTuner would make a folder of that name in each container."""
    keras = types.SimpleNamespace(backend=types.SimpleNamespace(backend=lambda: backend))
    monkeypatch.setitem(sys.modules, "keras", keras)
    monkeypatch.setenv("TFAPP_CHECKPOINT_DIR", "s3://bucket/search")
    arguments = sys.modules[type(script).__module__].arguments

    def begin(directory=None):
        pass

    if backend == "tensorflow":
        assert arguments(begin, ("a",), {}).args == ("s3://bucket/search/a",)
    else:
        with pytest.raises(ValueError, match="KerasTuner opens no URLs with Keras' backend jax"):
            arguments(begin, (), {})


def trials(folder) -> dict[str, str]:
    """The state of each trial, by its id."""
    found = (json.loads(path.read_text()) for path in folder.glob("*/trial_*/trial.json"))
    return {one["trial_id"]: one["status"] for one in found}


@pytest.mark.trains
def test_the_search_goes_on_although_a_tuner_and_the_oracle_are_killed(
    tfapp,  # noqa: F811
    tmp_path,
):
    searches_although_each_part_is_killed(tfapp, tmp_path)


@pytest.mark.weekly
@pytest.mark.trains
def test_the_same_search_on_s3(tfapp, tmp_path):  # noqa: F811
    """Whose objects are files in the folder of the bucket."""
    bucket = tmp_path / "s3" / "bucket"
    with s3_server.running(bucket.parent, ("bucket",)) as environ:
        flags = s3_server.options(environ)
        searches_although_each_part_is_killed(tfapp, tmp_path, "s3://bucket", bucket, *flags)


def searches_although_each_part_is_killed(
    tfapp,  # noqa: F811
    tmp_path,
    prefix="",
    seen=None,
    *flags,
):
    """`prefix`: that of the checkpoints, `seen`: where its files are; both in `tmp_path`, unless
    given."""
    seen = (seen or tmp_path) / "search"
    folder = EXAMPLES / "digits-keras-tuner"
    python = python_environments.with_keras_tuner(tmp_path / "env")
    digits = Application(
        tfapp,
        "search",
        *("--appdef", "keras-tuner", "--template", folder / "appConfig.yaml"),
        *("--resources", folder / "resources.yaml", "--files", folder / "train.py"),
        *("--option", "site.global.python.executable", python),
        *("--option", "site.global.user.checkpoint.prefix", prefix or tmp_path),
        *("--option", "env.TRIALS", TRIALS),
        *flags,
    )

    def ended() -> int:
        return list(trials(seen).values()).count("COMPLETED")

    wait_until(lambda: ended() >= 1, digits.told)
    digits.signal("tuner/1", "train.py", signal.SIGKILL)
    wait_until(lambda: digits.status()["restarts"] == 1, digits.told)
    before = ended()
    digits.signal("oracle/0", "train.py", signal.SIGKILL)
    status = digits.ends(0)
    assert before < TRIALS, "the oracle was killed before the end"
    assert (status["generation"], status["restarts"]) == (2, 2), digits.told()
    found = trials(seen)
    assert found == {str(number): "COMPLETED" for number in range(TRIALS)}
    oracle = status["instances"][0]
    told = oracle["metrics"]
    assert (told["trials_completed"], told["trials_failed"]) == (TRIALS, 0), oracle
    assert told["best_val_accuracy"] > 0.8
    assert (oracle["step"], oracle["total"]) == (TRIALS, TRIALS)
    assert {"Python", "KerasTuner", "Keras", "TensorFlow"} <= set(oracle["versions"])
    assert "best: " in digits.log("tuner/0"), "the oracle answers after the search"
