"""The key pair of the user."""

import threading
import time

import pytest

from tfapp.disk import locked, make_private
from tfapp.engines import owner
from tfapp.engines.credentials import new_credentials
from tfapp.engines.owner import owner_certificate, owner_file
from tfapp.errors import UnavailableError


def test_it_is_made_once_and_nobody_else_reads_it(tmp_path):
    path = owner_file(tmp_path)
    made = path.read_bytes()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert owner_file(tmp_path).read_bytes() == made


def test_many_at_once_find_the_same_however_long_it_takes_to_make(tmp_path, monkeypatch):
    def slowly(now):
        time.sleep(0.2)
        return new_credentials(now)

    monkeypatch.setattr(owner, "new_credentials", slowly)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(owner_file(tmp_path).read_bytes()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_another_command_that_never_makes_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(owner, "LOCK_LIMIT", 0.1)
    with locked(make_private(tmp_path / "owner") / "lock", 0.0) as held:
        assert held
        with pytest.raises(UnavailableError, match="another command has been making"):
            owner_file(tmp_path)


def test_the_certificate_is_without_the_key(tmp_path):
    certificate = owner_certificate(tmp_path)
    assert certificate.startswith("-----BEGIN CERTIFICATE-----")
    assert "PRIVATE" not in certificate
    assert certificate.encode() in owner_file(tmp_path).read_bytes()


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\nMIIE"])
def test_a_damaged_one_is_told_and_how_to_get_a_new_one(tmp_path, content):
    path = owner_file(tmp_path)
    path.write_bytes(content)
    with pytest.raises(UnavailableError, match=f"{path} is damaged") as caught:
        owner_certificate(tmp_path)
    assert caught.value.hint.startswith("Remove it")
    path.unlink()
    assert "CERTIFICATE" in owner_certificate(tmp_path)


def test_a_home_where_it_cannot_be_is_told(tmp_path):
    (tmp_path / "owner").write_text("a file")
    with pytest.raises(UnavailableError):
        owner_file(tmp_path)
