"""Starts the user's KerasTuner program, as the oracle or as a tuner.

`change` is run in the program when it imports KerasTuner. By itself KerasTuner's oracle ends while
a tuner that was late or restarted still needs it, which then waits for an hour; and an oracle that
begins again loses trials, or runs finished ones again. See docs/keras-tuner.md.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from tfapp.frozen import replace
from tfapp.runner import entry, tensorflow_env, tensorflow_script
from tfapp.script import Context, Program, Script, ScriptError

ORACLE = "chief"  # KerasTuner's id of it
SHOWN = ("Python", "KerasTuner", "Keras", "TensorFlow", "JAX")


# ---- In the program's Python, where tfapp need not be -------------------------------------------
def whole(path, save):
    """Lets `save` write a file: a killed program leaves the one of before, or the new one."""
    if "://" in path:  # a store that has a file once it is closed
        return save(path)
    part = f"{path}.{os.getpid()}"
    saved = save(part)
    os.replace(part, path)
    return saved


def report(oracle):
    """Tells the runner of the trials and the best one, as metrics."""
    trials = list(oracle.trials.values())
    count = dict.fromkeys(("COMPLETED", "FAILED", "RUNNING"), 0)
    for trial in trials:
        count[trial.status] = count.get(trial.status, 0) + 1
    metrics = {f"trials_{name.lower()}": number for name, number in count.items()}
    best = next(iter(oracle.get_best_trials(1)), None)
    if best is not None and best.status == "COMPLETED":
        metrics[f"best_{oracle.objective.name}"[:64]] = float(best.score)
        if best.trial_id.isdigit():
            metrics["best_trial"] = int(best.trial_id)
    told = {"step": count["COMPLETED"] + count["FAILED"], "time": time.time(), "metrics": metrics}
    if oracle.max_trials:
        told["total"] = oracle.max_trials
    text = json.dumps(told)
    whole(os.environ["TFAPP_METRICS_FILE"], lambda path: Path(path).write_text(text))


def arguments(begin, args, kwargs):
    """The arguments of a tuner's `begin`, with its folder below that of the checkpoints."""
    given = inspect.signature(begin).bind(*args, **kwargs)
    if given.arguments.pop("overwrite", False):
        print(
            "tfapp: overwrite=True is ignored: each process would delete what the others have "
            "saved; `tfapp create --replace --fresh` begins anew",
            flush=True,
        )
    directory = str(given.arguments.get("directory") or "")
    if "://" not in directory:
        directory = os.path.join(os.environ["TFAPP_CHECKPOINT_DIR"], directory)
    backend = sys.modules["keras"].backend.backend()
    if "://" in directory and backend != "tensorflow":
        raise ValueError(
            f"KerasTuner opens no URLs with Keras' backend {backend}, and {directory} is one: use "
            "the backend TensorFlow, or set site.global.user.checkpoint.prefix to a shared folder"
        )
    given.arguments["directory"] = directory
    return given


def change(keras_tuner):
    """Makes KerasTuner last."""
    from keras_tuner.engine.base_tuner import BaseTuner

    stateful = keras_tuner.Oracle.__base__
    write, begin, search = stateful.save, BaseTuner.__init__, BaseTuner.search

    def save(self, fname):
        saved = whole(fname, lambda path: write(self, path))
        if isinstance(self, keras_tuner.Oracle):
            report(self)
        return saved

    def init(*args, **kwargs):
        given = arguments(begin, args, kwargs)
        begin(*given.args, **given.kwargs)

    def search_as_oracle(self, *args, **kwargs):
        oracle = self.oracle
        # Its file may call a trial running that has ended since, and lack one that has just begun.
        # Each trial's own file is right.
        again = [t.trial_id for t in oracle.trials.values() if t.status in ("RUNNING", "INVALID")]
        oracle._retry_queue = sorted(again, reverse=True)  # the last one is taken first
        oracle.tuner_ids.add("tfapp")  # it ends when no tuner is left; tfapp stops it
        search(self, *args, **kwargs)

    stateful.save, BaseTuner.__init__ = save, init
    if os.environ["KERASTUNER_TUNER_ID"] == "chief":
        BaseTuner.search = search_as_oracle


class UntilKerasTuner:
    """Finds KerasTuner when the program imports it, so that it may choose Keras' backend before."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras_tuner":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), change(module))
        return spec


# Runs the program of the arguments as Python runs a file.
PARTS = (whole, report, arguments, change, UntilKerasTuner)
BEGINNING = f"""
import inspect, json, os, runpy, sys, time
from importlib.util import find_spec
from pathlib import Path
{"".join(map(inspect.getsource, PARTS))}
sys.meta_path.insert(0, UntilKerasTuner())
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


# ---- In the runner ------------------------------------------------------------------------------
class KerasTuner(Script):
    def prepare(self, context: Context) -> None:
        """Finds out early what would only fail once all instances have met."""
        entry.check_folder("site.global.user.checkpoint.prefix", context.checkpoint_dir)
        name = context.config.get("user.scripts.entry", "")
        if entry.is_command(context) or not entry.is_python(path := entry.entry_file(context)):
            raise ScriptError(
                f"site.global.user.scripts.entry: {name!r} is no Python file; the package "
                "keras-tuner runs the program in a Python of its own start"
            )
        entry.link_file(context)
        told, python = entry.probe(context, ["keras_tuner", "tensorflow"]), context.python
        if "keras_tuner" in told["missing"] and not entry.is_call(path):
            raise ScriptError("KerasTuner " + entry.INSTALL.format(entry.interpreter(context)))
        if "tensorflow" not in told["missing"]:
            tensorflow_script.check_schemes(context, entry.interpreter(context), (python,))
        found = told["versions"]
        self.versions = {name: found[name] for name in SHOWN if name in found}

    def start(self, context: Context) -> Program:
        """The program with KerasTuner's three variables."""
        oracle = next(one for one in context.members if one.component == "oracle")
        host, _, port = tensorflow_env.address(oracle).rpartition(":")
        is_oracle = context.instance == oracle.instance
        env = {
            "KERASTUNER_TUNER_ID": ORACLE if is_oracle else f"tuner{context.index}",
            "KERASTUNER_ORACLE_IP": host,
            "KERASTUNER_ORACLE_PORT": port,
            **entry.without_proxy(context.members, context.env),
        }
        entry.warn_of_checkpoints(context)
        program = entry.program(context, env)
        python, *rest = program.argv
        return replace(program, argv=(python, "-c", BEGINNING, *rest))
