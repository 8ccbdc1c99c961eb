"""Environments made of packages. Wheels are made here, and pip is told of no other index."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tfapp.environment import build, interpreter, unpacked
from tfapp.errors import UnavailableError

HERE = platform.python_version()
MINOR = "{}.{}".format(*sys.version_info)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tensorflow", ("tensorflow",)),
        ("b==2.*, a>=1,<2 ,!=1.5", ("a>=1,<2,!=1.5", "b==2.*")),
        ("a[x,y]==1\nb\n\n", ("a[x,y]==1", "b")),
        (" , ", ()),
    ],
)
def test_requirements(text, found):
    assert build.parse_requirements(text) == found


def test_the_archive_is_named_by_what_is_in_it(tmp_path):
    def name(*requirements: str, version: str = "") -> str:
        wanted = build.Wanted(requirements, version)
        return build.archive_of(wanted, tmp_path, sys.executable, {}).name

    assert name("a==1") == name("a==1") != name("a==2")
    assert name("a==1") != name("a==1", version=MINOR) == name("a==1", version=HERE)
    assert name("a==1").endswith(".tar.gz")


@pytest.mark.parametrize(
    ("here", "version", "platform", "on_this_machine", "expected"),
    [
        ("linux-x86_64", "", "", False, ("", "linux-x86_64")),
        ("linux-x86_64", "3.9", "", True, ("3.9", "linux-x86_64")),
        ("linux-x86_64", "", "linux-aarch64", False, (MINOR, "linux-aarch64")),
        ("darwin-arm64", "", "", True, ("", "darwin-arm64")),
        ("darwin-arm64", "", "", False, (MINOR, "linux-x86_64")),
        ("darwin-arm64", "3.9.1", "linux-aarch64", False, ("3.9.1", "linux-aarch64")),
    ],
)
def test_what_is_wanted_follows_from_the_nodes(
    monkeypatch, here, version, platform, on_this_machine, expected
):
    monkeypatch.setattr(build, "HERE", here)
    wanted = build.wanted("a==1", version, platform, on_this_machine)
    assert (wanted.requirements, (wanted.version, wanted.platform)) == (("a==1",), expected)


def wheel(folder: Path, name: str, tag: str = "py3-none-any", needs: tuple[str, ...] = ()) -> None:
    """`needs`: requirements. Its script of the same name prints where its interpreter is."""
    info = f"{name}-1.0.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    lines += [f"Requires-Dist: {requirement}" for requirement in needs]
    with zipfile.ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as file:
        source = f"import sys\ntag = {tag!r}\ndef main():\n    print(sys.executable)\n"
        file.writestr(f"{name}.py", source)
        file.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        file.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        file.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """All that pip finds."""
    monkeypatch.setattr(build, "REQUIREMENTS", ())
    folder = tmp_path / "wheels"
    folder.mkdir()
    wheel(folder, "small")
    return folder


@pytest.fixture
def environ(wheels, tmp_path):
    """pip's own variables: no index, one folder of wheels. HOME and PATH have no other Python."""
    own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), **own}


