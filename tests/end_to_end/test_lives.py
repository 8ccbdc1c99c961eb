"""The life of applications without TensorFlow, seen from one shell and from several."""

import json
import os
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests import programs
from tests.end_to_end.command_line import LIMIT, PLAIN_PACKAGE, CommandLine
from tests.waiting import wait

pytestmark = pytest.mark.slow

PLAIN = ("--appdef", PLAIN_PACKAGE)
SERVES = """
import os, pathlib, signal, time
up = pathlib.Path({work!r}, "up")
if os.environ["TFAPP_INSTANCE"].startswith("server"):
    print("up", flush=True)
    up.touch()
    signal.pause()
while not up.exists():
    time.sleep(0.05)
"""


def test_of_two_that_create_one_name_one_wins(tfapp):
    both = [tfapp.start("create", "app", *PLAIN) for _ in range(2)]
    ended = {}
    for process in both:
        _, err = process.communicate(timeout=LIMIT)
        ended[process.returncode] = err
    assert sorted(ended) == [0, 75]
    assert ended[75].endswith(
        "error: there is an application app already\n"
        "  --replace runs the present files in its place. Once it has ended, `tfapp start app` "
        "runs it again as it was, and `tfapp destroy app` deletes it.\n"
    )
    assert tfapp.names() == ["app"]
    assert tfapp.status("app")["status"]["state"] == "SUCCEEDED"


def test_what_runs_is_replaced_and_its_checkpoints_stay(tfapp):
    tfapp.program(
        "import os, pathlib, signal, sys, time\n"
        "folder = pathlib.Path(os.environ['TFAPP_CHECKPOINT_DIR'])\n"
        "def save(*_):\n    (folder / 'saved').mkdir(parents=True)\n    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('begins', flush=True)\n"
        "time.sleep(600)\n"
    )
    one = (*PLAIN, "--files", "program.py", "--component", "worker", 1)
    tfapp.ok("create", "app", *one, "--detach", "--wait", LIMIT)
    wait(lambda: "begins" in tfapp.asks("logs", "app"), "it has not begun", LIMIT)
    folder = tfapp.home / "checkpoints" / "app"
    tfapp.program(
        "import os\n"
        "os.makedirs(os.environ['TFAPP_CHECKPOINT_DIR'], exist_ok=True)\n"
        "print('finds', os.listdir(os.environ['TFAPP_CHECKPOINT_DIR']))\n"
    )
    wrong = tfapp("create", "app", *one, "--replace", "--option", "site.global.progress.timout", 1)
    assert wrong.code == 77
    assert tfapp.status("app")["live"]
    replaced = tfapp("create", "app", *one, "--replace")
    assert replaced.code == 0, replaced.err
    assert re.search(r"app: its programs .* end, .*\nthe earlier app is destroyed\n", replaced.err)
    assert f"{folder} has files of an earlier application: the program may" in replaced.err
    assert "finds ['saved']\n" in replaced.out
    assert (tfapp.names(), tfapp.status("app")["run"]) == (["app"], 1)

    script = ("run", "program.py", "-w", 1, "--name", "app", "--replace", "--fresh")
    anew = tfapp(*script)
    assert "finds []\n" in anew.out
    [aside] = folder.parent.glob("app.before-*")
    assert f"the files of an earlier application are in {aside} now" in anew.err
    assert [path.name for path in aside.iterdir()] == ["saved"]

    assert tfapp("destroy", "app").err == "app is destroyed; it has saved nothing\n"
    again = tfapp(*script)
    assert (again.code, "earlier" in again.err) == (0, False)
    (folder / "model").touch()
    taken = tfapp("run", "program.py", "-w", 1, "--name", "app", "--fresh")
    assert (taken.code, "earlier" in taken.err, (folder / "model").exists()) == (75, False, True)
    assert tfapp("destroy", "app", "--checkpoints").err == (
        f"app is destroyed; its files in {folder} are deleted\n"
    )
    assert not folder.exists()
    own = ("--option", "site.global.user.checkpoint.prefix", tfapp.work)
    tfapp.ok("run", "program.py", "-w", 1, "--name", "app", *own)
    (tfapp.work / "app" / "model").touch()
    assert tfapp("destroy", "app", "--checkpoints").err == (
        f"app is destroyed; its files stay in {tfapp.work}/app, which is not tfapp's own place\n"
    )


