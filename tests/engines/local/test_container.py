"""A container at its start: environment, files, the address of its master."""

import json
import sys
import zipfile

import pytest
import skein

from tests.engines.applications import (
    FOREVER,
    await_containers,
    compiled,
    ended,
    environ,
    eventually,
    local_engine,
    run_folder,
    service,
    stock_client,
    wait_for_containers,
)
from tfapp.contract.names import ENV_INSTANCE
from tfapp.errors import UnavailableError

DUMP = f"""{sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"""

TALK = """
import os, skein
app = skein.ApplicationClient.from_current()
mine = skein.properties.container_id
assert skein.properties.container_dir == os.getcwd(), (skein.properties.container_dir, os.getcwd())
app.kv.put(f"hello.{mine}", b"", owner=mine)
with app.kv.events(prefix="hello.") as events:
    while app.kv.count(prefix="hello.") < 4:
        events.get(timeout=120)
print(" ".join(app.kv.list_keys(prefix="hello.")))
app.kv.put(f"done.{mine}", b"")
with app.kv.events(prefix="done.") as events:
    while app.kv.count(prefix="done.") < 4:
        events.get(timeout=120)
"""


def environment_of(engine, instance):
    """The output of DUMP, without the variables that bash itself sets."""
    (log,) = [log.path for log in engine.logs("app") if log.instance == instance]
    found = json.loads(log.read_text())
    return {k: v for k, v in found.items() if k not in ("_", "SHLVL", "OLDPWD")}


class TestEnvironment:
    @pytest.fixture
    def engine(self, tmp_path):
        submitter = environ(LANG="C.UTF-8", LC_ALL="C.UTF-8", TZ="UTC", SECRET="hidden")
        with local_engine(tmp_path / "home", environ=submitter) as engine:
            yield engine

    def common(self, engine, number, log_folder):
        run = run_folder(engine).path
        id = engine.find("app").id
        container = f"{id.replace('application', 'container')}_01_{number:06d}"
        return {
            **environ(LANG="C.UTF-8", LC_ALL="C.UTF-8", TZ="UTC"),
            "CONTAINER_ID": container,
            "LOCAL_DIRS": str(run / "containers"),
            "LOG_DIRS": str(run / "logs" / log_folder),
            "PWD": str(run / "containers" / container),
            "NM_HOST": "127.0.0.1",
            "NM_PORT": "0",
            "NM_HTTP_PORT": "0",
            "USER": "somebody",
            "LOGNAME": "somebody",
            "HADOOP_USER_NAME": "somebody",
            "SKEIN_APPLICATION_ID": id,
            "SKEIN_RESOURCE_MEMORY": "32",
            "SKEIN_RESOURCE_VCORES": "1",
        }

    def test_of_a_container(self, engine):
        engine.create(
            "app",
            compiled(master=FOREVER, w=service(DUMP, instances=0, env={"A": "a b", "B": "$x"})),
        )
        with stock_client(engine) as client:
            client.add_container("w", {ENV_INSTANCE: "w/7", "B": '"`id`"'})
            wait_for_containers(client, 1, "SUCCEEDED")
            address = client.address
        assert environment_of(engine, "w/7") == {
            **self.common(engine, 2, "w_0"),
            "SKEIN_APPMASTER_ADDRESS": address,
            "SKEIN_CONTAINER_ID": "w_0",
            "A": "a b",
            "B": '"`id`"',
            "CUDA_VISIBLE_DEVICES": "",
            ENV_INSTANCE: "w/7",
        }

    def test_of_the_master_script(self, engine):
        master = skein.Master(script=DUMP, env={"A": "1"}, resources=skein.Resources("32 MiB", 1))
        engine.create("app", compiled(master=master, w=service(instances=0)))
        ended(engine)
        found = environment_of(engine, "coordinator")
        found.pop("SKEIN_APPMASTER_ADDRESS")
        assert found == {
            **self.common(engine, 1, "coordinator"),
            "A": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }

    def test_standard_input_is_empty_and_signals_are_as_usual(self, engine):
        script = "cat; grep -E 'SigIgn|SigBlk' /proc/self/status"
        engine.create("app", compiled(w=service(script)))
        ended(engine)
        (log, _) = engine.logs("app")
        blocked, ignored = (int(mask, 16) for mask in log.path.read_text().split()[1::2])
        glibcs = 0b11 << 31  # 32 and 33: its posix_spawn, which Python 3.13 uses, ignores them
        assert (blocked, ignored & ~glibcs) == (0, 0)


