"""Applications on a real cluster, by the commands that people use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

from tests.clusters.yarn import programs, submitted
from tests.clusters.yarn.conftest import ROOT, wait_for
from tests.end_to_end.command_line import STAMP, read_until
from tests.end_to_end.sessions import (
    VERY_LARGE,
    check_commands,
    check_end_of_runner,
    check_terminal,
    check_what_ends,
    create,
)
from tfapp.api.returned import fetch_returned
from tfapp.engines import open_engine

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(text)
        return str(path)

    return write


def test_two_workers_on_two_nodes(user, script):
    program = script(programs.RETURNS + programs.HELLO)
    done = user.call("run", program, "-w", "2", "--name", "hello")
    assert done.returncode == 0, done.stderr
    drivers = user.drivers()
    status = user.status("hello")
    instances = status["status"]["instances"]
    hosts = {i["instance"]: i["host"] for i in instances}
    assert (status["live"], status["run"], status["engine"]) == (False, 1, "yarn")
    assert sorted(hosts) == ["worker/0", "worker/1"]
    assert set(hosts.values()) == {"127.0.0.2", "127.0.0.3"}
    # What the first worker wrote has been shown, and every log can be had afterwards.
    written = re.findall(r"^TF_CONFIG is (.*)$", done.stdout, re.MULTILINE)
    assert [json.loads(text)["task"] for text in written] == [{"type": "worker", "index": 0}]
    logs = user.here("logs", "hello").out
    assert len(re.findall(r"^worker/[01] \| TF_CONFIG is ", logs, re.MULTILINE)) == 2
    timed = user.here("logs", "hello", "--timestamps", "--since", "1h").out
    assert len(re.findall(rf"^worker/[01] \| {STAMP} TF_CONFIG is ", timed, re.MULTILINE)) == 2
    assert "generation 1" in user.here("logs", "hello", "coordinator").out
    # What was returned came with the last of the logs that were shown.
    assert list(user.home.glob("yarn/applications/*/returned-complete"))
    returned = fetch_returned(open_engine("yarn", user.home, user.environ), "hello")
    assert returned == {name: name for name in hosts}
    assert "tfapp-returned" not in logs and '"generation"' not in logs
    # Each has told its address, which is also what its program was given.
    exports = json.loads(user.here("exports", "hello", "--format", "json").out)["exports"]
    told = {export["instance"]: export["value"] for export in exports}
    assert list(told.values()) == json.loads(written[0])["cluster"]["worker"]
    assert {name: value.partition(":")[0] for name, value in told.items()} == hosts
    listed = json.loads(user.here("list", "--format", "json").out)["applications"]
    assert [(a["state"], a["run"]) for a in listed if a["name"] == "hello"] == [("SUCCEEDED", 1)]
    assert user.call("destroy", "hello").returncode == 0
    assert user.here("exists", "hello").code == 69
    # All these commands had one Java process between them.
    assert user.drivers() == drivers != []


def test_another_shell_and_home_takes_over(user, colleague, cluster, script, tmp_path):
    """It sees it, follows its log, stops, runs and destroys it, and the first home follows."""
    secrets = tmp_path / "secrets.env"
    secrets.write_text("WORD=correct horse battery staple\n")
    program = (*("run", script(programs.TELLS), "-w", "1"), *("--secret-env-file", str(secrets)))
    done = user.call(*program, "--name", "handed-over", "--tag", "theirs", "--detach")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: running(colleague, "handed-over"), "running application")
    wait_for(lambda: "begins" in colleague.here("logs", "handed-over").out, "output")
    assert colleague.call("destroy", "handed-over").returncode == 73
    assert colleague.here("exists", "handed-over", "--live").code == 0
    with colleague.start("logs", "handed-over", "worker/0", "-f") as following:
        try:
            read_until(following, following.stdout, "a word of 28")
            stopped = colleague.call("stop", "handed-over")
            rest, problems = following.communicate(timeout=300)
        finally:
            following.kill()
    assert stopped.returncode == 0, stopped.stderr
    # It shows the end, once, and ends.
    assert (following.returncode, problems) == (0, "")
    assert rest.count("worker/0 has ended: killed by SIGTERM (15)\n") == 1
    assert user.here("exists", "handed-over", "--live").code == 255
    assert user.call("wait", "handed-over").returncode == 66
    started = colleague.call("start", "handed-over", "--detach")
    assert started.returncode == 0, started.stderr
    for there in (user, colleague):
        found = there.status("handed-over")
        assert (found["run"], found["tags"]) == (2, ["theirs"])
    # Its program has what it was given where it was created.
    wait_for(lambda: "a word of 28" in colleague.here("logs", "handed-over").out, "output")
    assert user.call("stop", "handed-over", "--force").returncode == 0
    destroyed = colleague.call("destroy", "handed-over")
    assert destroyed.returncode == 0, destroyed.stderr
    assert colleague.here("exists", "handed-over").code == 69
    there = hadoop(cluster, "-ls", "-R", ".tfapp").splitlines()
    assert {line.partition(" ")[0] for line in there} == {"drwx------", "-rw-------"}
    assert any(found["id"] in line for line in there)
    # Of a new file system, it makes the folders above its own for everybody.
    assert hadoop(cluster, "-stat", "%a", "/user", ".tfapp").split() == ["755", "700"]
    done = user.call(*program, "--name", "handed-over", "--detach")
    assert done.returncode == 0, done.stderr
    assert user.status("handed-over")["run"] == 1
    assert user.call("stop", "handed-over", "--force").returncode == 0


def test_it_is_killed_from_outside(user, colleague, cluster, tmp_path):
    """And its checkpoints, on HDFS, are fetched."""
    (tmp_path / "goes-on.sh").write_text("exec sleep 1000000\n")
    saved = tmp_path / "saved" / "shot"
    for name, text in {"checkpoint": "model-2", "export/a model/m.pb": "m" * 5000}.items():
        (saved / name).parent.mkdir(parents=True, exist_ok=True)
        (saved / name).write_text(text)
    hadoop(cluster, "-put", (tmp_path / "saved").as_uri(), "/saved")
    done = user.call(
        *("run", f"{tmp_path}/goes-on.sh", "-w", "1", "--name", "shot", "--detach"),
        *("--option", "site.global.user.checkpoint.prefix", "hdfs:///saved", "--tag", "fetched"),
    )
    assert done.returncode == 0, done.stderr
    wait_for(lambda: running(user, "shot"), "running application")
    subprocess.run(
        ["yarn", "application", "-kill", user.status("shot")["id"]],
        env=cluster.environ(),
        capture_output=True,
        check=True,
        timeout=180,
    )
    waited = user.call("wait", "shot")
    assert waited.returncode == 66
    assert "Stopped through YARN: Application" in waited.stderr
    out = tmp_path / "out"
    for there, words in ((user, ()), (colleague, ("export/a model",))):
        done = there.call("fetch", "shot", *words, str(out))
        assert done.returncode == 0, done.stderr
    found = {path.relative_to(out).as_posix(): path for path in out.rglob("*.*")}
    assert set(found) == {"export/a model/m.pb", "a model/m.pb"}
    assert all(path.read_text() == "m" * 5000 for path in found.values())
    assert (out / "checkpoint").read_text() == "model-2"
    none = user.call("fetch", "shot", "none", str(out))
    assert none.returncode == 44
    assert none.stderr.startswith("error: there is no none in hdfs:///saved/shot\n")
    # Of all with a tag.
    stopped = user.call("stop", "--tag", "fetched")
    assert (stopped.returncode, stopped.stderr) == (0, "shot was not running: KILLED\n")
    assert colleague.call("destroy", "--tag", "fetched").stderr.startswith("shot is destroyed")


def check_page(address: str) -> None:
    """The application's own page, through YARN's proxy and the master's: its document is news, and
    is none once it was seen."""
    assert address.endswith("/pages/application/")
    with urllib.request.urlopen(address, timeout=60) as answer:
        page = answer.read().decode()
        assert "<title>shown \u00b7 tfapp</title>" in page

    def news(seen: str = "") -> dict | None:
        url = f"{address}data.json?log=worker%2F0&seen={seen}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)

    wait_for(lambda: "begins" in news()["document"]["logs"][0]["text"], "the log on the page")
    wait_for(lambda: news(news()["seen"]) is None, "a moment without news")
    told = news()["document"]
    [log] = [link for link in told["links"] if link["what"] == "log"]
    with urllib.request.urlopen(f"http:{log['address']}", timeout=60) as answer:
        assert "worker.log" in answer.read().decode()
    assert [one["name"] for one in told["instances"]] == ["worker/0", "tensorboard/0"]
    assert told["state"] == "RUNNING"
    assert [part["kind"] for part in told["history"]["lanes"][0]["parts"]][-1] == "runs"
    with urllib.request.urlopen(
        f"{address}search.json?log=worker%2F0&find=BEGINS", timeout=60
    ) as answer:
        [found] = json.load(answer)["found"]
        assert "begins" in found["lines"][0]
    assert told["can"] == ["last stacks"]
    with urllib.request.urlopen(f"{address}stacks.json", timeout=60) as answer:
        groups = json.load(answer)["groups"]
        assert [group["instances"] for group in groups] == [["worker/0"]]
    with urllib.request.urlopen(f"{address}metrics", timeout=60) as answer:
        told = {one.name: one for one in families(answer.read().decode())}
        assert told["tfapp_generation"].samples[0].labels == {"application": "shown"}
    exports = f"{address}ws/v1/slider/publisher/exports"
    with urllib.request.urlopen(exports, timeout=60) as answer:
        assert "worker" in json.load(answer)["exports"]


def test_tensorboard_is_a_page_of_the_application(user, cluster, script):
    done = user.call(
        *("create", "shown", "--appdef", "app-packages/tensorflow"),
        *("--files", script(programs.GOES_ON), "--component", "worker", "1"),
        *("--component", "tensorboard", "1", "--option", "site.global.acl.ui.users", "*"),
        *("--detach", "--wait", "240"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^shown: http://.*/proxy/application_", done.stderr, re.MULTILINE)
    links = {
        (link["instance"], link["what"]): link["address"] for link in user.status("shown")["links"]
    }

    def titled(address: str) -> bool:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return b"<title>TensorBoard</title>" in answer.read()
        except OSError:
            return False  # it has not come up yet

    wait_for(lambda: titled(links["tensorboard/0", "page"]), "TensorBoard through YARN's proxy")
    assert user.call("stacks", "shown", "worker").returncode == 0
    check_page(links[None, "page"])
    direct = user.call("tensorboard", "shown")
    assert (direct.returncode, direct.stderr) == (0, "")
    assert titled(direct.stdout.strip())
    with urllib.request.urlopen(links["worker/0", "log"], timeout=60) as answer:
        assert b"worker.log" in answer.read()

    def progress() -> float:
        """In percent, as YARN's pages show it."""
        return json.loads(cluster.web(f"apps/{user.status('shown')['id']}"))["app"]["progress"]

    # The cluster has formed; the worker, for which success waits, has not ended.
    wait_for(lambda: progress() == pytest.approx(10), "progress in YARN's pages")
    assert user.call("stop", "shown", "--force").returncode == 0


