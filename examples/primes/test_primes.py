"""Run by `pytest`, with `tfapp` on PATH. No cluster is needed."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import yaml

PACKAGE = Path(__file__).parent
LIMIT = 300  # seconds


@pytest.fixture
def tfapp(tmp_path):
    """Calls `tfapp`; its applications are in a folder of the test's own, and end with it."""

    def call(*words):
        command = ["tfapp", *map(str, words)]
        environ = {**os.environ, "TFAPP_HOME": str(tmp_path / "home")}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield call
    for one in json.loads(call("list", "--format", "json"))["applications"]:
        call("destroy", one["name"], "--force")


def test_it_is_valid(tfapp):
    tfapp("validate", PACKAGE)


def test_what_a_cluster_is_asked_for(tfapp):
    few = tfapp("compile", PACKAGE, "--component", "counter", 4)
    services = yaml.safe_load(few)["services"]
    assert {name: one["instances"] for name, one in services.items()} == {"dealer": 1, "counter": 4}


def test_it_counts_although_the_dealer_is_lost(tfapp, tmp_path):
    limit = ("--option", "site.global.primes.limit", 400_000)
    folder = ("--option", "site.global.user.checkpoint.prefix", tmp_path)
    tfapp("create", "app", "--appdef", PACKAGE, *limit, *folder, "--detach", "--wait", 120)
    found = tmp_path / "app" / "found.json"
    until(lambda: found.exists() and len(json.loads(found.read_text())) > 20)
    tfapp("kill-container", "app", "dealer/0")
    until(lambda: status(tfapp)["state"] == "SUCCEEDED")
    assert status(tfapp)["generation"] == 2
    assert sum(json.loads(found.read_text()).values()) == 33_860


def status(tfapp):
    return json.loads(tfapp("status", "app", "--format", "json"))["status"]


def until(reached):
    end = time.monotonic() + LIMIT
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.2)