def test_files_are_linked_and_archives_unpacked(engine, tmp_path):
    archive = tmp_path / "stuff.zip"
    with zipfile.ZipFile(archive, "w") as file:
        tool = zipfile.ZipInfo("bin/tool")
        tool.external_attr = 0o100755 << 16
        file.writestr(tool, "#!/bin/sh\necho tool\n")
        file.writestr("data.txt", "data\n")
    secret = tmp_path / "secret.json"
    secret.write_text("{}\n")
    secret.chmod(0o600)
    files = {
        "stuff": skein.File(str(archive)),
        "stuff.zip": skein.File(str(archive), type="FILE"),
        "s.json": skein.File(str(secret)),
    }
    script = (
        "set -e; ls -A; stuff/bin/tool; cat stuff/data.txt s.json; stat -L -c %a s.json; "
        "unzip -l stuff.zip >/dev/null || python3 -m zipfile -t stuff.zip; readlink -f stuff"
    )
    engine.create("app", compiled(w=service(script, instances=2, files=files)))
    assert ended(engine).status.state == "SUCCEEDED"
    first, second = (x.path.read_text().split() for x in engine.logs("app")[:2])
    assert first[:6] == [".skein.crt", ".skein.pem", ".skein.sh", "s.json", "stuff", "stuff.zip"]
    assert first[6:10] == ["tool", "data", "{}", "600"]
    assert first[-1] == second[-1], "unpacked once"


def test_the_master_script_has_its_files(engine, tmp_path):
    (tmp_path / "word.txt").write_text("word\n")
    master = skein.Master(script="cat w.txt", files={"w.txt": str(tmp_path / "word.txt")})
    engine.create("app", compiled(master=master, w=service()))
    ended(engine)
    assert run_folder(engine).driver_log.read_text() == "word\n"


def test_containers_meet_through_the_stock_client(engine, tmp_path):
    script = tmp_path / "talk.py"
    script.write_text(TALK)
    engine.create("app", compiled(w=service(f"exec {sys.executable} {script}", instances=4)))
    assert ended(engine).status.state == "SUCCEEDED"
    texts = [log.path.read_text() for log in engine.logs("app") if log.instance != "master"]
    assert texts == ["hello.w_0 hello.w_1 hello.w_2 hello.w_3\n"] * 4


def test_everything_is_private(engine):
    engine.create("app", compiled(w=service("umask; exec sleep 1000000")))
    run = run_folder(engine)
    await_containers(engine, 1, "RUNNING")
    for path in (engine._home.path, run.path, run.security, run.containers, run.logs):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (run.certificate, run.key, run.config, run.state, run.spec, run.master_log):
        assert path.stat().st_mode & 0o777 == 0o600


def test_another_bind_address(tmp_path):
    with local_engine(tmp_path / "home", bind="127.0.0.2") as engine:
        script = 'test "$NM_HOST" = 127.0.0.2 && [[ $SKEIN_APPMASTER_ADDRESS == 127.0.0.2:* ]]'
        engine.create("app", compiled(w=service(script)))
        assert ended(engine).status.state == "SUCCEEDED"


class TestGpus:
    SCRIPT = 'echo "$CUDA_VISIBLE_DEVICES"; exec sleep 1000000'

    @pytest.fixture
    def engine(self, tmp_path):
        submitter = environ(CUDA_VISIBLE_DEVICES="4,5,6")
        with local_engine(tmp_path / "home", environ=submitter) as engine:
            yield engine

    def application(self, name="app", instances=2, gpus=1):
        resources = skein.Resources(32, 1, gpus=gpus)
        return compiled(
            name,
            master=self.SCRIPT,
            g=service(self.SCRIPT, instances=instances, resources=resources),
            p=service(self.SCRIPT),
        )

    def texts(self, engine):
        return {x.instance: x.path.read_text() for x in engine.logs("app") if x.path.stat().st_size}

    def test_each_instance_has_its_own_and_the_others_none(self, engine):
        engine.create("app", self.application())
        eventually(lambda: len(self.texts(engine)) == 5)
        texts = self.texts(engine)
        texts.pop("master")
        assert texts == {"g/0": "4\n", "g/1": "5\n", "p/0": "\n", "coordinator": "\n"}

    def test_of_several(self, engine):
        engine.create("app", self.application(instances=1, gpus=3))
        eventually(lambda: self.texts(engine).get("g/0") == "4,5,6\n")

    def test_a_replacement_waits_until_one_is_free(self, engine):
        engine.create("app", self.application())
        with stock_client(engine) as client:
            wait_for_containers(client, 3, "RUNNING")
            client.add_container("g")
            waits = [("g_2", "waiting for 1 GPU")]
            eventually(
                lambda: (
                    [(c.id, c.exit_message) for c in client.get_containers(states=["REQUESTED"])]
                    == waits
                )
            )
            client.kill_container("g_0")
            eventually(lambda: self.texts(engine).get("g/2") == "4\n")

    def test_too_few_in_the_machine(self, engine):
        with pytest.raises(UnavailableError) as refused:
            engine.create("app", self.application(instances=4))
        assert str(refused.value) == "the application asks for 4 GPUs and this machine has 3"
        assert engine.list() == ()

    def test_too_few_free(self, engine):
        engine.create("other", self.application("other"))
        with pytest.raises(UnavailableError, match="of this machine's 3 only 1 is free"):
            engine.create("app", self.application())
        assert [a.name for a in engine.list()] == ["other"]
        engine.stop("other", "", force=True)
        engine.create("app", self.application())
