"""An unmodified program that trains, saves its steps at a URL and loses its container, on any
engine."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.end_to_end.command_line import LIMIT, CommandLine
from tests.end_to_end.looks import check_profile, check_report, check_usage
from tests.end_to_end.trainings import Application, wait_until

MEMORY = 2 << 30  # bytes that `tfapp run` asks for by itself

# Its first instance saves its steps. The first generation does not end, the second takes three.
PROGRAM = """
import os, time
import tensorflow as tf
step, weight = tf.Variable(0), tf.Variable(tf.eye(64) / 2)
folder = os.environ["TFAPP_CHECKPOINT_DIR"]
manager = tf.train.CheckpointManager(
    tf.train.Checkpoint(step=step, weight=weight), folder, max_to_keep=2
)
print("restores", manager.restore_or_initialize(), flush=True)
writer = tf.summary.create_file_writer(folder + "/events")
enough = int(step) + 3

@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(weight, weight) - tf.eye(64)) ** 2)
    weight.assign_sub(0.1 * tape.gradient(loss, weight))
    step.assign_add(1)

while step < enough or os.environ["TFAPP_GENERATION"] == "1":
    train()
    if os.environ["TFAPP_INDEX"] == "0":
        manager.save()
        with writer.as_default(step=int(step)):
            tf.summary.scalar("steps", int(step))
        writer.flush()
    time.sleep(0.3)
with open("result.txt", "w") as file:
    file.write(str(int(step)))
"""


class Saving(Application):
    """Application "saving". `notes`: what the command said when it was started."""

    def __init__(self, tfapp: CommandLine, *flags: object):
        self.tfapp, self.name = tfapp, "saving"
        ran = tfapp(*self.words(tfapp), *flags, "--detach", "--wait", LIMIT)
        assert ran.code == 0, ran.err
        self.notes = ran.err

    @classmethod
    def words(cls, tfapp: CommandLine) -> tuple[object, ...]:
        """The command, without a number of workers."""
        program = tfapp.program(PROGRAM, "saves.py")
        quiet = ("-e", "TF_CPP_MIN_LOG_LEVEL=2", "-e", "CUDA_VISIBLE_DEVICES=-1")
        return ("run", program, "--name", "saving", *quiet)

    def saves(self) -> int:
        """Waits for the third checkpoint in its folder. The number of the newest."""
        wait_until(lambda: self._newest() >= 3, self.told)
        return self._newest()

    def _newest(self) -> int:
        assert not self.status()["verdict"], self.told()
        fetched = self.tfapp("fetch", "saving", "checkpoint", "seen", "--force")
        text = (self.tfapp.work / "seen/checkpoint").read_text() if fetched.code == 0 else ""
        return max(map(int, re.findall(r"ckpt-(\d+)", text)), default=0)

    def check_looks(self) -> None:
        """What each instance uses is told, and a trace of each can be had."""
        check_usage(self.tfapp, self.name, MEMORY)
        check_profile(self.tfapp, self.name)

    def check_it_goes_on(self, folder: str, saved: int, workers: int = 1) -> dict[str, Any]:
        """Its second generation restores a checkpoint of `folder`, no older than `saved`, and
        succeeds; its curves are those of its event files, what it has left in its working folders
        can be fetched, and its report says what it has used. Its status."""
        status = self.wait_for_end(0)
        assert (status["generation"], status["restarts"] + status["losses"]) == (2, 1), self.told()
        for index in range(workers):
            restored = re.findall("^restores (.*)$", self.log(f"worker/{index}"), re.MULTILINE)
            found = re.fullmatch(rf"{re.escape(folder)}/ckpt-(\d+)", restored[-1])
            assert found and int(found[1]) >= saved, restored
        assert "events/steps" in json.dumps(status)
        self.tfapp.ok("fetch", "saving", "kept", "--outputs")
        last = self.tfapp.work / f"kept/worker_{workers - 1}/result.txt"
        assert int(last.read_text()) >= saved + 3
        check_report(self.tfapp, self.name)
        return status
