"""What a look into a training must show, and its history afterwards, wherever it runs."""

import json
import re
from unittest import mock

from tests.end_to_end.command_line import LIMIT, CommandLine
from tests.page.applications import embedded
from tests.page.served import document, served
from tests.waiting import wait
from tfapp.page import document as documents

SIZE = r"[\d.,]+ (?:[KMG]iB|bytes)"
# A Python that has imported TensorFlow has so much memory of its own, and has read and written more
# than it has told by then.
LEAST = 50 << 20
# Of a trace in which TensorFlow has computed.
COMPUTES = (b"TfrtCpuExecutable", b"ExecutorState")


def check_usage(tfapp: CommandLine, name: str, memory: int) -> None:
    """Of each instance, which has `memory` bytes and a processor: numbers, and words."""

    def used() -> dict[str, dict]:
        instances = tfapp.status(name)["status"]["instances"]
        return {i["instance"]: i["usage"] for i in instances}

    def measured() -> bool:
        return all(u and u["memory_peak"] > LEAST and u["cpu_mean"] for u in used().values())

    wait(measured, f"what each instance of {name} uses", LIMIT)
    told = tfapp.asks("status", name)
    for instance, usage in used().items():
        assert (usage["memory_limit"], usage["vcores"]) == (memory, 1)
        assert 0 < usage["memory"] <= usage["memory_peak"] < memory
        assert usage["cpu"] >= 0
        assert min(usage["read"], usage["written"]) > 0
        words = rf"^{instance} +[\d.]+ of 1 +{SIZE} of {SIZE}, peak {SIZE} +{SIZE} +{SIZE}$"
        assert re.search(words, told, re.MULTILINE), told


def check_profile(tfapp: CommandLine, name: str) -> None:
    """A trace of each instance, in which it computes, is where TensorBoard looks for it. One that
    saves at that time does not compute: then all are traced again."""
    wait(lambda: _computes(tfapp, name), f"trace of {name} in which all compute", LIMIT)


def _computes(tfapp: CommandLine, name: str) -> bool:
    instances = [i["instance"] for i in tfapp.status(name)["status"]["instances"]]
    found = json.loads(tfapp.asks("profile", name, "--seconds", 2, "--format", "json"))
    assert found["missing"] == [], found
    reasons = {one["instance"]: one["why"] for one in found["instances"]}
    assert reasons == dict.fromkeys(instances), reasons
    tfapp.ok("fetch", name, f"plugins/profile/{found['run']}", "traces", "--force")
    traces = {file.name: file.read_bytes() for file in tfapp.work.glob(f"traces/{found['run']}/*")}
    assert set(traces) == {f"{each.replace('/', '_')}.xplane.pb" for each in instances}
    return all(any(words in trace for words in COMPUTES) for trace in traces.values())


def check_report(tfapp: CommandLine, name: str) -> None:
    """What each instance has used is told after the end, too, with advice where that is plain: it
    has run for less than a minute here."""
    with mock.patch.object(documents, "ADVICE_AFTER", 0.0):
        report = embedded(tfapp.asks("report", name))
        told = tfapp.asks("status", name)
    for one in report["instances"]:
        usage = one["usage"]
        assert re.fullmatch(r"[\d.]+ of 1", usage["cpu"])
        assert re.fullmatch(f"{SIZE} of {SIZE}, peak {SIZE}", usage["memory"])
        assert re.fullmatch(SIZE, usage["read"]) and re.fullmatch(SIZE, usage["written"])
    (advice,) = report["advice"]
    assert re.fullmatch(
        rf"worker: at most {SIZE} of {SIZE} of memory was used \(yarn.memory\)", advice
    )
    assert re.search(rf"^advice +{re.escape(advice)}$", told, re.MULTILINE)


def check_history(anew: CommandLine, name: str, where: str, last: str) -> None:
    """Whoever has nothing of an application but its history at `where` sees that its run has
    succeeded, what each instance has used, and its last lines, with `last` among them. `anew` has a
    TFAPP_HOME that is not there yet."""
    assert not anew.home.exists()
    place = ("--dir", where)
    listed = json.loads(anew.asks("history", "--name", name, *place, "--format", "json"))
    (run,) = listed["runs"]
    assert run["state"] == "SUCCEEDED"
    assert re.search("^verdict +Succeeded: ", anew.asks("history", name, *place), re.MULTILINE)
    anew.asks("history", name, *place, "-o", "kept.html")
    report = embedded((anew.work / "kept.html").read_text())
    with served(anew, "--history", where) as page:
        (row,) = (row for row in document(page)["rows"] if row["name"] == name)
        shown = document(f"{page}{row['href']}")
    for kept in (report, shown):
        assert (kept["state"], kept["id"]) == ("SUCCEEDED", run["id"])
        assert {one["state"] for one in kept["instances"]} == {"SUCCEEDED"}
        assert all(one["usage"] for one in kept["instances"])
        assert all(last in log["text"] for log in kept["logs"])
        assert len(kept["logs"]) == len(kept["instances"])
