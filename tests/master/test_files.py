"""Files from the master itself, asked for as a container does."""

import asyncio
import contextlib
import hashlib
import http.client
import json
import ssl
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import tfapp.standalone.bootstrap
from tfapp.contract.names import LOG_BEGINS
from tfapp.engines.credentials import new_credentials
from tfapp.errors import UnavailableError
from tfapp.master.files import FileServer
from tfapp.master.server import Endpoint
from tfapp.protocol.definition import messages
from tfapp.standalone.bootstrap import MasterClient

CERTIFICATE, KEY = new_credentials(time.time())


ENDPOINT = Endpoint("127.0.0.1", "127.0.0.1", CERTIFICATE, KEY)


def credentials(folder):
    """(certificate, key) as files."""
    (folder / "certificate").write_bytes(CERTIFICATE)
    (folder / "key").write_bytes(KEY)
    return folder / "certificate", folder / "key"


def container(script, granted=lambda host: True):
    task = SimpleNamespace(id="w_0", environment={}, service=messages.Service(script=script))
    return task, SimpleNamespace(granted=granted)


def ask(folder, granted, *paths):
    """The answers to a container that asks for `paths`, or its refusal."""
    credentials(folder)

    async def serve():
        with FileServer(ENDPOINT) as files, files.offering(*container("true", granted)):
            return await asyncio.to_thread(all_answers, files.address)

    def all_answers(address):
        master = MasterClient(address, folder / "certificate", folder / "key")
        return [answer(master, path) for path in paths]

    def answer(master, path):
        with contextlib.suppress(PermissionError):
            return master.get(path, lambda told, own: json.load(told)["script"])
        return "refused"

    return asyncio.run(serve())


def test_one_attempt_of_a_container_starts(tmp_path):
    """Others may ask for the same: Spark starts a failed task again by itself."""
    asked = "/containers/w_0?attempt="
    hosts = []
    paths = ("/containers/w_0", f"{asked}a", f"{asked}b", f"{asked}a", "/containers/w_1?attempt=a")
    answers = ask(tmp_path, lambda host: not hosts.append(host), *paths)
    assert answers == ["refused", "true", "refused", "true", "refused"]
    assert hosts == ["127.0.0.1"]


@pytest.mark.parametrize("path", ["/containers/w_0?attempt=a", "/containers/w_0"])
def test_a_container_that_was_killed_does_not_start(tmp_path, path):
    assert ask(tmp_path, lambda host: False, path) == ["refused"]


def test_a_file_that_a_master_before_has_named(tmp_path):
    """The container has its order from that one, and does not ask for it again."""
    file = messages.File(source=messages.Url(scheme="file", file=str(tmp_path / "data")))
    (tmp_path / "data").write_bytes(b"a" * 3_000_000)
    task, told = container("true")
    task.service.files["data"].CopyFrom(file)

    def fetch(address):
        master = MasterClient(address, *credentials(tmp_path))
        master.fetch(hashlib.sha256(b"a" * 3_000_000).hexdigest(), tmp_path / "fetched")
        with pytest.raises(PermissionError, match="there is no such container or file"):
            master.fetch(hashlib.sha256(b"b").hexdigest(), tmp_path / "other")

    async def serve():
        with FileServer(ENDPOINT) as files, files.offering(task, told):
            await asyncio.to_thread(fetch, files.address)

    asyncio.run(serve())
    assert (tmp_path / "fetched").stat().st_size == 3_000_000


class TestStay:
    """A container whose log is all that is left of it."""

    def start(self, folder, script):
        """Runs `script` as a container that stays; returns its process."""

        async def serve():
            with FileServer(ENDPOINT, stay=True) as files, files.offering(*container(script)):
                words = (files.address, "w_0", *credentials(folder), folder / "box")
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, tfapp.standalone.bootstrap.__file__, *map(str, words)),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
                first = await asyncio.wait_for(process.stdout.readline(), 300)
                first += await asyncio.wait_for(process.stdout.readline(), 300)
                if first.endswith(b"ready\n"):
                    process.terminate()
                rest, _ = await asyncio.wait_for(process.communicate(), 300)
                return process.returncode, (first + rest).decode()

        return asyncio.run(serve())

    def test_what_was_returned_is_said_in_the_log(self, tmp_path):
        value = '{"generation": 1,\n "value": "a b"}'
        script = f"echo at work\nprintf %s '{value}' > $LOG_DIRS/tfapp-returned.json\nexit 3"
        assert self.start(tmp_path, script) == (
            3,
            f'{LOG_BEGINS}\nat work\ntfapp: returned {{"generation":1,"value":"a b"}}\n',
        )

    def test_nothing_was_returned(self, tmp_path):
        assert self.start(tmp_path, "echo at work; kill -9 $$") == (137, f"{LOG_BEGINS}\nat work\n")

    def test_it_passes_the_signal_on(self, tmp_path):
        script = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        assert self.start(tmp_path, script) == (5, f"{LOG_BEGINS}\nready\ntold\n")


