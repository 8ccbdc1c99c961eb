"""The runner as a process, with a real master; the test is the coordinator."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.runner.driving import PATIENCE, alive, eventually
from tests.runner.test_program import DAEMON
from tests.signals import send_to_another_thread
from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.names import EXIT_PREFIX, KEY_SAVE, SAVED_PREFIX
from tfapp.contract.saving import HOLD, InstanceSave, SaveRequest
from tfapp.runner.container import SAVED_FILE
from tfapp.runner.main import main

FOREVER = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER


def test_from_answer_to_dismissal(application):
    answer = application.run("print('trained')")
    port = answer.ports["site.global.port"]
    assert (answer.instance, answer.host, answer.container) == ("worker/0", "127.0.0.1", "worker_7")
    assert answer.exports == {"worker": {"host_port": f"127.0.0.1:{port}"}}
    report = application.exit_report()
    assert report.exit == Exit(0, None, "exit", "exit code 0")
    assert (report.stopped, report.last_lines, report.host) == (False, "trained", "127.0.0.1")
    assert application.dismissed() == 0
    assert application.log().splitlines() == [
        "tfapp: worker/0 is ready for generation 1, waiting for the others",
        f"tfapp: starting {sys.executable} files/program.py",
        "trained",
        "tfapp: worker/0 has ended: exit code 0",
    ]


def test_the_program_cannot_act_as_the_application(application):
    application.write_program(
        "import os, pathlib, skein, sys, time\n"
        "root = pathlib.Path('..').resolve()\n"
        "print(sorted(str(found) for found in root.rglob('*.pem')))\n"
        "print([name for name in os.environ if name.startswith('SKEIN')])\n"
        "os.environ['SKEIN_APPLICATION_ID'] = 'application_1_0001'\n"
        f"os.environ['SKEIN_APPMASTER_ADDRESS'] = '{application.address}'\n"
        "for name in [name for name in sys.modules if name.startswith('skein')]:\n"
        "    del sys.modules[name]\n"
        "import skein\n"
        "try:\n"
        "    print(skein.ApplicationClient.from_current())\n"
        "except FileNotFoundError as error:\n"
        "    print(error)\n"
        "while not os.path.exists('end'):\n"
        "    time.sleep(0.01)\n"
    )
    application.run()
    application.logged("Failed to resolve .skein.{crt,pem}")
    # The runner needs no key to connect once more.
    application.connection.put("end-streams", b"")
    application.logged("opening a new one")
    (application.root / "work" / "end").touch()
    report = application.exit_report()
    assert (report.exit.code, report.last_lines.splitlines()[:2]) == (0, ["[]", "[]"])
    assert application.dismissed() == 0


def test_what_the_program_gets(application):
    application.write_program(
        "import json, os, sys\n"
        "print(json.dumps([dict(os.environ), sys.path, os.getcwd(), sys.argv[1:]]))"
    )
    application.write_program("some data", "data.txt")
    site = {
        "site.global.args": "--job ${JOB_NAME} --workers ${WORKER_HOSTS} --dir ${CHECKPOINT_DIR} "
        "--data ${DATA_DIR} --own ${WORK_DIR} 'two words' ${DOLLAR}{WORK_DIR}",
        "site.global.user.checkpoint.prefix": "/ckpt dir/",
        "site.global.user.data.dir": "hdfs://nn/data",
    }
    answer = application.run(site=site, env={"TOKEN": "t0ken", "WHERE": "${THIS_HOST}"})
    application.exit_report()
    line = next(line for line in application.log().splitlines() if line.startswith("["))
    env, path, folder, args = json.loads(line)
    root = str(application.root)
    own = answer.exports["worker"]["host_port"]
    assert args == [
        *("--job", "worker", "--workers", f"{own},10.0.0.9:2222"),
        *("--dir", "/ckpt dir/digits", "--data", "hdfs://nn/data", "--own", f"{root}/work"),
        *("two words", "${WORK_DIR}"),
    ]
    assert (path[0], folder) == (f"{root}/files", f"{root}/work")
    assert not [place for place in path if "tfapp-package" in place]
    assert sorted(os.listdir(folder)) == ["data.txt", "program.py", "tfapp-cluster.json"]
    assert json.loads((Path(folder) / "tfapp-cluster.json").read_text()) == {
        "generation": 1,
        "members": [
            {
                "instance": f"worker/{index}",
                "component": "worker",
                "index": index,
                "role": "worker",
                "host": host,
                "exports": {"worker": {"host_port": address}},
            }
            for index, host, address in [(0, "127.0.0.1", own), (1, "10.0.0.9", "10.0.0.9:2222")]
        ],
    }
    assert json.loads(env.pop("TF_CONFIG")) == {
        "cluster": {"worker": [own, "10.0.0.9:2222"]},
        "task": {"type": "worker", "index": 0},
    }
    assert application.dismissed() == 0
    assert not os.path.exists(env.pop("TMPDIR"))
    startup = env.pop("PEX_EXTRA_SYS_PATH")
    assert startup == f"{root}/tfapp-runtime/tfapp/storage/startup"
    assert env["PYTHONPATH"].split(os.pathsep)[0] == startup
    inherited = ("PATH", "PYTHONPATH", "CONTAINER_ID", "LOCAL_DIRS", "LOG_DIRS", "NM_HOST")
    assert {name: value for name, value in env.items() if name not in (*inherited, "LC_CTYPE")} == {
        "TFAPP_APPLICATION": "digits",
        "TFAPP_INSTANCE": "worker/0",
        "TFAPP_COMPONENT": "worker",
        "TFAPP_INDEX": "0",
        "TFAPP_ROLE": "worker",
        "TFAPP_GENERATION": "1",
        "TFAPP_HOST": "127.0.0.1",
        "TFAPP_WORK_DIR": f"{root}/work",
        "TFAPP_LOG_DIR": str(application.folder),
        "TFAPP_CHECKPOINT_DIR": "/ckpt dir/digits",
        "TFAPP_DATA_DIR": "hdfs://nn/data",
        "TFAPP_PROGRESS_FILE": f"{root}/work/tfapp-progress",
        "TFAPP_CLUSTER_FILE": f"{root}/work/tfapp-cluster.json",
        "TFAPP_METRICS_FILE": f"{root}/work/tfapp-metrics.json",
        "TFAPP_MISSED_FILE": f"{root}/work/tfapp-missed",
        "TFAPP_SAVE_FILE": f"{root}/work/tfapp-save.json",
        "TFAPP_SAVED_FILE": f"{root}/work/tfapp-saved.json",
        "PYTHONUNBUFFERED": "1",
        "WORKER_NUMBER": "0",
        "TOT_WORKERS": "2",
        "TOKEN": "t0ken",
        "WHERE": "127.0.0.1",
    }


def test_the_exported_port_is_held_for_the_program(application):
    application.start()
    application.announce(1)
    port = application.answer(1).ports["site.global.port"]
    with socket.socket() as thief, pytest.raises(OSError, match="in use"):
        thief.bind(("", port))


def test_an_exit_code_is_reported_with_the_last_lines(application):
    application.run("import sys; print('bad data'); sys.exit(3)")
    report = application.exit_report()
    assert report.exit == Exit(3, None, "exit", "exit code 3")
    assert (report.stopped, report.last_lines) == (False, "bad data")
    assert application.dismissed() == 1  # `kubectl get pods` shows an error


PROGRAMS = {
    "succeeds": ("print(1)", 0),
    "an exception": ("1 / 0", 1),
    "its own code": ("import sys; sys.exit(255)", 1),
    "out of memory": ("import os; os.kill(os.getpid(), 9)", 1),
    "aborts": ("import os; os.abort()", 1),
    "no Python": ("if", 1),
}


@pytest.mark.parametrize(("program", "code"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_container_fails_as_its_program_does(application, program, code):
    """Whoever looks at containers alone, such as `kubectl get pods`, sees no success."""
    application.run(program)
    application.exit_report()
    assert application.dismissed() == code


def test_a_container_of_a_program_that_cannot_start_fails(application):
    """Such as one without its TensorFlow: the package's script says so."""
    application.write_script("raise RuntimeError('TensorFlow is not installed')\n")
    application.start()
    application.exit_report()
    assert application.dismissed() == 1