def test_who_serves_is_stopped_when_the_workers_are_done(tfapp):
    tfapp.program(SERVES.format(work=str(tfapp.work)))
    tfapp.ok("create", "app", *PLAIN, "--files", "program.py", "--component", "server", 1)
    assert tfapp.living() == []
    instances = tfapp.status("app")["status"]["instances"]
    assert {i["instance"]: (i["state"], i["exit"]["text"]) for i in instances} == {
        "worker/0": ("SUCCEEDED", "exit code 0"),
        "worker/1": ("SUCCEEDED", "exit code 0"),
        "server/0": ("STOPPED", "killed by SIGTERM (15)"),
    }
    assert "server/0 | up\n" in tfapp.asks("logs", "app", "server")


def test_the_metrics_of_programs_that_end_at_once_arrive(tfapp):
    tfapp.program(
        "import os\n"
        "from tfapp.program.reporting import report\n"
        "for step in range(1000):\n"
        "    report({'loss': 1 / (step + 1), 'index': int(os.environ['TFAPP_INDEX'])}, step)\n"
    )
    ended = tfapp("create", "app", *PLAIN, "--files", "program.py")
    assert ended.code == 0
    assert ended.err.count("worker/0: step 999, loss 0.001, index 0\n") == 1
    instances = tfapp.status("app")["status"]["instances"]
    assert {i["instance"]: (i["step"], i["metrics"]) for i in instances} == {
        f"worker/{index}": (999, {"loss": 0.001, "index": index}) for index in range(2)
    }
    assert "worker/1  999   -        loss 0.001, index 1\n" in tfapp.asks("status", "app")


def test_logs_and_exports_are_kept_for_each_run(tfapp):
    tfapp.program("import sys, time\nprint('at', time.time())\n")
    tfapp.ok("create", "app", *PLAIN, "--files", "program.py")
    first = tfapp.asks("logs", "app", "worker/0")
    tfapp.ok("start", "app")
    second = tfapp.asks("logs", "app", "worker/0")
    assert first != second
    assert tfapp.asks("logs", "app", "worker/0", "--run", 1) == first
    groups = json.loads(tfapp.asks("registry", "--name", "app", "--getexp", "worker"))
    exports = {
        i["instance"]: i["exports"]["worker"]["host_port"]
        for i in tfapp.status("app")["status"]["instances"]
    }
    assert {f"worker/{e['tag']}": e["value"] for e in groups["host_port"]} == exports
    assert {e["level"] for e in groups["host_port"]} == {"component"}
    assert sorted(set(groups["host_port"][0])) == [
        *("containerId", "level", "tag", "updatedTime", "value")
    ]


def test_it_goes_on_when_it_does_not_run_in_time(tfapp):
    tfapp.program("import time\ntime.sleep(600)\n")
    ended = tfapp("create", "app", *PLAIN, "--files", "program.py", "--detach", "--wait", 0)
    assert ended.code == 67
    assert ended.err.splitlines()[1:] == [
        "error: app is not running after 0 s; it goes on",
        "  `tfapp status app` says what it waits for, `tfapp stop app` ends it.",
    ]
    assert tfapp.status("app")["live"]
    tfapp.ok("stop", "app", "--force")


def as_json(folder: Path) -> None:
    """Turns a YAML package into JSON, under the names that Slider's packages use."""
    for old, new in (
        ("metainfo.yaml", "metainfo.json"),
        ("appConfig-default.yaml", "appConfig.default.json"),
        ("resources-default.yaml", "resources.default.json"),
    ):
        path = folder / old
        text = json.dumps(yaml.safe_load(path.read_text()), indent=2)
        (folder / new).write_text(text)
        path.unlink()


def specification(tfapp: CommandLine, package: object) -> str:
    """The specification that would be submitted, without the hashes of its files."""
    return re.sub("[0-9a-f]{64}", "HASH", tfapp.ok("compile", package, "--name", "app"))


def test_a_package_in_json_is_the_same(tfapp):
    folder = shutil.copytree(PLAIN_PACKAGE, tfapp.work / "package")
    in_yaml = specification(tfapp, "package")
    as_json(folder)
    assert tfapp("validate", "package") == (0, "", "package: valid\n")
    assert specification(tfapp, "package") == in_yaml
    assert "trained" in tfapp.ok("create", "app", "--appdef", "package")


@pytest.mark.parametrize("place", ["a b/pack age é.zip", "pack.zip"])
def test_a_package_in_a_zip(tfapp, place):
    path = tfapp.work / place
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(PLAIN_PACKAGE.rglob("*")):
            if "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(PLAIN_PACKAGE))
    assert "trained" in tfapp.ok("create", "app", "--appdef", place, "--component", "worker", 1)


