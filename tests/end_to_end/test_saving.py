"""Programs save before a planned stop, all at one step, also where one hears of it late."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE
from tests.end_to_end.test_deaths import BACK, FOLLOWED
from tests.end_to_end.trainings import (
    COORDINATOR,
    RUNNER,
    Application,
    wait_until,
    with_policy,
)
from tfapp.engines.machine.folders import Home
from tfapp.engines.machine.state import read_state
from tfapp.shipped import app_packages_dir

pytestmark = pytest.mark.slow

# Two seconds late, the second worker looks whether it is asked.
LATE = """
from tfapp.program import saving
import os
if os.environ["TFAPP_INSTANCE"] == "worker/1":
    saving.INTERVAL = 2.0
"""
# The workers wait for each other in each step, as for a collective.
IN_STEP = (
    LATE
    + """
import json, pathlib, time
folder = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
members = json.loads(pathlib.Path(os.environ["TFAPP_CLUSTER_FILE"]).read_text())["members"]
number, count = int(os.environ["TFAPP_INDEX"]), len(members)
generation = os.environ["TFAPP_GENERATION"]
saved = folder / "saved"
step = int(saved.read_text()) if saved.exists() else 0
print("goes on at step", step, flush=True)
at = [folder / f"{generation}-{worker}" for worker in range(count)]

def reached(path):
    return int(path.read_text() or 0) if path.exists() else -1

def save():
    print("saves at step", step, flush=True)
    time.sleep(1)
    (folder / f"new-{number}").write_text(str(step))
    (folder / f"new-{number}").rename(saved)

while True:
    new = folder / f"at-{number}"
    new.write_text(str(step))
    new.rename(at[number])
    while any(reached(path) < step for path in at):
        time.sleep(0.005)
    time.sleep(0.02)
    step += 1
    saving.save_if_asked(step, save, together=True)
"""
)
ATTEMPTS = ("--option", "site.global.master.attempts", 9)
WITH_KERAS = (
    LATE
    + """
import time
import numpy as np, tensorflow as tf
from tfapp.program.keras_backup import backup_and_restore

strategy = tf.distribute.MultiWorkerMirroredStrategy()
found = np.load("digits.npz")
data = tf.data.Dataset.from_tensor_slices((found["images"] / 16, found["target"]))
with strategy.scope():
    layers = [tf.keras.layers.Flatten(input_shape=(8, 8)), tf.keras.layers.Dense(10)]
    model = tf.keras.Sequential(layers)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])

class Slow(tf.keras.callbacks.Callback):
    begun = False
    def on_train_batch_begin(self, batch, logs=None):
        if not self.begun:
            print("goes on at step", int(self.model.optimizer.iterations.numpy()), flush=True)
            assert batch == int(self.model.optimizer.iterations.numpy())
        self.begun = True
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)

folder = os.environ["TFAPP_CHECKPOINT_DIR"] + "/backup"
model.fit(data.repeat().batch(32), epochs=2, steps_per_epoch=10**6, verbose=0,
          callbacks=[backup_and_restore(folder), Slow()])
"""
)
_BEGAN = re.compile(r"^goes on at step (\d+)$", re.MULTILINE)
_SAVED = re.compile(r"have saved at step (\d+) before the stop")


class Training(Application):
    def begins(self, *steps: list[int]) -> None:
        """Waits until the first workers have gone on at these steps so far, and at no others."""

        def began() -> bool:
            logs = [self.log(f"worker/{index}") for index in range(len(steps))]
            found = [[int(step) for step in _BEGAN.findall(log)] for log in logs]
            assert all(begun == all_of_it[: len(begun)] for begun, all_of_it in zip(found, steps))
            return found == [*steps]

        wait_until(began, self.told)

    def saved(self, times: int) -> int:
        """The step of the last save, once there are so many."""

        def steps() -> list[str] | None:
            found = _SAVED.findall(self.told())
            return found if len(found) == times else None

        return int(wait_until(steps, self.told)[-1])

    def lose(self, what: str) -> None:
        """Kills the application's master or its coordinator."""
        if what == "coordinator":
            self.signal("", COORDINATOR)
        else:
            run = Home(self.tfapp.home).app(self.name).run(1)
            os.kill(read_state(run).process.pid, signal.SIGKILL)

    def is_asked(self) -> None:
        """Waits until the first worker has been asked to save, which the second does not hear for
        two seconds."""
        environ = Path(f"/proc/{self.process('worker/0', 'program.py')}/environ").read_text()
        (request,) = re.findall("TFAPP_SAVE_FILE=([^\0]+)", environ)
        wait_until(Path(request).exists, self.told)

    def saves(self, times: int) -> None:
        """Waits until the first worker saves, which takes a second."""
        said = lambda: self.log("worker/0").count("saves at step") == times  # noqa: E731
        wait_until(said, self.told)

    def announced(self) -> None:
        """Waits until heartbeats have told that programs save."""
        wait_until(lambda: self.status()["stop_grace"] > 30, self.told)