def test_a_container_whose_program_was_stopped_has_not_failed(application):
    application.run("import time; print('up', flush=True); time.sleep(1000)")
    application.logged("up")
    application.order("stop")
    assert application.exit_report().stopped
    assert application.dismissed() == 0


def test_a_program_that_says_what_is_no_utf8_ends_as_it_ends(application):
    application.write_program(
        "import json, os, sys\n"
        "with open(os.environ['TFAPP_METRICS_FILE'], 'w') as file:\n"
        "    json.dump({'step': 7, 'metrics': {'caf\\udce9': 1.0, '\\ud800': 2.0}}, file)\n"
        "sys.stdout.buffer.write(b'caf\\xe9\\n')\n"
    )
    application.run(redact=("hunter2",))
    report = application.exit_report()
    assert (report.exit.code, report.last_lines, report.step) == (0, "caf\ufffd", 7)
    assert report.metrics == {"caf\ufffd": 1.0, "?": 2.0}
    assert application.dismissed() == 0


def test_secrets_reach_neither_report_nor_log(application):
    application.write_program(
        "import os, pathlib, sys\n"
        "pathlib.Path(os.environ['TFAPP_MISSED_FILE']).write_text(os.environ['TOKEN'] + '.csv')\n"
        "sys.exit('denied: ' + os.environ['TOKEN'])\n"
    )
    application.run(env={"TOKEN": "hunter2"}, redact=("hunter2",))
    report = application.exit_report()
    assert (report.last_lines, report.exit.missed) == ("denied: [secret]", "[secret].csv")
    assert application.dismissed() == 1
    assert "hunter2" not in application.log()


