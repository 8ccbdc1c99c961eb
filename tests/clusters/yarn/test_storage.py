"""TensorFlow on a real HDFS."""

import json
import re

import pytest

from tests.clusters.yarn.conftest import program
from tests.end_to_end.trainings import RUNNER, Application, wait_until
from tests.storage import programs


@pytest.mark.trains
def test_tensorflow_uses_hdfs_as_its_own_file_system(cluster):
    base = f"{cluster.storage}/user/{program.user()}/operations"
    programs.check_operations(base, cluster.environ())


# Its first instance saves its steps; in the first generation it does not end.
SAVES = """
import os, time
import tensorflow as tf
step, folder = tf.Variable(0), os.environ["TFAPP_CHECKPOINT_DIR"]
manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), folder, max_to_keep=2)
print("restores", manager.restore_or_initialize(), flush=True)
writer = tf.summary.create_file_writer(folder + "/events")
while step < 5 or os.environ["TFAPP_GENERATION"] == "1":
    step.assign_add(1)
    if os.environ["TFAPP_INDEX"] == "0":
        manager.save()
        with writer.as_default(step=int(step)):
            tf.summary.scalar("steps", int(step))
        writer.flush()
    time.sleep(0.3)
with open("result.txt", "w") as file:
    file.write(str(int(step)))
"""


@pytest.mark.trains
def test_a_lost_container_goes_on_from_hdfs_with_nothing_configured(tfapp):
    """Also: what an instance leaves in its working folder is there afterwards, curves are those of
    its event files, and `destroy --checkpoints` deletes all of it."""
    (tfapp.work / "saves.py").write_text(SAVES)
    ran = tfapp(
        *("run", "saves.py", "-w", "2", "--name", "saving", "--replace", "--fresh"),
        *("--detach", "--wait", "120"),
        *("--memory", "1200 MiB", "-e", "TF_CPP_MIN_LOG_LEVEL=2"),
    )
    assert ran.code == 0, ran.err
    (folder,) = re.findall(r"^checkpoints go to (\S+)", ran.err, re.MULTILINE)
    assert folder.startswith("hdfs://") and folder.endswith("/tfapp/checkpoints/saving")
    training = Application.__new__(Application)
    training.tfapp, training.name = tfapp, "saving"
    wait_until(lambda: saved(tfapp) >= 3, training.told)
    training.signal("worker/0", RUNNER)
    status = training.wait_for_end(0)
    assert (status["generation"], status["restarts"] + status["losses"]) == (2, 1)
    for worker in ("worker/0", "worker/1"):
        restored = re.findall("^restores (.*)$", training.log(worker), re.MULTILINE)
        assert re.fullmatch(rf"{folder}/ckpt-\d+", restored[-1]), restored
    assert "events/steps" in json.dumps(status)
    tfapp.ok("fetch", "saving", "kept", "--outputs")
    assert int((tfapp.work / "kept/worker_1/result.txt").read_text()) >= 5
    destroyed = tfapp("destroy", "saving", "--checkpoints")
    deleted = f"its files in {folder} and {folder}.outputs are deleted"
    assert deleted in destroyed.out + destroyed.err


def saved(tfapp) -> int:
    listed = tfapp("fetch", "saving", "checkpoint", "seen", "--force")
    text = (tfapp.work / "seen/checkpoint").read_text() if listed.code == 0 else ""
    return max(map(int, re.findall(r"ckpt-(\d+)", text)), default=0)


@pytest.mark.trains
def test_what_must_not_happen(cluster):
    """Each row of the program. Its NameNode is stopped for a while."""
    base = f"{cluster.storage}/user/{program.user()}/faults"
    namenode = cluster._processes()["namenode"].pid
    wrong = programs.wrong("hdfs_faults", base, str(namenode), environ=cluster.environ())
    assert {row: words for row, words in wrong.items() if words} == {}
    assert len(wrong) == 8


@pytest.mark.trains
def test_programs_that_are_killed_while_they_write(cluster):
    base = f"{cluster.storage}/user/{program.user()}/killed"
    programs.check_killed(base, cluster.environ())


@pytest.mark.trains
def test_the_programs_of_the_page_on_training_data(cluster, tmp_path):
    base = f"{cluster.storage}/user/{program.user()}/page"
    programs.check_page(base, {**cluster.environ(), **programs.SECOND_OF_TWO}, tmp_path)


def test_doctor_checks_a_folder_of_hdfs(user, cluster):
    own = f"{cluster.storage}/user/{program.user()}"

    def doctor(url):
        done = user.call("doctor", "--storage", url, "--format", "json")
        found = json.loads(done.stdout)["findings"]
        return done.returncode, [one for one in found if one["subject"].startswith("storage ")]

    code, found = doctor(own)
    steps = ["credentials", "write", "read", "rename", "list", "speed", "delete"]
    assert (code, [one["subject"] for one in found]) == (0, [f"storage {step}" for step in steps])
    assert found[-1]["text"] == "nothing is left"
    code, (_, failed, _) = doctor(f"{own}/none")
    assert (code, failed["subject"]) == (53, "storage write")
    assert failed["mend"] == "Make this folder first, or name one that is there."
    assert failed["text"] == f"Parent directory doesn't exist: /user/{program.user()}/none"
