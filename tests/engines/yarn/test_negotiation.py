"""A login at a page that Kerberos protects, by programs that answer as curl and kinit do."""

import pytest

from tfapp.engines.yarn.web import log_in

URL = "https://n1:8044/ws"
ANSWER = r"""printf 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Negotiate\r\n\r\n'
printf 'HTTP/1.1 200 OK\r\nSET-COOKIE: hadoop.auth="u=ann&s=x"; Path=/\r\n\r\n'"""


@pytest.fixture
def programs(tmp_path):
    """Makes the environment of a machine with these programs, which note their words in files."""

    def make(**scripts: str) -> dict[str, str]:
        for name, script in scripts.items():
            path = tmp_path / name
            note = f'printf "%s\\n" "$KRB5CCNAME" "$@" > {tmp_path}/{name}.words'
            path.write_text(f"#!/bin/sh\n{note}\n{script}\n")
            path.chmod(0o755)
        return {"PATH": str(tmp_path), "KRB5CCNAME": "/tickets/ann"}

    return make


def words(folder, program: str) -> list[str]:
    return (folder / f"{program}.words").read_text().split("\n")[:-1]


@pytest.mark.parametrize(
    ("proxy", "way"),
    [("", ["--noproxy", "*"]), ("http://p:3128", ["--proxy", "http://p:3128", "--noproxy", ""])],
)
def test_a_ticket_becomes_a_cookie(programs, tmp_path, proxy, way):
    assert log_in(URL, programs(curl=ANSWER), 5.0, proxy) == 'hadoop.auth="u=ann&s=x"'
    said = words(tmp_path, "curl")
    assert said[:5] == ["FILE:/tickets/ann", "-sS", "--negotiate", "--user", ":"]
    assert said[7 : 7 + len(way)] == way
    assert said[-1] == URL


@pytest.mark.parametrize(
    ("curl", "reason"),
    [
        (r"printf 'HTTP/1.1 403 GSSException: no ticket\r\n\r\n'", "403 GSSException: no ticket"),
        (r"printf 'HTTP/1.1 200 OK\r\nSet-Cookie: hadoop.auth=; Path=/\r\n\r\n'", "200 OK"),
        ("true", "it gave no reason"),
        ("echo 'curl: (7) Failed to connect' >&2; exit 7", "curl: (7) Failed to connect"),
        ("exit 1", "curl fails: exit code 1"),
        ("exec /bin/sleep 60", "curl fails: no answer within 1.1 s"),
    ],
)
def test_why_there_is_none(programs, monkeypatch, curl, reason):
    with pytest.raises(OSError) as raised:
        log_in(URL, programs(curl=curl), 0.1)
    assert str(raised.value) == reason


def test_a_key_that_is_refused(programs, tmp_path):
    keytab = tmp_path / "ann.keytab"
    keytab.touch()
    environ = programs(curl=ANSWER, kinit="echo 'kinit: no such key' >&2; exit 1")
    with pytest.raises(OSError, match="kinit: no such key"):
        log_in(URL, {**environ, "KRB5KEYTAB": str(keytab), "KRB5PRINCIPAL": "ann"}, 5.0)
    assert not (tmp_path / "curl.words").exists()