def test_flex_and_stop_cost_no_step(tfapp, tmp_path):
    package = shutil.copytree(PLAIN_PACKAGE, tmp_path / "package")
    metainfo = package / "metainfo.yaml"
    metainfo.write_text(metainfo.read_text().replace("maxRestarts: 0", "maxRestarts: 1"))
    training = trained(tfapp, tmp_path, IN_STEP, package)
    assert_no_step_is_lost(training, tfapp)


@pytest.mark.weekly
def test_flex_and_stop_cost_no_step_of_a_model_under_multi_worker_mirrored_strategy(
    tfapp, tmp_path
):
    import numpy as np
    from sklearn.datasets import load_digits

    found, file = load_digits(), tfapp.work / "digits.npz"
    np.savez(file, images=found.images, target=found.target)
    package = app_packages_dir() / "tensorflow"
    training = trained(tfapp, tmp_path, WITH_KERAS, package, "--files", file)
    assert_no_step_is_lost(training, tfapp)


@pytest.mark.parametrize("what", ["master", "coordinator"])
def test_who_asks_is_lost_before_and_while_programs_save(tfapp, tmp_path, what):
    """The next one goes on with that: all save at one step, and nothing is charged."""
    training = trained(tfapp, tmp_path, IN_STEP, PLAIN_PACKAGE, *ATTEMPTS)
    lost_before_and_while_programs_save(training, what)
    assert tfapp.living() == []


def lost_before_and_while_programs_save(training, what):
    tfapp, steps = training.tfapp, [0]
    training.begins(steps, steps)
    flex = ("flex", "app", "--component", "worker")
    for number, when in enumerate(("asked", "before", "saves"), 1):
        training.announced()
        if when == "before":
            training.lose(what)
        tfapp.ok(*flex, "+1" if number % 2 else "-1")
        if when == "asked":
            training.is_asked()
            training.lose(what)
        elif when == "saves":
            training.saves(number)
            training.lose(what)
        steps = [*steps, training.saved(number)]
        training.begins(steps, steps)
    status = training.status()
    assert (status["generation"], status["restarts"], status["losses"]) == (4, 0, 0)
    assert training.told().count(BACK if what == "master" else FOLLOWED) == 3
    lost_before_and_while_programs_save_for_the_stop(training, what, generation=4)


def lost_before_and_while_programs_save_for_the_stop(training, what, generation):
    training.announced()
    training.lose(what)
    stopping = training.tfapp.start("stop", "app")
    training.is_asked()
    training.lose(what)
    stopping.communicate(timeout=LIMIT)
    training.saved(generation)
    status = training.status()
    found = [status[key] for key in ("state", "generation", "restarts", "losses")]
    assert found == ["KILLED", generation, 0, 0]


def trained(tfapp, folder, text, package, *flags):
    script = tfapp.program(text)
    return Training(
        tfapp,
        "app",
        *("--appdef", package, "--files", script, *flags),
        *("--option", "site.global.user.scripts.entry", script.name),
        *("--option", "site.global.user.checkpoint.prefix", folder / "checkpoints"),
        *("--component", "worker", 2),
    )


