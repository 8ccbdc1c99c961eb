"""Small Python environments, packed as venv-pack packs them. No network is needed: what this
interpreter has installed, they find by a path file. And one that pip makes, once per machine."""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from unittest import mock

from tfapp.compiler.store import CACHE
from tfapp.environment import build
from tfapp.environment.unpacked import unpack

# The last TensorFlow with Estimators, without what only GPUs need.
WITH_ESTIMATORS = "tensorflow-cpu==2.15.*"
# Of it and what it depends on, for compilers, developers and TensorBoard.
_UNUSED = (
    *("tensorflow/include", "tensorflow/xla_aot_runtime_src", "clang", "pip", "setuptools"),
    *("tensorboard", "tensorboard_data_server", "pyasn1_modules", "oauthlib"),
)

_OF_TENSORFLOW = ("tensorflow", "tf_keras", "__pycache__", "distutils-precedence.pth")


def make(folder: Path, borrow: bool = True) -> Path:
    """A virtual environment; with `borrow` it finds what is installed for this interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    if borrow:
        version = sysconfig.get_python_version()
        site = folder / "lib" / f"python{version}" / "site-packages"
        (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def pack(environment: Path, target: Path) -> Path:
    """As venv-pack: relative names, links as they are."""
    with tarfile.open(target, "w:gz") as archive:
        for name in sorted(os.listdir(environment)):
            archive.add(environment / name, name)
    return target


def older_pyarrow() -> Path:
    """A folder with the pyarrow for NumPy 1, which WITH_ESTIMATORS has; made once per machine."""
    return _fetched("pyarrow-21", "pyarrow==21.*")


def with_jax(folder: Path) -> Path:
    """The Python of an environment with JAX, which is fetched once per machine, and with what is
    installed for this interpreter, but for TensorFlow."""
    kept = _fetched("jax", "jax", "jaxlib")
    site = make(folder, borrow=False) / "lib" / f"python{sysconfig.get_python_version()}"
    for source in (kept, Path(sysconfig.get_path("purelib"))):
        for path in source.iterdir():
            target = site / "site-packages" / path.name
            if not target.exists() and not path.name.startswith(_OF_TENSORFLOW):
                target.symlink_to(path)
    return folder / "bin" / "python"


def with_keras_tuner(folder: Path) -> Path:
    """The Python of an environment with KerasTuner, which is fetched once per machine, and with
    what is installed for this interpreter."""
    return _with(folder, _fetched("keras-tuner", "keras-tuner", "kt-legacy"))


def with_profile_page(folder: Path) -> Path:
    """The Python of an environment with the plug-in of the page Profile, which is fetched
    once per machine, and with what is installed for this interpreter. Without what it needs to read
    traces from clouds, and to trace by itself."""
    needs = "gviz-api cheroot jaraco.functools more-itertools etils importlib_resources zipp fire"
    return _with(folder, _fetched("xprof", "xprof==2.24.*", *needs.split(), "termcolor"))


def _with(folder: Path, kept: Path) -> Path:
    version = sysconfig.get_python_version()
    site = make(folder) / "lib" / f"python{version}" / "site-packages"
    (site / "fetched.pth").write_text(f"{kept}\n")
    return folder / "bin" / "python"


def _fetched(name: str, *packages: str) -> Path:
    """A folder with `packages`, and with nothing that they depend on."""
    environments = _test_environments()
    kept = environments / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    with open(environments / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            made = kept.with_suffix(".part")
            shutil.rmtree(made, ignore_errors=True)
            words = ("install", "--quiet", "--no-deps", "--target", str(made), *packages)
            subprocess.run([sys.executable, "-m", "pip", *words], check=True)
            made.rename(kept)
    return kept


def _test_environments() -> Path:
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    environments = cache / "test-environments"
    environments.mkdir(parents=True, exist_ok=True)
    return environments


def share_with_estimators(home: Path) -> None:
    """Makes the environment WITH_ESTIMATORS, unless this machine has it, for all that name it as
    `packages` with TFAPP_HOME `home`. A quarter of its files remains: a NodeManager without
    Hadoop's native library starts a `chmod` for each, which takes minutes for all of them."""
    environments = _test_environments()
    environ = {**os.environ, "PIP_NO_COMPILE": "1"}
    wanted = build.Wanted(build.parse_requirements(WITH_ESTIMATORS))
    with open(environments / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # not twice at the same time
        with mock.patch.object(build, "_pack", _pack_thin):
            archive = build.build(wanted, environments, sys.executable, environ, print)
        unpacked = unpack(archive, environments)
    shared = home / CACHE / "environments"
    shared.mkdir(parents=True, exist_ok=True)
    for made in (archive, unpacked):
        if not (shared / made.name).exists():
            (shared / made.name).symlink_to(made)


def _pack_thin(environment: Path, target: Path, whole=build._pack) -> None:
    """Without tests, and without what a training does not use."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    for name in _UNUSED:
        shutil.rmtree(packages / name)
    for tests in sorted(packages.rglob("tests")):
        shutil.rmtree(tests, ignore_errors=True)  # of another that is gone
    whole(environment, target)
