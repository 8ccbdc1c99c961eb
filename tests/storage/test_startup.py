"""The start of each Python of a program that may open URLs."""

import json
import os
import re
import shutil
import sys
import types
from pathlib import Path

import pytest

import tfapp.storage
from tests import programs, python_environments
from tests.lacking import needs_storage
from tfapp.contract import stacks
from tfapp.contract.names import ENV_STORAGE
from tfapp.storage import plugin

DEBIAN = "/usr/bin/python3"
STARTUP = str(Path(tfapp.storage.__file__).with_name("startup"))
LOOK = """
import json, os, sys
print(json.dumps({
    "waits": any(getattr(one, "opens", False) for one in sys.meta_path),
    "own": os.environ.get("OWN", ""),
    "path": sys.path,
    "sitecustomize": getattr(sys.modules.get("sitecustomize"), "__file__", ""),
}))
"""


def look(*flags, paths=(), command=(sys.executable,), words=("-c", LOOK), **more) -> dict:
    environ = {
        "PYTHONPATH": os.pathsep.join([STARTUP, *map(str, paths)]),
        "PEX_EXTRA_SYS_PATH": STARTUP,
        ENV_STORAGE: "/packages",
        **more,
    }
    done = programs.run(*command, *flags, *words, environ=environ, without="PYTHON")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def run(code, *paths, cwd=None, **environ) -> tuple[str, str]:
    """What a program prints that can import what is in `paths`: its output and its errors."""
    environ["PYTHONPATH"] = os.pathsep.join([STARTUP, *map(str, paths)])
    done = programs.python("-c", code, cwd=cwd, environ=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@needs_storage
def test_it_waits_for_tensorflow_and_its_packages_come_last():
    found = look()
    assert found["waits"]
    assert found["path"][-1] == "/packages"
    assert STARTUP not in found["path"]


ASK = """
import os, time
links = {f: f"/proc/self/fd/{f}" for f in os.listdir("/proc/self/fd")}
links = {f: os.readlink(link) for f, link in links.items() if os.path.lexists(link)}
file = next(f for f, link in links.items() if link == "/memfd:NAME (deleted)")
os.kill(os.getpid(), SIGNAL)
print(open(f"/proc/self/fd/{file}").read())
assert not os.get_inheritable(int(file))
"""


def test_it_answers_the_signal_for_stacks():
    """The start-up hook, which imports nothing of tfapp, means what tfapp.contract.stacks does."""
    code = ASK.replace("NAME", stacks.MEMORY_FILE).replace("SIGNAL", str(stacks.SIGNAL))
    out, err = run(code)
    assert re.search('(?m)^  File "<string>", line 6 in <module>$', out)
    assert err == ""


def test_a_python_without_what_stacks_need_starts(tmp_path):
    (tmp_path / "faulthandler.py").write_text("raise ImportError('none here')")
    code = "import sys; sys.modules['os'].memfd_create = None; print('runs')"
    assert run(code) == run(code, tmp_path) == ("runs\n", "")


@needs_storage
def test_the_sitecustomize_of_the_program_runs(tmp_path):
    own = tmp_path / "sitecustomize.py"
    own.write_text("import os; os.environ['OWN'] = 'ran'")
    found = look(paths=[tmp_path])
    assert (found["waits"], found["own"], found["sitecustomize"]) == (True, "ran", str(own))
    assert str(tmp_path) in found["path"]


JAX = {
    "jaxlib/_jax.py": "def make_gloo_tcp_collectives(*args):\n    print(args)\n",
    "jax/_src/xla_bridge.py": "from jaxlib import _jax\n",
}
CONNECT = """
from jax._src.xla_bridge import _jax
_jax.make_gloo_tcp_collectives(distributed_client="client")
_jax.make_gloo_tcp_collectives("client", interface="eth1")
"""


def test_jax_tells_the_others_the_address_of_this_instance(tmp_path):
    """And not what the machine's name means here. tests/clusters/spark has the real one."""
    for name, code in JAX.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(code)
    out, _ = run(CONNECT, tmp_path, TFAPP_HOST="198.51.100.7")
    assert out == "('client', '198.51.100.7', None)\n('client', None, 'eth1')\n"


def test_a_jax_without_gloo_is_imported(tmp_path):
    (tmp_path / "jax" / "_src").mkdir(parents=True)
    (tmp_path / "jax" / "_src" / "xla_bridge.py").write_text("print('runs')\n")
    assert run("import jax._src.xla_bridge", tmp_path) == ("runs\n", "")


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_where_python_leaves_out_what_it_needs_nothing_waits(flag):
    assert not look(flag)["waits"]


def test_without_packages_nothing_is_opened():
    assert not look(**{ENV_STORAGE: ""})["waits"]


def check(found: dict) -> None:
    """It waits, with its packages at the end of the path and nothing at the beginning."""
    assert (found["waits"], found["path"][-1]) == (True, "/packages")
    assert STARTUP not in found["path"]


@needs_storage
def test_in_an_environment_that_was_packed_and_unpacked(tmp_path):
    made = python_environments.make(tmp_path / "made", borrow=False)
    archive = python_environments.pack(made, tmp_path / "environment.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "elsewhere")
    check(look(command=[tmp_path / "elsewhere" / "bin" / "python"]))


@needs_storage
@pytest.mark.slow
def test_in_a_pex_whose_python_ignores_variables(tmp_path):
    """As a program, and as the environment that site.global.python.archive makes of it."""
    path, root = tmp_path / "look.pex", str(tmp_path / "root")
    (tmp_path / "look.py").write_text(LOOK)
    programs.printed("-m", "pex", "--venv", "--exe", tmp_path / "look.py", "-o", path)
    check(look(command=[path], words=(), PEX_ROOT=root))
    place = "import json, sys; print(json.dumps(sys.prefix))"
    prefix = look(command=[path], words=["-c", place], PEX_ROOT=root, PEX_INTERPRETER="1")
    check(look(command=[f"{prefix}/bin/python"]))


@needs_storage
@pytest.mark.skipif(not os.path.exists(DEBIAN), reason=f"there is no {DEBIAN}")
def test_in_a_child_with_another_python():
    """Debian's has a sitecustomize of its own, which runs."""
    child = f"import subprocess, sys; sys.exit(subprocess.call([{DEBIAN!r}, '-c', {LOOK!r}]))"
    alone = programs.run(DEBIAN, "-c", LOOK)
    found, own = look("-c", child, words=()), json.loads(alone.stdout)["sitecustomize"]
    check(found)
    assert not own or found["sitecustomize"] == own


@needs_storage
def test_a_tensorflow_that_takes_no_file_systems_is_imported(tmp_path):
    """A warning says that URLs cannot be opened."""
    (tmp_path / "tensorflow.py").write_text("there = True\n")
    program = "import tensorflow; print(tensorflow.there)"
    out, err = run(program, tmp_path, **{ENV_STORAGE: "/packages"})
    assert out == "True\n"
    assert re.fullmatch("tfapp: warning: no URL can be opened here: .*'io' .*\n", err)


@pytest.mark.parametrize(("imports", "left"), [("", {"gs", "hdfs"}), ("raise OSError", {"gs"})])
def test_what_tensorflow_or_tensorflow_io_opens_is_left_to_it(monkeypatch, tmp_path, imports, left):
    """tensorflow-io opens hdfs:// where TensorFlow can load it."""
    schemes = ["", "gs"]
    made = types.SimpleNamespace(
        io=types.SimpleNamespace(
            gfile=types.SimpleNamespace(get_registered_schemes=lambda: schemes)
        ),
        experimental=types.SimpleNamespace(register_filesystem_plugin=None),
        schemes=schemes,
    )
    monkeypatch.setitem(sys.modules, "tensorflow", made)
    program = f"import tensorflow\n{imports}\ntensorflow.schemes.append('hdfs')\n"
    (tmp_path / "tensorflow_io.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorflow_io", raising=False)
    monkeypatch.setenv("TFAPP_STORAGE_SCHEMES", "gs, sftp")
    given = []
    loaded = types.SimpleNamespace(load=lambda stores, register: given.extend(stores))
    monkeypatch.setattr(plugin, "plugin_for", lambda tensorflow: loaded)
    tfapp.storage._give(made)
    assert {*tfapp.storage.SCHEMES, "gs", "sftp"} - set(given) == left


def test_a_program_without_tensorflow_is_left_alone(tmp_path):
    """Another module of a similar name is found by others, and one that is missing by nobody."""
    (tmp_path / "tensorflow_like.py").write_text("")
    program = "import tensorflow_like\ntry:\n    import missing\nexcept ImportError:\n    pass\n"
    run(program, tmp_path, **{ENV_STORAGE: "/packages"})


@needs_storage
def test_a_program_with_a_part_of_tfapp_finds_storage_without_tensorflow(tmp_path):
    (tmp_path / "tfapp").mkdir()
    (tmp_path / "tfapp" / "__init__.py").write_text("")
    program = "import tfapp, tfapp.storage; print(tfapp.__file__, tfapp.storage.__file__)"
    out, _ = run(program, tmp_path, cwd=tmp_path, **{ENV_STORAGE: "/packages"})
    assert out.split() == [str(tmp_path / "tfapp/__init__.py"), tfapp.storage.__file__]