class TestUploads:
    """Files that are too large for a Secret."""

    CONTENT = b"x" * 3_000_000
    DIGEST = hashlib.sha256(CONTENT).hexdigest()
    OTHER = hashlib.sha256(b"y").hexdigest()

    def put(self, folder, *uploads, awaited=(DIGEST,), late=()):
        """(status, words) for each of `uploads`, (digest, content); and which were missing."""
        folder = folder / "files"
        folder.mkdir()
        seen = []

        async def changed(missing):
            seen.append(missing)

        async def serve():
            with FileServer(ENDPOINT) as files:
                receiving = asyncio.ensure_future(files.receive(awaited, folder, changed, 300))
                await asyncio.sleep(0)
                answers = [await asyncio.to_thread(one, files.address, *u) for u in uploads]
                await asyncio.wait_for(receiving, 300)
                answers += [await asyncio.to_thread(one, files.address, *u) for u in late]
                return answers

        def one(address, digest, content, length=None):
            tls = MasterClient(address, *credentials(folder.parent)).tls
            host, port = address.split(":")
            connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=60)
            try:
                connection.putrequest("PUT", f"/files/{digest}")
                if length != -1:
                    connection.putheader("Content-Length", str(length or len(content)))
                connection.endheaders()
                connection.send(content)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        answers = asyncio.run(serve())
        assert sorted(p.name for p in folder.iterdir()) == sorted(awaited)
        return answers, seen

    def test_a_file_that_is_waited_for(self, tmp_path):
        answers, seen = self.put(
            tmp_path,
            (self.DIGEST, self.CONTENT),
            (self.OTHER, b"y"),
            awaited=(self.DIGEST, self.OTHER),
        )
        assert answers == [(200, ""), (200, "")]
        assert seen == [tuple(sorted((self.DIGEST, self.OTHER))), (self.OTHER,), ()]
        assert (tmp_path / "files" / self.DIGEST).read_bytes() == self.CONTENT
        assert (tmp_path / "files" / self.DIGEST).stat().st_mode & 0o777 == 0o600

    def test_none_are_waited_for(self, tmp_path):
        answers, seen = self.put(tmp_path, awaited=(), late=[(self.OTHER, b"y")])
        assert answers == [(404, "no file is waited for")]
        assert seen == [()]

    def test_others_damaged_ones_and_those_without_a_length(self, tmp_path):
        answers, _ = self.put(
            tmp_path,
            (self.OTHER, b"y"),
            ("../../etc", b"y"),
            (self.DIGEST, b"y"),
            (self.DIGEST, b"", -1),
            (self.DIGEST, self.CONTENT),
        )
        assert answers == [
            (404, "no such file is waited for"),
            (404, "no such file is waited for"),
            (400, f"its SHA-256 is {self.OTHER}"),
            (411, "it has no Content-Length"),
            (200, ""),
        ]

    def test_nothing_comes(self, tmp_path):
        async def changed(missing):
            assert missing == (self.DIGEST,)

        async def serve():
            with FileServer(ENDPOINT) as files:
                await files.receive([self.DIGEST], tmp_path, changed, 0.2)

        with pytest.raises(UnavailableError, match="did not come: nothing was heard for 0.2 s"):
            asyncio.run(serve())

    def test_one_without_credentials_is_not_heard(self, tmp_path):
        async def serve():
            with FileServer(ENDPOINT) as files:
                host, port = files.address.split(":")
                tls = ssl.create_default_context(cadata=CERTIFICATE.decode())
                tls.check_hostname = False
                connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=60)
                with contextlib.closing(connection):
                    await asyncio.to_thread(connection.request, "PUT", f"/files/{self.OTHER}", b"y")
                    await asyncio.to_thread(connection.getresponse)

        with pytest.raises((ssl.SSLError, ConnectionError)):
            asyncio.run(serve())
