"""Azure's store, as its emulator Azurite has it: where the program `azurite-blob` is on PATH
(`npm install -g azurite`; 3.35.0 was tried). Too large for CI."""

import base64
import contextlib
import hashlib
import hmac
import http.client
import os
import shutil
import socket
import subprocess
from email.utils import formatdate

import pytest

from tests.lacking import needs_storage
from tests.storage import programs
from tests.waiting import wait
from tfapp.storage import check

pytestmark = needs_storage

# Both are in Azurite's documentation, and the same for everybody.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-08-06"  # of the interface


def url(container, name):
    return f"abfs://{container}@{ACCOUNT}.dfs.core.windows.net/{name}"


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    """The variables of a program that is to use it. It has the container "tests"."""
    if shutil.which("azurite-blob") is None:
        pytest.skip("this machine has no Azurite")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("azurite")
    flags = ("--silent", "--skipApiVersionCheck", "--disableTelemetry")
    command = ["azurite-blob", "--blobPort", str(port), "--location", str(folder), *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            wait(lambda: answers(port), "Azurite does not answer", 60)
            make_container(port, "tests")
            place = {"AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}"}
            yield {**place, "AZURE_STORAGE_USE_EMULATOR": "true"}
        finally:
            server.kill()


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def make_container(port, name):
    """As Azure's "Authorize with Shared Key" has it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    lines = [f"{key}:{value}" for key, value in headers.items()]
    signed = ["PUT", *[""] * 11, *lines, f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"]
    code = hmac.digest(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(code).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
    assert connection.getresponse().status == 201
    connection.close()


@pytest.mark.trains
def test_all_that_tensorflow_does_with_files_works(azure):
    programs.check_operations(url("tests", "operations"), azure)


def test_doctor_checks_it(azure, monkeypatch):
    for name, value in azure.items():
        monkeypatch.setenv(name, value)
    found = list(check.check(url("tests", "folder"), os.environ))
    assert [failed for _, _, failed in found] == [None] * 7


@pytest.mark.parametrize(
    ("container", "changes", "words", "hint"),
    [
        ("none", {}, "ContainerNotFound", "Make the container first, or correct its name."),
        ("tests", {"AZURE_STORAGE_ACCOUNT_KEY": "eA=="}, "AuthorizationFailure", "Credentials"),
    ],
)
def test_what_is_wrong_and_what_to_do(azure, monkeypatch, container, changes, words, hint):
    for name, value in {**azure, **changes}.items():
        monkeypatch.setenv(name, value)
    _, (step, _, failed) = check.check(url(container, "folder"), os.environ, limit=120)
    assert step == "write"
    assert words in failed.words
    assert failed.hint.startswith(hint)
