"""What docs/kubernetes.md says of keys, volumes and rights is so."""

import re
from pathlib import Path

import pytest
import yaml

from tfapp.contract.job import Limits
from tfapp.contract.names import FINAL_STATES
from tfapp.engines.kubernetes.objects import rights
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pod.events import EVERY, MOST, OF_MASTER, REASONS
from tfapp.engines.kubernetes.pod.outside import AWAY_LIMIT, GAP, RENEW
from tfapp.engines.kubernetes.pods import RUNNER_MEMORY, Places
from tfapp.engines.kubernetes.volumes import parse_volumes
from tfapp.runner.witness import PROOF
from tfapp.schema import describe

TEXT = Path(__file__).parents[3].joinpath("docs", "kubernetes.md").read_text(encoding="utf-8")
PREFIX = "site.global.kubernetes."
SECTIONS = {part.partition("\n")[0]: part for part in TEXT.split("\n## ")}


def test_all_keys_stand_in_the_table_and_no_others():
    rows = re.findall(r"^\| `([a-z.]+)` \| `([^`]+)` \| (\*global\*)?", SECTIONS["Keys"], re.M)
    known = {row.key: row for row in describe("appConfig") if row.key.startswith(PREFIX)}
    assert {PREFIX + key for key, _, _ in rows} == set(known)
    refused = {row.key for row in describe("appConfig")
               if row.key.startswith(PREFIX) and row.status == "refused"}  # fmt: skip
    assert refused == {PREFIX + key for key, _, whole in rows if whole}


WORDS = re.findall(r"`((?:pvc|nfs|hostPath|emptyDir|memory|secret|configMap):[^`]+)`", TEXT)


@pytest.mark.parametrize("words", WORDS)
def test_volumes_are_as_they_are_written(words):
    assert parse_volumes(words.split(", "))


def test_the_memory_of_tfapp_itself_is_told():
    (memory,) = (row for row in describe("resources")
                 if row.key == "yarn.memory" and row.section == "global")  # fmt: skip
    for text in (TEXT, memory.description):
        assert f"{RUNNER_MEMORY} MiB more for tfapp's" in text.replace(", for", " for")


def test_the_reasons_of_events_are_those_of_the_code():
    named = set(re.findall(r"`([A-Z][A-Za-z]+)`", SECTIONS["Events and conditions"]))
    verdicts = {state.capitalize() for state in FINAL_STATES}
    reasons = {reason for reason, _ in (*REASONS.values(), OF_MASTER)}
    assert named - {"Complete"} == reasons | verdicts
    limits = f"most {MOST} at once and one more every {EVERY:g} s"
    assert limits in " ".join(SECTIONS["Events and conditions"].split())


def test_the_times_of_the_witness_are_those_of_the_code():
    told = " ".join(SECTIONS["When the master is lost"].split())
    assert f"While the API server is away for more than {AWAY_LIMIT:g} s nobody waits" in told
    assert f"which renews it every {RENEW:g} s" in told
    assert f"If nobody has renewed it for {PROOF:g} s the master is lost" in told
    assert RENEW < GAP < PROOF < Limits.heartbeat_lost / 2


def test_the_network_policies_select_the_pods_of_an_application():
    (text,) = re.findall(r"```yaml\n(.*?)```", SECTIONS["Network policies"], re.S)
    of_all, of_api = yaml.safe_load_all(text)
    master = names.pod_labels("digits", 1, names.MASTER_COMPONENT)
    worker = names.pod_labels("digits", 1, "worker")

    def selects(selector, labels) -> bool:
        return selector["podSelector"]["matchLabels"].items() <= labels.items()

    assert [selects(of_all["spec"], labels) for labels in (master, worker)] == [True, True]
    assert [selects(of_api["spec"], labels) for labels in (master, worker)] == [True, True]
    for rule in (*of_all["spec"]["ingress"][0]["from"], *of_all["spec"]["egress"][0]["to"]):
        assert selects(rule, worker) and selects(rule, master)
        assert not selects(rule, names.pod_labels("other", 1, "worker"))


def test_the_rights_are_those_of_the_own_role():
    (text,) = re.findall(r"```yaml\n(.*?)```", SECTIONS["Rights"], re.S)
    role = rights(Places("digits", "ann", "ml"))[1]
    for rule in role["rules"]:
        rule.pop("resourceNames", None)
    assert yaml.safe_load(text)["rules"] == role["rules"]