def test_it_waits_for_its_queue_and_is_stopped_there(user, script, tmp_path):
    """With a master for which there is no room while another application has it all."""
    flags = ("--appdef", "app-packages/tensorflow", "--files", script(programs.GOES_ON))
    filled = user.call(
        *("create", "filler", *flags, "--component", "worker", "2", "--detach", "--wait", "240"),
        *("--resopt", "yarn.memory", "7168"),
    )
    assert filled.returncode == 0, filled.stderr
    said = tmp_path / "said"
    with said.open("ab") as err:
        waiting = subprocess.Popen(
            [
                *(sys.executable, "-m", "tfapp", "create", "patient", *flags, "--engine", "yarn"),
                *("--component", "worker", "1"),
                *("--rescompopt", "slider-appmaster", "yarn.memory", "2048"),
            ],
            env={**user.environ, "TFAPP_HOME": str(user.home)},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )

        try:
            wait_for(lambda: "patient waits: " in said.read_text(), "word of why")
            wait_for(lambda: "waiting for resources" in said.read_text(), "YARN's reason")
            done = user.call("stop", "patient", "--message", "no patience")
            assert done.returncode == 0, done.stderr
            assert waiting.wait(180) == 66
        finally:
            waiting.kill()
            waiting.wait()
    assert said.read_text().endswith("patient: no patience\n")
    assert user.call("stop", "filler", "--force").returncode == 0


