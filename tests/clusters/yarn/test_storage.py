"""TensorFlow on a real HDFS."""

import json

import pytest

from tests.clusters.yarn.conftest import program
from tests.storage import programs


@pytest.mark.trains
def test_tensorflow_uses_hdfs_as_its_own_file_system(cluster):
    base = f"{cluster.storage}/user/{program.user()}/operations"
    programs.check_operations(base, cluster.environ())


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
