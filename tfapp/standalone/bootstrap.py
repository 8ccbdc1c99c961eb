"""Runs a container that has nothing but its master's address and its credentials.

    python3 bootstrap.py ADDRESS CONTAINER_ID CERTIFICATE KEY FOLDER

Asks the master at ADDRESS (see tfapp.master.files) what the container is, fetches its files into
FOLDER/CONTAINER_ID, checks their content, unpacks archives, and becomes the container's script.
Where the master says that it is to stay, it waits for the script, passes SIGTERM on to it, which
gives its program its grace and ends, and says in the container's log what a program returned:
`tfapp: returned {...}`.
Standard library only: this file alone travels to where nothing of tfapp is.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import zipfile
import zlib

PATIENCE = 60.0  # seconds for the master to answer
CALL_LIMIT = 60.0  # seconds in which something has to come over an open connection
CHUNK = 1 << 20
ASK_EVERY = 3.0  # seconds between two questions to it
WITNESS_LIMIT = 5.0  # seconds for the witness to answer
WITNESS = "/tfapp/witness"  # the folder of what is needed to ask it: see tfapp.engines.kubernetes
NONCE = 16  # bytes of a question to the witness beside a master
MAX_ANSWER = 1 << 20  # bytes
# tfapp.contract.names
ENV_WITNESS = "TFAPP_WITNESS"
CANNOT_START, CANNOT_START_CODE = "tfapp: cannot start: ", 78
RETURNED_FILE, RETURNED_LINE = "tfapp-returned.json", "tfapp: returned "
LOG_BEGINS = "tfapp: the log begins"


class BadArchiveError(Exception):
    """An archive that cannot be unpacked; its text goes on after the archive's name."""


# ---- Archives ---------------------------------------------------------------------------------


