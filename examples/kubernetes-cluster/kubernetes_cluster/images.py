"""Images: tars as the layers of a docker-archive, as `docker save` writes it, or in a registry."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubernetes_cluster.processes import UnavailableError, locked, run
from kubernetes_cluster.programs import FETCH_LIMIT, codename, environ_of, say, unpack
from kubernetes_cluster.registry import MANIFEST_TYPE, place_of_blob, place_of_tag

PAUSE = "localhost/tfapp/pause:1"
PYTHON = "localhost/tfapp/python:1"
# A program that is linked with C++, as TensorFlow is, needs the library.
PYTHON_PACKAGES = ("python3", "libstdc++6")

# Half of what debootstrap makes: of no use to a program.
LEFT_OUT = (
    *("proc", "sys", "dev", "var/cache/apt", "var/lib/apt/lists"),
    *("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man"),
)

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclasses.dataclass(frozen=True)
class Image:
    """`name` as "localhost/mine:1"; its files are those of the tars `layers`, the lowest first.
    `config` is OCI's: Cmd, Entrypoint, Env, User."""

    name: str
    layers: tuple[Path, ...]
    config: Mapping[str, Any]


def write_archive(archive: Path, *images: Image) -> None:
    """A docker-archive. A layer that several images have is there once."""
    digests = {layer: _digest(layer) for image in images for layer in image.layers}
    members, manifest = {}, []
    for image in images:
        of_layers = [digests[layer] for layer in image.layers]
        text = _config(image, of_layers)
        name = f"{hashlib.sha256(text).hexdigest()}.json"
        places = [f"{digest}.tar" for digest in of_layers]
        members[name] = text
        manifest.append({"Config": name, "RepoTags": [image.name], "Layers": places})
    members["manifest.json"] = json.dumps(manifest).encode()
    unfinished = archive.with_name(f"{archive.name}.new")
    with tarfile.open(unfinished, "w") as tar:
        for member, data in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
        for layer, digest in digests.items():
            tar.add(layer, f"{digest}.tar")
    unfinished.replace(archive)


def write_published(folder: Path, image: Image) -> None:
    """Puts an image into the folder of a registry, where its name is as "mine/train:1"."""
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    digests = list(map(_digest, image.layers))
    for layer, digest in zip(image.layers, digests):
        place = place_of_blob(folder, f"sha256:{digest}")
        if not place.exists():
            shutil.copyfile(layer, place.with_suffix(".new"))
            place.with_suffix(".new").replace(place)
    config = _config(image, digests)
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {
            "mediaType": f"{kind}.config.v1+json",
            "digest": _write_blob(folder, config),
            "size": len(config),
        },
        "layers": [
            {
                "mediaType": f"{kind}.layer.v1.tar",
                "digest": f"sha256:{digest}",
                "size": layer.stat().st_size,
            }
            for layer, digest in zip(image.layers, digests)
        ],
    }
    name, _, tag = image.name.partition(":")
    place = place_of_tag(folder, name, tag)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_write_blob(folder, json.dumps(manifest).encode()))


def _write_blob(folder: Path, content: bytes) -> str:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    place_of_blob(folder, digest).write_bytes(content)
    return digest


def _config(image: Image, digests: Sequence[str]) -> bytes:
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": [_PATH], **image.config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        # With the name no two images have one id: containerd 1.6 forgets the first name of two.
        "history": [{"created_by": f"cluster.py {image.name}"}] * len(digests),
    }
    return json.dumps(config).encode()


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while data := content.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def write_programs(layer: Path, *names: str) -> None:
    """A tar of programs of this machine, in /bin, and their libraries. UnavailableError when one is
    not there."""
    with tarfile.open(layer, "w", dereference=True) as tar:
        for name in names:
            program = shutil.which(name)
            if program is None:
                raise UnavailableError(f"there is no `{name}` to make an image of")
            tar.add(program, f"bin/{name}")
            listed = run(["ldd", program], 60, f"asking for the libraries of {program}")
            for library in re.findall(r"(/\S+) \(0x", listed):
                tar.add(library)


def write_pause(archive: Path) -> None:
    """The image in which a pod's network lives: this machine's `sleep`, and its libraries."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        layer = Path(scratch, "layer.tar")
        write_programs(layer, "sleep")
        write_archive(archive, Image(PAUSE, (layer,), {"Entrypoint": ["/bin/sleep", "infinity"]}))


def python_image(cache: Path, environ: Mapping[str, str], name: str = PYTHON) -> Image:
    """See `python_layer`."""
    return Image(name, (python_layer(cache, environ),), {"Cmd": ["/usr/bin/python3"]})


def python_layer(cache: Path, environ: Mapping[str, str]) -> Path:
    """A tar of a small Debian of this machine's own release with its Python, kept in `cache`.
    Takes about a minute when it is not there. UnavailableError where it cannot be had."""
    if not codename():
        raise UnavailableError("this machine is no Debian: no image of Debian's Python is made")
    layer = place_of_layer(cache)
    if layer.is_file():
        return layer
    root = unpack(cache, ("debootstrap",), ("debootstrap",), environ)
    with locked(layer.parent, FETCH_LIMIT):
        if not layer.is_file():
            say(f"making an image of Debian's {' and '.join(PYTHON_PACKAGES)}: about a minute")
            _bootstrap(layer, root, environ_of(root, environ))
    return layer


def place_of_layer(cache: Path) -> Path:
    """Where `python_layer` keeps its tar."""
    name = f"{'-'.join(PYTHON_PACKAGES)}.tar"
    return cache / "kubernetes" / f"debian-{codename()}" / name


def _bootstrap(layer: Path, root: Path, environ: Mapping[str, str]) -> None:
    scripts = root / "usr/share/debootstrap"
    if scripts.is_dir():
        environ = {**environ, "DEBOOTSTRAP_DIR": str(scripts)}
    scratch = Path(tempfile.mkdtemp(prefix="new.", dir=layer.parent))
    folder = scratch / "root"
    included = f"--include={','.join(PYTHON_PACKAGES)}"
    bootstrap = ["debootstrap", "--variant=minbase", included, codename(), str(folder), *_mirror()]
    # In a mount namespace: what debootstrap mounts is gone with it, however it ends.
    command = ["unshare", "--mount", "--propagation", "private", *bootstrap]
    try:
        run(command, FETCH_LIMIT, "making an image with debootstrap", environ)
        excluded = [f"--exclude=./{name}/*" for name in LEFT_OUT]
        unfinished = scratch / "layer.tar"
        pack = ["tar", "-C", str(folder), *excluded, "-cf", str(unfinished), "."]
        run(pack, FETCH_LIMIT, "packing an image", environ)
        unfinished.replace(layer)
    finally:
        shutil.rmtree(scratch)


def _mirror() -> list[str]:
    """Where this machine gets its packages from; [] leaves it to debootstrap."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.split()[:1]
