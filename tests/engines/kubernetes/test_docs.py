"""What docs/kubernetes.md says of keys, volumes and rights is so."""

import re
from pathlib import Path

import pytest
import yaml

from tfapp.engines.kubernetes.objects import rights
from tfapp.engines.kubernetes.pods import RUNNER_MEMORY, Places
from tfapp.engines.kubernetes.volumes import parse_volumes
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


def test_the_rights_are_those_of_the_own_role():
    (text,) = re.findall(r"```yaml\n(.*?)```", SECTIONS["Rights"], re.S)
    role = rights(Places("digits", "ann", "ml"))[1]
    for rule in role["rules"]:
        rule.pop("resourceNames", None)
    assert yaml.safe_load(text)["rules"] == role["rules"]