def test_a_script_that_raises_at_import_is_shown_with_its_own_traceback(application):
    application.write_script("import nowhere_to_be_found\n")
    application.start()
    report = application.exit_report()
    assert report.exit == Exit(
        None,
        None,
        "script",
        "scripts/tensorflow.py: its import raised ModuleNotFoundError: "
        "No module named 'nowhere_to_be_found'",
    )
    assert "import nowhere_to_be_found" in report.last_lines
    assert "runner" not in report.last_lines
    assert application.dismissed() == 1
    assert report.last_lines.splitlines()[0] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("script", "site", "reason", "text"),
    [
        (
            "from tfapp.script import Script, ScriptError\n"
            "class Own(Script):\n"
            "    def prepare(self, context): raise ScriptError('there is no data')\n",
            {},
            "start",
            "there is no data",
        ),
        (
            "from tfapp.script import Script\nclass Own(Script): pass\n",
            {"site.global.a": "${site.global.b}", "site.global.b": "${site.global.a}"},
            "start",
            "site.global.a -> site.global.b -> site.global.a",
        ),
    ],
)
def test_a_refusal_comes_before_any_cluster(application, script, site, reason, text):
    application.write_script(script)
    application.start(site)
    report = application.exit_report()
    assert report.exit == Exit(None, None, reason, text)
    assert (report.last_lines, application.dismissed()) == ("", 1)


@pytest.mark.parametrize(
    ("body", "reason", "text"),
    [
        ("raise KeyError('x')", "script", "start() raised KeyError: 'x'"),
        ("raise SystemExit", "script", "start() raised SystemExit"),
        ("return 'ls'", "script", "start() returned str, not a Program"),
        ("import threading; threading.Event().wait()", "timeout", "did not return within 1 s"),
        (
            "return Program(('/nowhere/python',))",
            "start",
            "/nowhere/python cannot be run: No such file or directory",
        ),
    ],
)
def test_a_start_that_fails(application, body, reason, text):
    application.write_script(
        "from tfapp.script import Program, Script\n"
        f"class Own(Script):\n    def start(self, context): {body}\n"
    )
    application.run(script_timeout=1 if "wait" in body else 120)
    exit = application.exit_report().exit
    assert (exit.reason, exit.code) == (reason, None)
    assert text in exit.text
    assert application.dismissed() == 1