def said(*words: str | Path) -> str:
    """Of a program that has no variables."""
    done = subprocess.run(words, env={}, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@pytest.mark.slow  # pip makes an environment
def test_it_is_made_once_and_runs_elsewhere(tmp_path, environ):
    notes: list[str] = []
    folder = tmp_path / "environments"
    wanted = build.Wanted(("small==1.0",))
    archive = build.build(wanted, folder, sys.executable, environ, notes.append)
    assert notes[0].startswith("makes a Python environment of small==1.0: ")
    assert any(note.startswith("pip: Installing") for note in notes)
    assert list(folder.iterdir()) == [archive]
    told = len(notes)
    place = unpacked.folder_of(archive, folder)
    os.utime(archive, ns=(0, archive.stat().st_mtime_ns))
    assert build.build(wanted, folder, sys.executable, environ, notes.append) == archive
    assert len(notes) == told
    assert archive.stat().st_atime > 0, "its use is noted"
    assert unpacked.folder_of(archive, folder) == place, "it is not unpacked again"
    python, _ = unpacked.interpreter(archive, folder)
    assert said(*python, "-c", "import small, sys; print(sys.prefix)") == str(place)
    assert said(place / "bin" / "small") == str(place / "bin" / "python")


@pytest.mark.slow  # pip makes an environment
def test_pip_has_the_last_word_and_nothing_is_left(tmp_path, environ):
    folder = tmp_path / "environments"
    wanted = build.Wanted(("no-such-package==1",))
    with pytest.raises(UnavailableError) as error:
        build.build(wanted, folder, sys.executable, environ, lambda _: None)
    assert "No matching distribution found for no-such-package==1" in str(error.value)
    assert list(folder.iterdir()) == []


ALONE = """
import bz2, ctypes, json, lzma, site, small, sqlite3, ssl, sys, zlib
files = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if "/" in line}
print(json.dumps([sys.version.split()[0], sys.prefix, site.ENABLE_USER_SITE, sys.path[1:],
                  sorted(files)]))
"""


@pytest.mark.slow  # pip makes an environment
def test_it_brings_its_interpreter(tmp_path, environ):
    """Of the version that runs this, and nothing of the original is used any more."""
    folder = tmp_path / "environments"
    wanted = build.Wanted(("small==1.0",), MINOR)
    archive = build.build(wanted, folder, sys.executable, environ, lambda _: None)
    (python,), _ = unpacked.interpreter(archive, folder)
    place = unpacked.folder_of(archive, folder)
    version, prefix, user_site, path, files = json.loads(said(python, "-c", ALONE))
    assert (version, prefix, user_site) == (HERE, str(place), False)
    assert [entry for entry in path if not entry.startswith(str(place))] == []
    assert [file for file in files if file.startswith(sys.base_prefix + "/lib/python")] == []
    libraries = [file for file in files if ".so" in file and not file.startswith(str(place))]
    names = {os.path.basename(file).partition(".so")[0] for file in libraries}
    assert names <= {"ld-linux-x86-64", "ld-linux-aarch64", "libc", "libdl", "libm"} | {
        *("libpthread", "librt", "libutil")
    }
    assert said(place / "bin" / "small") == str(place / "bin" / "python")
    assert not list(place.glob("lib/python*/test")) and list(place.glob("lib/python*/LICENSE.txt"))


def make_uv(folder: Path, body: str) -> None:
    """A program `uv` that runs `body`: $4 is the folder to install to, $5 what is asked for."""
    folder.mkdir(exist_ok=True)
    (folder / "uv").write_text(f'#!/bin/sh\nset -e\necho "$*" > {folder}/asked\n{body}\n')
    (folder / "uv").chmod(0o755)


@pytest.mark.slow  # pip makes an environment
def test_where_this_machine_has_none_uv_brings_it(tmp_path, environ, monkeypatch):
    broken = interpreter.Installation("/bin/false", "/no/python", HERE)
    monkeypatch.setattr(build, "installations", lambda *_: iter([broken]))
    folder, notes = tmp_path / "environments", []
    wanted = build.Wanted(("small==1.0",), MINOR)
    with pytest.raises(UnavailableError) as error:
        build.build(wanted, folder, sys.executable, environ, lambda _: None)
    assert (str(error.value), error.value.hint) == (
        f"there is no Python {MINOR} to send to {build.HERE}\n"
        f"  /no/python {HERE}: /bin/false fails: exit code 1\n"
        "  uv: it is not installed",
        f"`pip install uv`: it brings one; or install Python {MINOR} on this machine.",
    )
    make_uv(tmp_path / "bin", f'mkdir "$4"; ln -s {sys.base_prefix} "$4/$5"')
    archive = build.build(wanted, folder, sys.executable, environ, notes.append)
    asked = (tmp_path / "bin" / "asked").read_text().split()
    assert asked[:3] == ["python", "install", "--install-dir"]
    assert asked[4:] == [f"cpython-{MINOR}-{build.HERE}-gnu"]
    assert f"uv brings Python {MINOR} for {build.HERE}" in notes
    (python,), _ = unpacked.interpreter(archive, folder)
    assert said(python, "-c", "import small, sys; print(sys.version.split()[0])") == HERE


THERE = """
there="$4/$5/lib/python3.12"
mkdir -p "$there/test" "$4/$5/bin"
echo interpreter > "$4/$5/bin/python3.12"
touch "$there/os.py" "$there/LICENSE.txt" "$4/$5/lib/libpython3.12.so.1.0"
"""


@pytest.mark.slow  # pip makes an environment
def test_for_another_platform_it_is_made_of_wheels(tmp_path, environ, wheels, monkeypatch):
    """Submitted from a Mac: wheels, and markers of requirements, are those of the nodes."""
    monkeypatch.setattr(build, "HERE", "darwin-arm64")
    make_uv(tmp_path / "bin", THERE)
    for tag in ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64", "macosx_11_0_arm64"):
        wheel(wheels, "fast", f"cp312-cp312-{tag}")
    wheel(wheels, "armed")
    there = "sys_platform == 'linux' and platform_machine == 'aarch64' and python_version == '3.12'"
    needs = (f"fast; {there}", "small; python_version < '3.12' or platform_machine != 'aarch64'")
    wheel(wheels, "both", needs=(*needs, "armed; platform_machine == 'aarch64'"))
    wanted = build.wanted("both", "3.12", "linux-aarch64", here=False)
    folder, notes = tmp_path / "environments", []
    archive = build.build(wanted, folder, sys.executable, environ, notes.append)
    assert notes[0].startswith("makes a Python environment of Python 3.12, both for linux-aarch64")
    asked = (tmp_path / "bin" / "asked").read_text().split()
    assert asked[4:] == ["cpython-3.12-linux-aarch64-gnu"]
    place = unpacked.unpack(archive, folder)
    packages = place / "lib" / "python3.12" / "site-packages"
    found = {path.name for path in packages.iterdir() if path.suffix == ".py"}
    assert found == {"armed.py", "both.py", "fast.py"}
    assert "cp312-cp312-manylinux_2_17_aarch64" in (packages / "fast.py").read_text()
    assert (place / "bin" / "python").read_text() == "interpreter\n"
    assert (place / "bin" / "both").read_bytes().startswith(build._BESIDE)
    assert sorted(p.name for p in (place / "lib").iterdir()) == [
        "libpython3.12.so.1.0",
        "python3.12",
    ]
    assert not (packages.parent / "test").exists()

    with tarfile.open(wheels / "sourceonly-1.0.tar.gz", "w:gz"):
        pass
    wanted = build.wanted("sourceonly", "3.12", "linux-aarch64", here=False)
    with pytest.raises(UnavailableError) as error:
        build.build(wanted, folder, sys.executable, environ, lambda _: None)
    assert "No matching distribution found for sourceonly" in str(error.value)
    assert "only wheels are installed from here" in error.value.hint


@pytest.mark.weekly
@pytest.mark.slow  # pip makes environments
def test_an_environment_is_added_to_what_is_installed(tmp_path, environ, wheels):
    """Its own packages come first; what it is added to is not installed again, but must agree."""
    wheel(wheels, "yaml")
    folder = tmp_path / "environments"

    def made(*requirements: str, kept: tuple[str, ...] = (), added: str = build.MINE):
        wanted = build.Wanted(requirements, kept=kept, added=added)
        return build.build(wanted, folder, sys.executable, environ, lambda _: None)

    python, _ = unpacked.interpreter(made("yaml", kept=("pytest",)), folder)
    found = said(*python, "-c", "import yaml, pytest; print(yaml.__file__, pytest.__file__)")
    assert found.split()[0].startswith(str(folder))
    assert found.split()[1] == pytest.__file__
    assert made("yaml") != made("yaml", added=build.THEIRS)
    settings = unpacked.unpack(made("yaml", added=build.THEIRS), folder) / "pyvenv.cfg"
    assert "include-system-site-packages = true\n" in settings.read_text()
    wheel(wheels, "picky", needs=("pytest<1",))
    with pytest.raises(UnavailableError) as error:
        made("picky", kept=(f"pytest=={pytest.__version__}",))
    assert "conflicting dependencies" in str(error.value)
    assert f"The packages are added to pytest=={pytest.__version__}. For" in error.value.hint
