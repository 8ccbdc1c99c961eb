"""Containers that see neither the disk of their master nor its loopback, on an engine that is one
folder and one line."""

import sys
import zipfile

import pytest
import skein

from tests.engines.applications import compiled, ended, service


@pytest.fixture
def engine(isolated_engine):
    return isolated_engine


def test_a_container_has_its_files_and_nothing_of_the_masters(engine, tmp_path):
    packed = tmp_path / "home" / "cache" / "files.zip"
    packed.parent.mkdir(parents=True)
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("inside", "unpacked\n")
    plain = packed.with_name("plain")
    plain.write_bytes(b"0" * 3_000_000)
    script = (
        f"cat z/inside; wc -c < p; ls {packed.parent} 2>&1; hostname -I | wc -w; "
        f"{sys.executable} -c 'import skein; "
        "print(skein.ApplicationClient.from_current().get_containers()[0].id)'"
    )
    files = {
        "z": skein.File(f"file://{packed}", type="ARCHIVE"),
        "p": skein.File(f"file://{plain}", type="FILE"),
    }
    engine.create("app", compiled(w=service(script, files=files)))
    last = ended(engine)
    (log, *_) = engine.logs("app")
    said = log.path.read_text().splitlines()
    assert last.status.state == "SUCCEEDED", said
    assert said[:2] == ["unpacked", "3000000"]
    assert "No such file" in said[2]
    assert said[-1] == "w_0"


def test_a_real_runner_and_a_real_program(isolated_engine, bridge, tmp_path, monkeypatch, capfd):
    """Two workers meet over the bridge, each from its own host."""
    from tfapp.cli.main import main

    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, pathlib\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "print('hosts', sorted(a.rpartition(':')[0] for a in config['cluster']['worker']))\n"
        "print('key is here:', pathlib.Path('..', '.skein.pem').exists())\n"
    )
    monkeypatch.setenv("TFAPP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ISOLATED_ADDRESS", bridge)
    words = ["run", str(program), "-w", "2", "--name", "app", "--engine", "isolated"]
    code = main(words)
    out, err = capfd.readouterr()
    assert code == 0, err
    hosts = {i.host for i in isolated_engine.find("app").status.instances}
    assert len(hosts) == 2 and bridge not in hosts and "127.0.0.1" not in hosts
    assert out == f"hosts {sorted(hosts)}\nkey is here: False\n"  # of worker/0
    logs = {log.instance: log.path.read_text() for log in isolated_engine.logs("app")}
    assert out in logs["worker/1"]
