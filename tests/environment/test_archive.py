import io
import json
import re
import tarfile
import zipfile

import pytest

from tests import python_environments
from tfapp.environment.archive import UnfitError, look

LINUX = "grpcio-1.6-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
MAC = "grpcio-1.6-cp311-cp311-macosx_11_0_arm64.whl"
ANY = "skein-0.8.2-py3-none-any.whl"


def pex(path, info):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("__main__.py", "")
        if info is not None:
            file.writestr("PEX-INFO", json.dumps(info))
    path.chmod(0o755)
    return path


def objection(path) -> str:
    with pytest.raises(UnfitError) as error:
        look(path)
    return str(error.value)


def test_an_environment(tmp_path):
    environment = python_environments.make(tmp_path / "env", borrow=False)
    look(python_environments.pack(environment, tmp_path / "env.tar.gz"))


def test_names_may_begin_with_a_dot(tmp_path):
    with tarfile.open(tmp_path / "env.tgz", "w:gz") as file:
        file.addfile(tarfile.TarInfo("./bin/python"), io.BytesIO())
    look(tmp_path / "env.tgz")


def test_an_environment_inside_a_folder(tmp_path):
    with tarfile.open(tmp_path / "env.tgz", "w:gz") as file:
        file.addfile(tarfile.TarInfo("env/bin/python"), io.BytesIO())
    assert objection(tmp_path / "env.tgz") == (
        "has no bin/python, it begins with 'env': is it an environment that was packed by "
        "conda-pack or venv-pack?"
    )


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b\x08\x00"])
def test_no_archive(tmp_path, content):
    (tmp_path / "env.tar.gz").write_bytes(content)
    assert objection(tmp_path / "env.tar.gz").startswith("cannot be read: ")


def test_an_archive_that_was_cut(tmp_path):
    with tarfile.open(tmp_path / "env.tgz", "w:gz") as file:
        for number in range(100):
            file.addfile(tarfile.TarInfo(f"lib/{number}"), io.BytesIO())
    whole = (tmp_path / "env.tgz").read_bytes()
    (tmp_path / "env.tgz").write_bytes(whole[: len(whole) // 2])
    assert objection(tmp_path / "env.tgz").startswith("cannot be read: ")


def test_nothing_and_a_folder(tmp_path):
    assert objection(tmp_path / "env.tgz") == "cannot be read: No such file or directory"
    assert objection(tmp_path) == "is not a regular file"


def test_a_pex(tmp_path):
    wheels = {ANY: "", LINUX: "", MAC: ""}
    look(pex(tmp_path / "env.pex", {"venv": True, "distributions": wheels}))


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (None, "is not a PEX: there is no PEX-INFO in it"),
        ({"venv": False}, "is a PEX without a virtual environment: .* `pex --venv`"),
        (
            {"venv": True, "distributions": {ANY: "", MAC: ""}},
            "is for another platform: of grpcio it has no wheel for Linux",
        ),
    ],
)
def test_a_pex_that_does_not_fit(tmp_path, info, said):
    assert re.fullmatch(said, objection(pex(tmp_path / "env.pex", info)))


def test_a_pex_that_is_none(tmp_path):
    (tmp_path / "env.pex").write_text("hello")
    assert objection(tmp_path / "env.pex") == "is not a PEX: it is no zip file"


def test_a_pex_that_nobody_may_run(tmp_path):
    path = pex(tmp_path / "env.pex", {"venv": True})
    path.chmod(0o644)
    assert objection(path) == "may not be executed: chmod +x"