def test_a_range_without_free_ports(application):
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = str(taken.getsockname()[1])
        application.start({"site.global.slider.allowed.ports": port})
        application.announce(1)
        text = application.exit_report().exit.text
    assert text == (
        f"no port is free in site.global.slider.allowed.ports: {port} "
        "(1 port, all in use on this machine); widen the range (on 127.0.0.1)"
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "killed by SIGTERM (15)"),
        ({"site.global.stop.signal": "SIGINT"}, "killed by SIGINT (2)"),
    ],
)
def test_stop_asks_the_program_to_end(application, config, text):
    application.run(FOREVER, config)
    pid = application.program_pid()
    application.order("stop", grace=60)
    report = application.exit_report()
    assert (report.exit.text, report.stopped) == (text, True)
    assert not alive(pid)
    assert application.dismissed() == 0


def test_who_does_not_end_within_the_grace_is_killed(application):
    application.run(STUBBORN)
    pid = application.program_pid()
    application.order("stop", grace=0.2)
    report = application.exit_report()
    assert (report.exit.text, report.stopped) == ("killed by SIGKILL (9)", True)
    assert not alive(pid)


def test_nothing_of_the_program_lives_when_its_end_is_reported(application):
    application.run(DAEMON.replace('"daemon"', '"pid"'))
    application.exit_report()
    assert not alive(application.program_pid())


def test_a_new_generation_replaces_the_program(application):
    first = application.run(STUBBORN)
    pid = application.program_pid()
    application.announce(2)
    second = application.answer(2)
    assert not alive(pid), "an answer says that no older program lives"
    assert second.ports != first.ports
    application.form(second)
    eventually(lambda: application.program_pid() != pid, "the second program runs")
    assert application.connection.get("tfapp.report.exit.worker/0") is None
    application.order("stop", generation=2)
    assert application.exit_report(2).stopped


def test_a_held_component_starts_when_it_is_released(application):
    application.write_program("print('started')")
    application.start()
    application.announce(1)
    application.form(application.answer(1), held=("worker",))
    application.release(1, "ps")
    application.beat("waiting")
    assert "started" not in application.log()
    application.release(1, "ps", "worker")
    assert application.exit_report().last_lines == "started"


def test_a_program_that_the_script_gives_up_is_killed(application):
    application.write_program(FOREVER.replace("time.sleep", "open('up', 'w'); time.sleep"))
    application.write_script(
        "from tfapp.script import Program, Script\n"
        "class Own(Script):\n"
        "    def prepare(self, context): self.versions = {'Julia': '1.10'}\n"
        "    def start(self, context):\n"
        "        return Program((context.python, str(context.files_dir / 'program.py')))\n"
        "    def status(self, context, handle): return not (context.work_dir / 'up').exists()\n"
    )
    assert application.run().versions == {"Julia": "1.10"}
    assert application.exit_report().exit == Exit(
        None, None, "script", "scripts/tensorflow.py: status() says that the program is not well"
    )
    assert not alive(application.program_pid())


def test_a_stop_that_fails_kills_at_once(application):
    application.write_program(STUBBORN)
    application.write_script(
        "from tfapp.script import Program, Script\n"
        "class Own(Script):\n"
        "    def start(self, context):\n"
        "        return Program((context.python, str(context.files_dir / 'program.py')))\n"
        "    def stop(self, context, handle): raise ValueError('hunter2')\n"
    )
    application.run(redact=("hunter2",))
    application.program_pid()
    application.order("stop", grace=600)
    report = application.exit_report()
    assert (report.exit.text, report.stopped) == ("killed by SIGKILL (9)", True)
    assert application.dismissed() == 0
    assert "stop() raised ValueError: [secret]" in application.log()
    assert "hunter2" not in application.log()


def test_a_broken_stream_loses_no_order(application):
    application.run(FOREVER)
    application.program_pid()
    application.connection.put("end-streams", b"")
    application.order("stop", grace=60)
    assert application.exit_report().stopped
    assert application.dismissed() == 0


TAKES_PART = """
import time
from tfapp.program.saving import save_if_asked
for step in range(1, 100_000):
    save_if_asked(step, lambda: print("saves", flush=True), together=True)
    time.sleep(0.02)
"""


