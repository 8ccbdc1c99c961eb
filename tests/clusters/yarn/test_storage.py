"""TensorFlow on a real HDFS."""

import re

import pytest

from tests.clusters.yarn.conftest import program
from tests.end_to_end.command_line import CommandLine
from tests.end_to_end.looks import check_history
from tests.end_to_end.trainings import RUNNER
from tests.storage import programs
from tests.storage.saving import Saving
from tfapp.storage import check


@pytest.mark.trains
def test_tensorflow_uses_hdfs_as_its_own_file_system(cluster):
    base = f"{cluster.storage}/user/{program.user()}/operations"
    programs.check_operations(base, cluster.environ())


@pytest.mark.trains
def test_a_lost_container_goes_on_from_hdfs_with_nothing_configured(tfapp, cluster):
    """Also: what each instance uses and computes is seen, what it leaves in its working folder is
    there afterwards, `destroy --checkpoints` deletes all of it, and its run stays in the
    history."""
    history = f"{cluster.storage}/user/{program.user()}/history"
    kept = ("-O", "site.global.history.dir", history)
    saving = Saving(tfapp, "-w", 2, "--replace", "--fresh", *kept)
    (folder,) = re.findall(r"^checkpoints go to (\S+)", saving.notes, re.MULTILINE)
    assert folder.startswith("hdfs://") and folder.endswith("/tfapp/checkpoints/saving")
    saved = saving.saves()
    saving.check_looks()
    saving.signal("worker/0", RUNNER)
    saving.check_it_goes_on(folder, saved, workers=2)
    destroyed = tfapp("destroy", "saving", "--checkpoints")
    deleted = f"its files in {folder} and {folder}.outputs are deleted"
    assert deleted in destroyed.out + destroyed.err
    anew = CommandLine(tfapp.work, tfapp.work / "anew", environ=cluster.environ())
    check_history(anew, "saving", history, f"restores {folder}/ckpt-")


@pytest.mark.weekly
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


@pytest.mark.weekly
@pytest.mark.trains
@pytest.mark.timeout(900)
def test_programs_that_end_while_they_read(cluster):
    base = f"{cluster.storage}/user/{program.user()}/leaving"
    programs.check_ends(base, cluster.environ(), 5)


@pytest.mark.trains
def test_the_programs_of_the_page_on_training_data(cluster, tmp_path):
    base = f"{cluster.storage}/user/{program.user()}/page"
    programs.check_page(base, {**cluster.environ(), **programs.SECOND_OF_TWO}, tmp_path)


@pytest.mark.weekly
def test_doctor_checks_a_folder_of_hdfs(tfapp, user, cluster):
    """From a container; and from this machine one that is not there."""
    own = f"{cluster.storage}/user/{program.user()}"
    programs.check_doctor(tfapp, own)
    *_, failed, _ = check.check(f"{own}/none", user.environ)
    assert (failed[0], failed[2].words) == (
        *("write", f"Parent directory doesn't exist: /user/{program.user()}/none"),
    )
    assert failed[2].hint == "Make this folder first, or name one that is there."