def unpack(archive, target, stopped=lambda: False):
    """Unpacks a .zip or .tar, compressed or not, into the new folder `target`: all or nothing,
    one chunk in memory. BadArchiveError for anything else, for a damaged one, and for one with a
    path out of it. `stopped`: asked between files; True gives up with InterruptedError."""
    folder, name = os.path.split(target)
    partial = os.path.join(folder, f".{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    os.mkdir(partial, 0o700)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as file:
                _unzip(file, partial, stopped)
        else:
            _untar(archive, partial, stopped)
        os.rename(partial, target)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise BadArchiveError(f"cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unzip(file, folder, stopped):
    for info in file.infolist():
        if stopped():
            raise InterruptedError("stopped while it was unpacked")
        mode = info.external_attr >> 16
        if (
            os.path.isabs(info.filename)
            or ".." in info.filename.split("/")
            or "\\" in info.filename
        ):
            raise BadArchiveError(f"has a path that leads out of it: {info.filename!r}")
        if not info.is_dir() and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise BadArchiveError(f"has a link or device: {info.filename!r}")
        path = os.path.join(folder, info.filename)
        os.makedirs(path if info.is_dir() else os.path.dirname(path), exist_ok=True)
        if not info.is_dir():
            with file.open(info) as source, open(path, "xb") as copy:
                shutil.copyfileobj(source, copy, CHUNK)
            os.chmod(path, (mode & 0o777 or 0o644) | 0o600)


def _untar(archive, folder, stopped):
    import tarfile  # few archives are tars, and somebody waits for those that are none

    try:
        with tarfile.open(archive) as file:
            if hasattr(tarfile, "tar_filter"):
                file.extraction_filter = tarfile.tar_filter
            file.extractall(folder, _members(file, folder, stopped))
    except tarfile.TarError as error:
        raise BadArchiveError(f"is neither a zip nor a tar archive: {error}") from error


def _members(file, folder, stopped):
    """The members that tar unpacks, with links as they are; but nothing is written through one of
    them, and no other name is given to a file that is not of the archive."""
    top = os.path.realpath(folder)
    for member in file:
        if stopped():
            raise InterruptedError("stopped while it was unpacked")
        member.name = member.name.lstrip("/") or "."
        path = os.path.join(top, member.name)
        _check_inside(top, os.path.dirname(path), member.name)
        if member.islnk():
            _check_inside(top, os.path.join(top, member.linkname), member.linkname)
        if os.path.islink(path) or (os.path.isfile(path) and not member.isdir()):
            os.unlink(path)  # as tar does: a link of this name, and not what it leads to
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
        yield member
    if isinstance(file.fileobj, io.BufferedReader):
        file.fileobj.seek(file.offset)
        if file.fileobj.read(512) != bytes(512):
            raise BadArchiveError("cannot be unpacked: it is cut off")
    while file.fileobj.read(CHUNK):  # to the end of what is compressed, with its checksum
        pass


def _check_inside(top, path, name):
    """BadArchiveError if `path`, by whatever links, is not in `top`, a real path."""
    real = os.path.realpath(path)
    if real != top and not real.startswith(top + os.sep):
        raise BadArchiveError(f"has a path that leads out of it: {name!r}")


# ---- The witness ----------------------------------------------------------------------------


def ask_witness(id, environ=os.environ, key=b"", folder=WITNESS):
    """What the witness of an application says of the container `id`, which cannot reach its master:
    whether it `may_live`, the addresses of the master, "" where that stays where it was, and its
    `version`, another one for as long as a master lives. None if nobody answers, or there is no
    witness. `key`: the application's private key, in PEM."""
    import http.client

    try:
        where = environ[ENV_WITNESS].split()[-1]
        said = _ask_beside(where, key) if ":" in where else _ask_api_server(where, environ, folder)
        return {
            "may_live": said["containers"] == id.rpartition("_")[0],
            "address": str(said["address"]),
            "files": str(said["files"]),
            "version": str(said["version"]),
        }
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, IndexError):
        return None


def _ask_beside(address, key):
    """The answer of tfapp.master.witness. OSError, ValueError."""
    host, _, port = address.rpartition(":")
    nonce, until = os.urandom(NONCE), time.monotonic() + WITNESS_LIMIT
    with socket.create_connection((host.strip("[]"), int(port)), WITNESS_LIMIT) as connection:
        connection.sendall(nonce)
        heard = b""
        while data := connection.recv(CHUNK):
            heard += data
            if len(heard) > MAX_ANSWER or time.monotonic() > until:
                raise ValueError("this is no witness")
    signed, _, said = heard.partition(b"\n")
    right = hmac.new(witness_secret(key), nonce + said, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signed, right.encode()):
        raise ValueError("this is not the application's witness")
    return {"address": "", "files": "", **json.loads(said)}


def witness_secret(key):
    """By which the witness beside a master is known."""
    return hashlib.sha256(b"tfapp witness\n" + key).digest()


def _ask_api_server(name, environ, folder):
    """What the object `name` says. OSError, HTTPException, ValueError, KeyError, TypeError."""
    import http.client
    import ssl

    host, port = environ["KUBERNETES_SERVICE_HOST"], int(environ["KUBERNETES_SERVICE_PORT"])
    with open(os.path.join(folder, "token"), encoding="ascii") as file:
        headers = {"Authorization": f"Bearer {file.read().strip()}"}
    with open(os.path.join(folder, "namespace"), encoding="ascii") as file:
        path = f"/api/v1/namespaces/{file.read().strip()}/configmaps/{name}"
    tls = ssl.create_default_context(cafile=os.path.join(folder, "ca.crt"))
    connection = http.client.HTTPSConnection(host, port, timeout=WITNESS_LIMIT, context=tls)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError(0, f"it answers {answer.status}")
        said = json.loads(answer.read(MAX_ANSWER))
    finally:
        connection.close()
    return {**said["data"], "version": said["metadata"]["resourceVersion"]}


# ---- The container ----------------------------------------------------------------------------


class MasterClient:
    """A client of the master at `address` (host:port), with the application's credentials. It keeps
    its connection: to agree on each takes longer than most files. `id`: of the container; while the
    master is lost, it waits for the next one where the witness names it."""

    def __init__(self, address, certificate, key, id=""):
        import ssl

        self.id = id
        with open(key, "rb") as file:
            self.key = file.read()
        self.go_to(address)
        self.tls = ssl.create_default_context(cafile=certificate)
        self.tls.load_cert_chain(certificate, key)
        self.tls.check_hostname = False  # all of an application have this one certificate
        self.connection = None

    def go_to(self, address):
        host, _, port = address.rpartition(":")
        self.address = (host.strip("[]"), int(port))

    def is_expected(self, begun):
        """Whether another master is on its way, for as long as a container may wait for it.
        PermissionError if it would not know this one."""
        asks = ENV_WITNESS in os.environ and self.id
        said = ask_witness(self.id, key=self.key) if asks else None
        if said is None or time.monotonic() > begun + float(os.environ[ENV_WITNESS].split()[0]):
            return False
        if not said["may_live"]:
            raise PermissionError(0, "its master is lost, and another one has begun anew")
        if said["files"]:
            self.go_to(said["files"])
        return True

    def get(self, path, receive):
        """`receive(answer, own host)` for a GET of `path`. Repeated while the master cannot be
        reached; OSError when that lasts, or when it says no."""
        import http.client

        begun = time.monotonic()
        asks, expected = begun + ASK_EVERY, False
        while True:
            connection = self.connection or http.client.HTTPSConnection(
                *self.address, timeout=CALL_LIMIT, context=self.tls
            )
            self.connection = None
            try:
                connection.request("GET", path)
                own = connection.sock.getsockname()[0]
                answer = connection.getresponse()
                if answer.status == 503:  # it waits for them itself
                    begun = time.monotonic()
                    raise OSError(0, answer.read(1000).decode(errors="replace"))
                if answer.status != 200:
                    raise PermissionError(0, answer.read(1000).decode(errors="replace"))
                received = receive(answer, own)
                self.connection = connection
                return received
            except PermissionError:
                raise
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() > asks:
                    expected = self.is_expected(begun)
                    asks = time.monotonic() + ASK_EVERY
                if time.monotonic() > begun + PATIENCE and not expected:
                    raise OSError(0, f"its master cannot be reached: {error}") from error
                time.sleep(0.2)
            finally:
                if self.connection is None:
                    connection.close()

    def close(self):
        """Ends the connection. Another call makes a new one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def fetch(self, digest, path):
        """Writes the content with this SHA-256 to `path`, which appears whole or not at all."""
        partial = f"{path}.partial"

        def receive(answer, _):
            found = hashlib.sha256()
            with open(partial, "wb") as file:
                while chunk := answer.read(CHUNK):
                    found.update(chunk)
                    file.write(chunk)
            if found.hexdigest() != digest:  # cut off, or the file was changed
                raise OSError(0, "what came is not what was asked for")

        try:
            self.get(f"/files/{digest}", receive)
            os.rename(partial, path)
        finally:
            if os.path.exists(partial):
                os.unlink(partial)


def main(argv):
    """Becomes the container's script; or runs it, where it is to stay, and returns its exit code,
    as a shell has it."""
    address, id, certificate, key, root = argv
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))  # also as process 1
    try:
        master = MasterClient(address, certificate, key, id)
        folder, order = prepare(master, id, certificate, key, root)
        master.close()
        os.chdir(folder)
        environment = {**os.environ, **order["environment"]}
        if order["stay"]:
            return run(environment)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.execvpe("bash", ["bash", ".skein.sh"], environment)
    except (OSError, BadArchiveError, ValueError, KeyError) as error:
        print(f"{CANNOT_START}{getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return CANNOT_START_CODE


def run(environment):
    """Runs the script to its end. Says what its program returned; returns its exit code."""
    print(LOG_BEGINS, flush=True)
    process: subprocess.Popen[bytes] | None = None
    asked = False

    def end(*_):
        nonlocal asked
        asked = True
        if process is not None:
            process.terminate()
            if stopped(process.pid):  # it would never hear of it
                process.kill()

    signal.signal(signal.SIGTERM, end)
    process = script = subprocess.Popen(["bash", ".skein.sh"], env=environment)
    if asked:  # while it was started
        end()
    code = None
    while code is None:  # the handler of a signal that comes as a wait begins runs after it
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = script.wait(1.0)
    try:
        with open(os.path.join(environment["LOG_DIRS"], RETURNED_FILE), encoding="utf-8") as file:
            told = json.dumps(json.load(file), separators=(",", ":"))
        sys.stdout.write(RETURNED_LINE + told + "\n")
        sys.stdout.flush()
    except (OSError, ValueError, RecursionError):  # nothing, or a damaged file
        pass
    return code if code >= 0 else 128 - code


def stopped(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except OSError:  # it has ended
        return False


def prepare(master, id, certificate, key, root):
    """Makes the container's folder. Returns its path and what the master says of it."""
    attempt = os.urandom(8).hex()
    order, host = master.get(
        f"/containers/{id}?attempt={attempt}", lambda answer, own: (json.load(answer), own)
    )
    folder = os.path.join(root, id)
    os.makedirs(folder, 0o700)
    logs = os.environ.get("LOG_DIRS") or os.path.join(root, "logs")
    os.makedirs(logs, 0o700, exist_ok=True)
    for name, digest, archive in order["files"]:
        path = os.path.join(folder, name)
        master.fetch(digest, f"{path}.packed" if archive else path)
        if archive:
            unpack(f"{path}.packed", path)
            os.unlink(f"{path}.packed")
    shutil.copyfile(certificate, os.path.join(folder, ".skein.crt"))
    shutil.copyfile(key, os.path.join(folder, ".skein.pem"))
    with open(os.path.join(folder, ".skein.sh"), "w", encoding="utf-8") as file:
        file.write(order["script"])
    order["environment"].update(LOCAL_DIRS=root, LOG_DIRS=logs, PWD=folder)
    for name, value in (("NM_HOST", host), ("NM_PORT", "0"), ("NM_HTTP_PORT", "0")):
        order["environment"].setdefault(name, os.environ.get(name, value))
    return folder, order


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