def test_a_request_to_save_reaches_a_program_whose_runner_had_no_stream(application):
    """As while another master takes the place of one that was lost."""
    application.run(TAKES_PART)
    eventually(lambda: application.root.joinpath("work", SAVED_FILE).exists(), "it takes part")
    application.runner.send_signal(signal.SIGSTOP)
    application.connection.put("end-streams", b"")
    application.connection.put(KEY_SAVE, encode(SaveRequest("a", 1, HOLD, 60.0)))
    application.runner.send_signal(signal.SIGCONT)
    key = f"{SAVED_PREFIX}worker/0"
    eventually(lambda: application.connection.get(key) is not None, "the program's step")
    told = InstanceSave.from_dict(json.loads(application.connection.get(key)))
    assert (told.id, told.takes_part, told.saved) == ("a", True, False)


@pytest.mark.slow
def test_without_a_master_the_runner_ends_its_program(application):
    application.run(STUBBORN, heartbeat_lost=2)
    pid = application.program_pid()
    application.master.send_signal(signal.SIGSTOP)
    assert application.runner.wait(PATIENCE) == 1
    assert not alive(pid)
    assert "tfapp: the master has not answered for 2 s." in application.log()
    # The container is lost; nobody is told that its program was killed, or is ready again.
    assert "worker/0 has ended" not in application.log()
    application.master.send_signal(signal.SIGCONT)
    assert application.connection.get(f"{EXIT_PREFIX}worker/0") is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_runner_that_is_killed_leaves_no_program(application, number):
    application.run(STUBBORN, container_grace=0.1)
    pid = application.program_pid()
    application.runner.send_signal(number)
    application.runner.wait(PATIENCE)
    eventually(lambda: not alive(pid), "the program is dead")


SAVES = """
import os, signal, sys, time
def save(*_):
    os.write(1, b"asked\\n")  # it may have interrupted a print
    while not os.path.exists("go"):
        time.sleep(0.01)
    os.write(1, b"saved\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("pid", os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_container_that_is_asked_to_end_gives_its_program_the_time(application):
    """Whatever the coordinator does meanwhile. The end is the container's, not the program's."""
    application.run(SAVES)
    pid = application.program_pid()
    application.runner.send_signal(signal.SIGTERM)
    application.logged("asked")
    application.beat("stopping")
    application.announce(2)
    application.order("stop", generation=2, grace=0.0)
    (application.root / "work" / "go").write_text("")
    assert application.runner.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not alive(pid)
    assert application.log().splitlines()[-2:] == ["asked", "saved"]
    assert application.connection.get("tfapp.report.exit.worker/0") is None


@pytest.mark.parametrize("saves", [False, True])
def test_a_container_that_is_asked_to_end_while_its_master_is_away(application, saves):
    """Its program has its grace all the same, after the time in which the next one may ask all to
    save."""
    application.run(SAVES, container_grace=PATIENCE, save_grace=1)
    pid = application.program_pid()
    if saves:
        (application.root / "work" / SAVED_FILE).touch()
    application.master.kill()
    application.logged("opening a new one")
    application.runner.send_signal(signal.SIGTERM)
    application.logged("asked\n")
    (application.root / "work" / "go").touch()
    assert application.runner.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not alive(pid)
    assert ("1 s to save" in application.log()) == saves


def test_a_container_that_is_asked_to_end_before_its_program_runs(application):
    application.start()
    application.announce(1)
    application.answer(1)
    application.runner.send_signal(signal.SIGTERM)
    assert application.runner.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_container_that_is_asked_to_end_as_its_runner_begins_to_wait(application):
    application.start(gang=600)
    application.announce(1)
    application.answer(1)
    send_to_another_thread(application.runner.pid, signal.SIGTERM)
    assert application.runner.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_report_outlives_a_moment_without_the_master(application):
    os.mkfifo(application.root / "files" / "go")
    application.run("input_ = open('go').read()")
    application.beat("running")
    application.connection.put("end-streams", b"")
    (application.root / "files" / "go").write_text("")
    assert application.exit_report().exit.code == 0


def test_outside_of_a_container_one_sentence_is_all(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main([], {}) == 1
    assert main(["--help"], {}) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"tfapp: [Errno 2] No such file or directory: '{tmp_path}/tfapp-job.json'",
        "tfapp: the runner takes no arguments, got ['--help']",
    ]