def assert_no_step_is_lost(training, tfapp):
    training.begins([0], [0])
    training.announced()
    tfapp.ok("flex", "app", "--component", "worker", "+1")
    step = training.saved(1)
    training.begins([0, step], [0, step], [step])
    training.announced()
    tfapp.ok("flex", "app", "--component", "worker", "-1")
    second = training.saved(2)
    assert second > step
    training.begins(*[[0, step, second]] * 2)
    training.announced()
    # A container that is asked to end is notice for all.
    training.signal("worker/1", RUNNER, 15)
    third = training.saved(3)
    training.begins(*[[0, step, second, third]] * 2)
    training.announced()
    status = training.status()
    assert status["restarts"] + status["losses"] == 1, "only what was lost is charged"
    tfapp.ok("stop", "app")
    fourth = int(_SAVED.findall(training.told())[-1])
    tfapp.ok("start", "app", "--detach", "--wait", LIMIT)
    training.begins(*[[fourth]] * 2)
    tfapp.ok("stop", "app", "--force")


# TensorFlow's own way: whoever gets SIGTERM names a step, at whose end all save and exit.
PREEMPTED = """
import os, time
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    step = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    total = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.SUM)
checkpoint = tf.train.Checkpoint(step=step, total=total)
handler = tf.distribute.experimental.PreemptionCheckpointHandler(
    strategy.cluster_resolver, checkpoint, os.environ["TFAPP_CHECKPOINT_DIR"]
)

@tf.function
def train():
    def replica():
        step.assign_add(tf.constant(1, tf.int64))
        total.assign_add(tf.constant(1, tf.int64))  # of all workers together
    strategy.run(replica)

print("goes on at step", int(step.numpy()), flush=True)
first = int(step.numpy())
try:
    while True:
        handler.run(train)
        if int(step.numpy()) == first + 5:
            print("is under way", flush=True)
        time.sleep(0.02)
except SystemExit as end:
    assert int(total.numpy()) == 2 * int(step.numpy())
    print("exits with", end.code, "at step", int(step.numpy()), flush=True)
    raise
"""
_EXITED = re.compile(r"^exits with 42 at step (\d+)$", re.MULTILINE)


@pytest.mark.weekly
def test_the_preemption_handler_of_tensorflow_saves_at_one_step(tfapp, tmp_path):
    """At the end of a program, of a container, and of the application by `tfapp stop`."""
    plain, policy = app_packages_dir() / "tensorflow", "{startupSeconds: 0}"
    package = with_policy(plain, tmp_path / "package", policy)
    training = trained(tfapp, tmp_path, PREEMPTED, package)
    begun = [0]
    causes = (
        ("program.py", r"worker/[01] on 127.0.0.1 ended with exit code 42 in generation 1"),
        (RUNNER, "worker/1 on 127.0.0.1 was lost in generation 2: its container ended"),
    )
    for what, cause in causes:
        goes_on(training, begun)
        training.signal("worker/1", what, 15)
        begun.append(exited(training, len(begun)))
        goes_on(training, begun)
        status = training.status()
        assert (status["restarts"], status["losses"]) == (len(begun) - 1, 0), "one charge each"
        assert re.search(cause, training.told())
    tfapp.ok("stop", "app")
    assert tfapp.status("app")["status"]["state"] == "KILLED"
    last = exited(training, len(begun))
    tfapp.ok("start", "app", "--detach", "--wait", LIMIT)
    goes_on(training, [last])
    tfapp.ok("stop", "app", "--force")


def goes_on(training, steps):
    """Both workers have gone on at these steps, and trained on from the last one."""
    training.begins(steps, steps)

    def under_way():
        assert training.status()["verdict"] is None, training.told()
        logs = [training.log(worker) for worker in ("worker/0", "worker/1")]
        return all(log.count("is under way") == len(steps) for log in logs)

    wait_until(under_way, training.told)


def exited(training, times):
    """The step at which both workers have saved and exited with 42, once they have so often."""

    def steps():
        found = [_EXITED.findall(training.log(worker)) for worker in ("worker/0", "worker/1")]
        return found if [len(each) for each in found] == [times, times] else None

    first, second = wait_until(steps, training.told)
    assert first == second
    return int(first[-1])