def test_output_of_any_kind_arrives_as_it_is(tfapp):
    """Binary, a line of a megabyte, an end without a newline."""
    tfapp.program(
        "import os\n"
        "os.write(1, bytes(range(256)) + b'\\n' + b'x' * 1_000_000 + b'\\nno end of line')\n"
    )
    words = ("create", "app", *PLAIN, "--files", "program.py", "--component", "worker", 1)
    process = tfapp.start(*words, text=False)
    out, _ = process.communicate(timeout=LIMIT)
    said = bytes(range(256)) + b"\n" + b"x" * 1_000_000 + b"\nno end of line\n"
    assert out == said
    log = tfapp.start("logs", "app", "worker/0", text=False)
    end = b"tfapp: worker/0 has ended: exit code 0\n"
    assert log.communicate(timeout=LIMIT)[0].endswith(b"\n" + said + end)


def test_an_environment_that_is_not_utf_8(tfapp):
    """Containers inherit variables byte for byte."""
    tfapp.program("import os\nprint(os.environb[b'LD_LIBRARY_PATH'])\n")
    odd = {b"LD_LIBRARY_PATH": b"/caf\xe9", b"USER": b"\xe9", b"LC_ALL": b"C"}
    words = ("create", "app", *PLAIN, "--files", "program.py", "--component", "worker", 1)
    home = {b"TFAPP_HOME": bytes(tfapp.home)}
    process = tfapp.start(*words, env={**os.environb, **home, **odd})
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    assert out == "b'/caf\\xe9'\n"


@pytest.mark.parametrize("streams", ["", "2>&1"])
def test_the_verdict_is_waited_for_when_nobody_reads_any_more(tfapp, streams):
    tfapp.program("import sys\nprint('x' * 100_000)\nsys.exit(3)\n")
    create = f"{sys.executable} -m tfapp create app --appdef {PLAIN_PACKAGE} --files program.py"
    piped = f"{create} {streams} | head -n 1; exit ${{PIPESTATUS[0]}}"
    environ = {"TFAPP_HOME": str(tfapp.home)}
    shell = programs.run("bash", "-c", piped, cwd=tfapp.work, environ=environ, limit=LIMIT)
    assert (shell.returncode, shell.stdout.count("\n")) == (65, 1)
    assert "Traceback" not in shell.stderr
    assert not tfapp.status("app")["live"]


def test_what_a_program_leaves_in_its_working_folder_is_kept(tfapp):
    """That of both runs, and of a program that fails and one that is stopped."""
    program = (
        "import os, sys, time\n"
        "who = os.environ['TFAPP_INSTANCE'] + os.environ['TFAPP_GENERATION']\n"
        "open('model.txt', 'w').write(who)\n"
        "open('large.bin', 'wb').truncate(70 << 20)\n"
        "open('/dev/null' if 'worker/0' in who else 'own.txt', 'w').write('x')\n"
        "{end}\n"
    )
    tfapp.program(program.format(end="sys.exit(3)"))
    failed = tfapp("run", "program.py", "-w", 2, "--name", "app")
    assert failed.code == 65
    assert "worker/1 keeps model.txt (9 bytes), own.txt (1 byte)" in failed.err
    assert "does not keep large.bin (70.0 MiB): more than 64 MiB" in failed.err
    status = tfapp.status("app")
    folder = f"{tfapp.home}/checkpoints/app.outputs/{status['id']}/worker_0"
    outputs = [instance["outputs"] for instance in status["status"]["instances"]]
    assert outputs[0]["folder"] == folder
    assert (outputs[0]["files"], outputs[0]["count"]) == ([["model.txt", 9]], 1)
    assert [one["left"] for one in outputs] == [[["large.bin", 70 << 20]]] * 2
    assert tfapp.ok("fetch", "app", "out", "--outputs").splitlines() == [
        f"out/worker_{file}" for file in ("0/model.txt", "1/model.txt", "1/own.txt")
    ]
    assert (tfapp.work / "out" / "worker_1" / "model.txt").read_text() == "worker/11"

    tfapp.program(program.format(end="print('at work', flush=True); time.sleep(600)"))
    more = ("-O", "site.global.outputs.max.mb", 100, "--replace")
    tfapp.ok("run", "program.py", "-w", 1, "--name", "app", "--detach", "--wait", 300, *more)
    wait(lambda: "at work" in tfapp.asks("logs", "app"), "no line of the program", LIMIT)
    tfapp.ok("stop", "app")
    assert tfapp.ok("fetch", "app", "new", "--outputs").splitlines() == [
        "new/worker_0/large.bin",
        "new/worker_0/model.txt",
    ]
    assert Path(folder, "model.txt").exists()  # that of the earlier application
    ended = tfapp("destroy", "app", "--checkpoints").err
    assert ended == f"app is destroyed; its files in {Path(folder).parents[1]} are deleted\n"
    assert not Path(folder).parents[1].exists()