def test_it_is_stopped_before_its_master_is_up(user, script):
    done = user.call("run", script(programs.GOES_ON), "-w", "1", "--name", "early", "--detach")
    assert done.returncode == 0, done.stderr
    assert user.call("stop", "early").returncode == 0
    assert user.status("early")["status"]["verdict"]["exit_code"] == 66


def test_it_runs_where_it_is_to_and_is_its_owners(user, cluster, script):
    """GPUs, those of the example, a label and a named node decide where; who was named sees it;
    nobody else does, or may end it."""
    done = user.call("run", script(programs.GOES_ON), "-w", "1", "--name", "x", "--dry-run")
    assert done.returncode == 0, done.stderr
    spec = yaml.safe_load(done.stdout)
    assert spec["services"]["worker"]["resources"]["gpus"] == 0
    done = user.call(
        *("create", "placed", "--appdef", "app-packages/tensorflow"),
        *("--resources", "examples/gpu-workers/resources.yaml"),
        *("--files", script(programs.GOES_ON)),
        *("--rescompopt", "chief", "yarn.label.expression", "special"),
        *("--rescompopt", "ps", "yarn.nodes", "127.0.0.3"),
        *("--option", "site.global.acl.view.users", "ann"),
        *("--option", "site.global.hadoop.file.systems", cluster.storage),
        *("--detach", "--wait", "240"),
    )
    assert done.returncode == 0, done.stderr
    found = user.status("placed")
    assert {i["instance"]: i["host"] for i in found["status"]["instances"]} == {
        "chief/0": "127.0.0.4",
        "worker/0": "127.0.0.2",  # it has two GPUs, and the others have none
        "worker/1": "127.0.0.2",
        "ps/0": "127.0.0.3",
    }
    details = {
        who: json.loads(cluster.web(f"apps/{found['id']}", who=who))["app"]
        for who in ("ann", "bob")
    }
    assert {who: "amContainerLogs" in app for who, app in details.items()} == {
        "ann": True,
        "bob": False,
    }
    kill = ["yarn", "application", "-kill", found["id"]]
    for who in ("ann", "bob"):
        environ = {**cluster.environ(), "HADOOP_USER_NAME": who}
        killed = subprocess.run(kill, env=environ, capture_output=True, text=True, timeout=180)
        assert f"User {who} cannot perform operation MODIFY_APP" in killed.stderr
    assert user.status("placed")["live"]
    assert user.call("stop", "placed", "--force").returncode == 0


