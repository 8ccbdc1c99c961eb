"""tf-yarn's names: on the local engine, which tf-yarn itself has not."""

import datetime
import re
import types
from pathlib import Path

import pytest

import tfapp
from tests import programs
from tfapp import tf_yarn
from tfapp.errors import UsageError
from tfapp.skein_library import skein
from tfapp.tf_yarn import ContainerKey, NodeLabel, TaskFlavor, TaskSpec, run_on_yarn

ROOT = Path(tfapp.__file__).parents[1]


@pytest.fixture
def asked(monkeypatch):
    """What `tfapp.run` is asked for, in place of a run."""
    calls = []

    def run(program, components, **more):
        calls.append(types.SimpleNamespace(program=program, components=components, **more))
        instances = {"chief/0": types.SimpleNamespace(seconds=2.5)}
        return types.SimpleNamespace(instances=instances)

    monkeypatch.setattr("tfapp.api.call.run", run)
    return calls


def experiment():
    return 1


def test_the_call_of_the_manual(asked):
    text = (ROOT / "docs" / "tf-yarn.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
    exec(code, {"experiment_fn": experiment})
    (call,) = asked
    assert call.program is experiment
    assert call.components["worker"] == tfapp.Component("2 GiB", 4, 8)
    assert call.packages[0] == "keras"


def test_the_call_of_the_seed(asked):
    run_on_yarn(
        experiment,
        task_specs={
            "chief": TaskSpec(memory=2 * 2**10, vcores=4, flavor=TaskFlavor.GPU),
            "worker": TaskSpec(2 * 2**10, 4, 8, TaskFlavor.GPU),
            "ps": TaskSpec(memory="2 GiB", vcores=8),
            "evaluator": TaskSpec(memory=2**10, vcores=1),
            "tensorboard": TaskSpec(1024, 1, tb_model_dir="/logs", tb_extra_args="--a b"),
        },
        python="3.11.7",
        pip_packages=["keras", "tensorflow==2.15.*"],
        files={"winequality.py": "/home/ann/winequality.py"},
        env={"A": "1"},
        queue="ml-gpu",
        name_nodes=["hdfs://prod-pa4"],
    )
    (call,) = asked
    assert call.program is experiment
    assert call.components["chief"] == tfapp.Component(2048, 4, 1, None, "gpu")
    assert call.components["worker"] == tfapp.Component(2048, 4, 8, None, "gpu")
    assert call.components["tensorboard"].options == {
        "site.global.tensorboard.logdir": "/logs",
        "site.global.tensorboard.args": "--a b",
    }
    assert (call.python, call.packages[:2]) == ("3.11.7", ["keras", "tensorflow==2.15.*"])
    assert call.files == {"winequality.py": "/home/ann/winequality.py"}
    assert (call.env, call.queue) == ({"A": "1"}, "ml-gpu")
    assert call.file_systems == ["hdfs://prod-pa4"]
    assert (call.engine, call.retries) == ("yarn", 0)


def test_the_call_of_later_releases(asked):
    acls = skein.ACLs(enable=True, view_users=["ann"], modify_groups=["ml"])
    with pytest.warns(UserWarning) as warned:
        metrics = run_on_yarn(
            experiment,
            {
                "chief": TaskSpec("1 GiB", 1, label=NodeLabel.CPU),
                "worker": TaskSpec("1 GiB", 1, label=NodeLabel.GPU),
                "evaluator": TaskSpec("1 GiB", 1, label=NodeLabel.CPU),
            },
            pyenv_zip_path={NodeLabel.CPU: "hdfs:///env.tar.gz", NodeLabel.GPU: "hdfs:///gpu.pex"},
            acls=acls,
            file_systems=["hdfs://other"],
            nb_retries=2,
            name="Run On Yarn",
            skein_client=object(),
            eval_monitor_log_thresholds={"loss": (0, 1)},
        )
    assert [str(one.message).partition(" ")[0] for one in warned] == [
        "skein_client",
        "eval_monitor_log_thresholds",
    ]
    (call,) = asked
    key = "site.global.python.archive"
    assert call.options == {key: "hdfs:///env.tar.gz", "site.global.master.attempts": "3"}
    own = {one: component.options for one, component in call.components.items()}
    assert own == {"chief": {}, "worker": {key: "hdfs:///gpu.pex"}, "evaluator": {}}
    assert call.acls == {"view_users": ["ann"], "modify_groups": ["ml"]}
    assert call.name.startswith("run-on-yarn-")
    assert call.retries == 2
    took = datetime.timedelta(seconds=2.5)
    key = ContainerKey("chief", 0)
    assert metrics == tf_yarn.Metrics(took, None, {key: took}, {key: took})


def test_access_that_is_not_enabled_is_not_asked_for(asked):
    run_on_yarn(experiment, acls=skein.ACLs(view_users=["ann"]))
    run_on_yarn(experiment, acls={"view_users": ["ann"]})
    assert [call.acls for call in asked] == [{}, {"view_users": ["ann"]}]


@pytest.mark.parametrize(
    ("specs", "more", "told"),
    [
        ({"chif": TaskSpec(1, 1)}, {}, "no task type 'chif'"),
        ({"worker": TaskSpec(1, 1)}, {}, "exactly one chief"),
        ({"chief": TaskSpec(1, 1, 2)}, {}, "exactly one chief"),
        ({"chief": TaskSpec(1, 1), "evaluator": TaskSpec(1, 1, 2)}, {}, "one evaluator at most"),
        (None, {"custom_task_module": "x"}, "custom_task_module has no meaning"),
        (None, {"pre_script_hook": "x"}, "pre_script_hook has no meaning"),
        (None, {"cuda_runtime_hdfs_path": "x"}, "cuda_runtime_hdfs_path has no meaning"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_meaning_is_said(asked, specs, more, told):
    with pytest.raises(UsageError, match=told) as raised:
        run_on_yarn(experiment, specs, **more)
    assert asked == []
    assert raised.value.hint
    assert str(raised.value).endswith(f"\n{raised.value.hint}")


def test_processes_of_an_instance():
    with pytest.raises(UsageError, match="nb_proc_per_worker(.|\n)*Give more instances"):
        TaskSpec(1, 1, nb_proc_per_worker=2)


def test_topologies():
    assert set(tf_yarn.single_server_topology()) == {"chief", "evaluator", "tensorboard"}
    specs = tf_yarn.ps_strategy_topology(nb_workers=3, nb_ps=2)
    assert (specs["worker"].instances, specs["ps"].instances) == (3, 2)


PROGRAM = """
from tfapp.tf_yarn import ContainerKey, TaskSpec, get_safe_experiment_fn, run_on_yarn
import own_experiments

metrics = run_on_yarn(
    get_safe_experiment_fn("own_experiments.train", 0.5),
    task_specs={"chief": TaskSpec(memory=512, vcores=1)},
    engine="local",
)
assert metrics.container_duration[ContainerKey("chief", 0)].total_seconds() > 0
"""

EXPERIMENTS = """
from tfapp.tf_yarn import Experiment, TaskSpec, run_on_yarn  # there is no api where it runs
import tfapp

SPEC = TaskSpec(1024, 1)
COMPONENT = tfapp.Component("1 GiB")

def train(rate):
    try:
        run_on_yarn(train, {"chief": SPEC})
    except tfapp.errors.UsageError as error:
        print(error)
    print("trains at", rate)
"""


@pytest.mark.slow
def test_a_program_with_nothing_but_its_import_line_changed(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "own_experiments.py").write_text(EXPERIMENTS)
    printed = programs.printed("program.py", cwd=tmp_path)
    assert "trains at 0.5" in printed
    assert "cannot be called in a container" in printed
