"""A shipped program in a process of its own, with the variables that a runner sets."""

import json
import sys
from pathlib import Path

import pytest

from tests.program import calls

MODULE = """
import json, os, sys
from pathlib import Path

def tell(context):
    print(json.dumps(told(context)))

def told(context, *more):
    return [context.instance, context.role, context.cluster, context.task, context.exports, more]

def with_arguments(times, context, word="?"):
    print(word * times, context.instance)

class Nested:
    @staticmethod
    def fails():
        raise ValueError("of the\\nuser's own")

def alone():
    print("alone")

def leaves():
    sys.exit(7)

def needs(first, second):
    pass

NUMBER = 3

if __name__ == "__main__":
    print("as a module", sys.argv, Path(sys.path[0]).name)
    import tfapp
    print(Path(tfapp.__file__).parents[1].name)
"""


@pytest.fixture
def run(tmp_path):
    """Runs component "worker" of a call, `program` being its entry in call.json."""
    files = tmp_path / "files"
    files.mkdir()
    (files / "own.py").write_text(MODULE)

    def run(program, call=None, **environ):
        main = calls.ship(files, {"worker": program}, **(call or {}))
        return calls.start(main, tmp_path, **environ)

    return run


def function(name, **more):
    return {"kind": "function", "module": "own", "function": name, **more}