def hadoop(cluster, *words: str) -> str:
    done = subprocess.run(
        ["hdfs", "dfs", *words],
        env=cluster.environ(),
        capture_output=True,
        text=True,
        timeout=180,
    )
    return done.stdout


def archives(cluster) -> list[str]:
    """Mode, name and time of each at the shared place."""
    return hadoop(cluster, "-stat", "%a %n %Y", ".tfapp/cache/*.zip").splitlines()


@pytest.mark.weekly
def test_what_runs_is_what_a_dry_run_prints(user, cluster, script, tmp_path):
    flags = ("--files", script(programs.GOES_ON))
    words = ("create", "printed", "--appdef", "app-packages/tensorflow", *flags)
    printed = user.call(*words, "--dry-run")
    assert printed.returncode == 0, printed.stderr
    assert "BEGIN" not in printed.stdout
    created = user.call(*words, "--detach", "--wait", "240")
    assert created.returncode == 0, created.stderr
    placed = archives(cluster)
    assert len(placed) >= 3
    assert {line.partition(" ")[0] for line in placed} == {"600"}
    assert {line.split()[1] for line in placed} >= set(
        re.findall(r"/cache/(\w+\.zip)", printed.stdout)
    )
    runs = submitted.spec_of(user.status("printed")["id"], tmp_path, cluster.environ())
    assert runs == submitted.comparable(yaml.safe_load(printed.stdout))
    assert user.call("stop", "printed", "--force").returncode == 0
    # What has not changed is not brought there again, unless somebody has deleted it.
    assert archives(cluster) == placed
    hadoop(cluster, "-rm", "-r", ".tfapp/cache")
    created = user.call(
        "create", "reprinted", "--appdef", "app-packages/tensorflow", *flags, "--detach"
    )
    assert created.returncode == 0, created.stderr
    assert len(archives(cluster)) == 3
    assert len(hadoop(cluster, "-ls", "-C", ".tfapp/cache/*.definition").split()) == 1
    assert user.call("stop", "reprinted", "--force").returncode == 0


def running(user, name: str) -> bool:
    return user.status(name)["status"]["state"] == "RUNNING"


@pytest.mark.weekly
def test_the_benchmark_of_its_start(user, tmp_path):
    environ = {**user.environ, "TFAPP_HOME": str(user.home)}
    words = [sys.executable, "-m", "benchmarks.yarn_startup", "--rounds", "1"]
    out, err = (
        tmp_path / "out",
        tmp_path / "err",
    )  # no pipes: the user's driver would keep them open
    with out.open("w") as output, err.open("w") as problems:
        done = subprocess.run(
            words, cwd=ROOT, env=environ, stdout=output, stderr=problems, timeout=500
        )
    assert done.returncode == 0, err.read_text()
    bare, ours, ratio = out.read_text().splitlines()
    assert bare.endswith("a bare Skein submission")
    assert ours.endswith("tfapp create --engine yarn")
    assert re.fullmatch(r"[\d.]+x \((met|missed): at most 1.1x\)", ratio)


@pytest.mark.weekly
def test_commands_beside_a_program(tfapp):
    """At a port of the runner's node."""
    create(tfapp, "--option", "site.global.exec", "true")
    check_commands(tfapp, "No such file or directory", VERY_LARGE)
    check_terminal(tfapp)
    check_what_ends(tfapp)
    check_end_of_runner(tfapp)
    tfapp.ok("stop", "app", "--force")
    tfapp.ok("destroy", "app")