def test_a_function_is_told_where_it_is(run, tmp_path):
    member = {"component": "worker", "role": "worker", "host": "h"}
    members = [
        {**member, "instance": f"worker/{i}", "index": i, "exports": {"worker": {"host_port": p}}}
        for i, p in [(0, "h:1"), (1, "h:2")]
    ]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"generation": 1, "members": members}))
    task = {"cluster": {"worker": ["h:1", "h:2"]}, "task": {"type": "worker", "index": 1}}
    done = run(
        function("tell"),
        TFAPP_INDEX="1",
        TFAPP_ROLE="worker",
        TF_CONFIG=json.dumps(task),
        TFAPP_CLUSTER_FILE=str(cluster),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [
        "worker/1",
        "worker",
        {"worker": ["h:1", "h:2"]},
        ["worker", 1],
        {
            "worker/0": {"worker": {"host_port": "h:1"}},
            "worker/1": {"worker": {"host_port": "h:2"}},
        },
        [],
    ]


def test_a_named_function_gets_its_arguments_first(run):
    done = run(function("with_arguments", args=[2], kwargs={"word": "yes "}))
    assert (done.stdout, done.stderr, done.returncode) == ("yes yes  worker/0\n", "", 0)


def test_a_module_is_run_as_python_runs_it_with_what_is_shipped_first(run):
    done = run({"kind": "module", "module": "own"})
    where = str(Path("files") / "own.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "tfapp-call"
    assert where in done.stdout.splitlines()[0]


def test_a_pickled_function_needs_nothing_that_is_installed(run, tmp_path):
    factor = 6

    def answer(context):
        print(factor * 7, context.instance)

    done = run(calls.pickled(tmp_path / "files", answer))
    assert (done.stdout, done.stderr, done.returncode) == ("42 worker/0\n", "", 0)


def test_the_exit_code_of_a_program_is_its_own(run):
    assert run(function("leaves")).returncode == 7


def test_a_traceback_begins_in_the_users_code_and_ends_with_the_exception(run):
    done = run(function("Nested.fails"))
    lines = done.stderr.splitlines()
    assert (done.returncode, lines[0]) == (1, "Traceback (most recent call last):")
    assert lines[1].endswith(", in fails") and "own.py" in lines[1]
    assert lines[-2:] == ["ValueError: of the", "user's own"]


@pytest.mark.parametrize(
    ("arguments", "missed"),
    [
        ("2, 'No such file', './data/a.csv'", "./data/a.csv"),
        ("2, 'No such file', 3", None),  # a file's number
        ("'a.csv not found.'", None),  # no message is read
    ],
)
def test_the_runner_is_told_which_file_was_missed(run, tmp_path, arguments, missed):
    (tmp_path / "files" / "own.py").write_text(
        f"def f():\n    raise FileNotFoundError({arguments})"
    )
    file = tmp_path / "missed"
    assert run(function("f"), TFAPP_MISSED_FILE=str(file)).returncode == 1
    assert (file.read_text() if file.exists() else None) == missed


def test_a_stale_result_is_gone(run, tmp_path):
    stale = tmp_path / "log" / "tfapp-returned.json"
    stale.parent.mkdir()
    stale.write_text('{"generation": 1, "value": 5}')
    assert run(function("leaves")).returncode == 7
    assert not stale.exists()


def test_what_returns_nothing_says_so(run, tmp_path):
    assert run(function("alone"), TFAPP_GENERATION="2").returncode == 0
    assert json.loads((tmp_path / "log" / "tfapp-returned.json").read_bytes()) == {"generation": 2}


OTHER = [sys.version_info[0], sys.version_info[1] + 1]
HERE, THERE = ("{}.{}".format(*version) for version in (sys.version_info, OTHER))


@pytest.mark.parametrize(
    ("program", "call", "said"),
    [
        (
            {"kind": "pickle", "file": "program.pkl", "name": "train"},
            {"python": OTHER},
            f"the program was pickled by Python {THERE} and this is Python {HERE}, which reads "
            f'other bytecode; submit it from Python {HERE}, give python="{THERE}", or name a '
            "function of a module",
        ),
        (function("missing"), {}, "module own has no function missing"),
        (function("NUMBER"), {}, "module own has no function NUMBER"),
        (
            {**function("f"), "module": "absent.x"},
            {},
            "there is no module absent; add it with files= or packages=",
        ),
        (
            {"kind": "module", "module": "absent"},
            {},
            "there is no module absent to run: No module named absent",
        ),
        (
            function("needs"),
            {},
            "needs has the parameters first, second, and is called with nothing or with the "
            "tfapp.Context alone (Give the others a default, or bind them with functools.partial.)",
        ),
    ],
    ids=["python", "function", "number", "module", "run", "parameters"],
)
def test_what_cannot_be_run_is_one_sentence(run, program, call, said):
    done = run(program, call)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"tfapp: {said}\n")


def test_pickles_that_cannot_be_read_are_one_sentence(run, tmp_path):
    folder = tmp_path / "files" / "tfapp-call"
    folder.mkdir()
    (folder / "a.pkl").write_bytes(b"cabsent.module\nf\n.")
    program = {"kind": "pickle", "file": "a.pkl", "name": "train"}
    assert run(program).stderr == (
        "tfapp: the program needs module absent, which is not installed here; add it with "
        "packages= or files=\n"
    )


def test_a_damaged_pickle_is_one_sentence(run, tmp_path):
    folder = tmp_path / "files" / "tfapp-call"
    folder.mkdir()
    (folder / "a.pkl").write_bytes(b"\x80")
    done = run({"kind": "pickle", "file": "a.pkl", "name": "train"})
    assert done.stderr.startswith("tfapp: train cannot be read back from its pickle: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_component_without_a_program(run):
    done = run(function("alone"), TFAPP_COMPONENT="ps")
    assert done.stderr == "tfapp: the call has no program for component 'ps'\n"


def test_estimators_that_are_gone_are_named_after_the_traceback(run, tmp_path):
    (tmp_path / "files" / "tensorflow.py").write_text('__version__ = "2.21.0"\n')
    (tmp_path / "files" / "old.py").write_text(
        "import tensorflow as tf\n\n"
        "def train():\n    return tf.estimator.LinearClassifier([])\n\n"
        "def wrong():\n    return tf.keras\n"
    )
    done = run({**function("train"), "module": "old"})
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2] == "AttributeError: module 'tensorflow' has no attribute 'estimator'"
    assert lines[-1].startswith("tfapp: TensorFlow 2.21.0 has no Estimators: they were removed in ")
    other = run({**function("wrong"), "module": "old"})
    assert other.stderr.splitlines()[-1] == (
        "AttributeError: module 'tensorflow' has no attribute 'keras'"
    )


def test_an_experiment_is_trained(run, tmp_path):
    (tmp_path / "files" / "tensorflow.py").write_text(
        "class estimator:\n"
        "    @staticmethod\n"
        "    def train_and_evaluate(*given):\n"
        "        print('trains', *given[1:])\n"
    )
    (tmp_path / "files" / "old.py").write_text(
        "from types import SimpleNamespace\n"
        "from tfapp.program.experiment import Experiment\n"
        "def train():\n"
        "    config = SimpleNamespace(train_distribute=None)\n"
        "    estimator = SimpleNamespace(config=config, evaluate=None, model_dir='/m')\n"
        "    return Experiment(estimator, 'with this', 'and that')\n"
    )
    done = run({**function("train"), "module": "old"}, TFAPP_ROLE="worker")
    assert (done.stdout, done.returncode) == ("trains with this and that\n", 0), done.stderr
