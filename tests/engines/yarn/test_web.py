"""The answers of NodeManagers."""

from __future__ import annotations

import pytest

from tests.engines.yarn.test_nodes import FRAME
from tests.served import Quiet, served
from tests.tls import make_certificate
from tfapp.engines.yarn.nodes import LogPiece
from tfapp.engines.yarn.web import DeniedError, Web


def test_an_application_without_a_tracking_address_has_no_facts():
    with pytest.raises(OSError, match="does not lead to a ResourceManager"):
        Web({}).application("N/A", "application_1_0001")


@pytest.mark.parametrize("policy", ["HTTP_ONLY", "HTTPS_ONLY"])
def test_logs_are_read_as_the_cluster_shows_them(tmp_path, monkeypatch, policy):
    class Node(Quiet):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(FRAME % (7, b"line 1\n"))

    entry = f"<property><name>yarn.http.policy</name><value>{policy}</value></property>"
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{entry}</configuration>")
    context = make_certificate(tmp_path / "node.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "node.pem"))
    with served(Node, context if policy == "HTTPS_ONLY" else None) as node:
        web = Web({"HADOOP_CONF_DIR": str(tmp_path)})
        assert web.read_log(node, "c", "w.log", 9) == LogPiece(b"line 1\n", 7)
        if policy == "HTTPS_ONLY":
            with pytest.raises(OSError):
                Web({"HADOOP_CONF_DIR": "/nowhere"}).read_log(node, "c", "w.log", 9)


COOKIE = 'hadoop.auth="u=ann&s=x"'


@pytest.fixture
def pages():
    """Pages that Kerberos protects, but for /closed, which shows nothing to anybody. What was
    asked of them is in `asked`."""

    class Pages(Quiet):
        asked: list[str] = []

        def do_GET(self):
            self.asked.append(self.path)
            if self.path == "/closed":
                self.answer(403)
            elif self.headers["Cookie"] != COOKIE:
                self.answer(401, "WWW-Authenticate", "Negotiate")
            elif self.path == "/moved":
                self.answer(302, "Location", "/one")
            else:
                self.answer(200, "Date", "Sun, 22 Nov 2026 04:00:00 GMT")

        do_HEAD = do_GET

        def answer(self, code: int, *header: str) -> None:
            self.send_response_only(code)
            if header:
                self.send_header(*header)
            self.send_header("Content-Length", "4" if code == 200 else "0")
            self.end_headers()
            if code == 200 and self.command == "GET":
                self.wfile.write(b"true")

    with served(Pages) as address:
        yield address, Pages.asked


@pytest.fixture
def negotiating(tmp_path):
    """An environment whose programs curl and kinit do as told, and remember their calls."""

    def make(**scripts: str) -> dict[str, str]:
        for name, script in scripts.items():
            path = tmp_path / name
            path.write_text(
                f"#!/bin/sh -f\necho {name} $KRB5CCNAME $@ >> {tmp_path}/calls\n{script}\n"
            )
            path.chmod(0o755)
        return {"PATH": f"{tmp_path}", "KRB5CCNAME": "/tickets/ann"}

    return make


def says(status: str, cookie: str) -> str:
    return f"printf 'HTTP/1.1 {status}\r\nSet-Cookie: {cookie}; Path=/\r\n\r\n'"


def test_one_login_serves_all_later_questions(pages, negotiating, tmp_path):
    address, asked = pages
    web = Web(negotiating(curl=says("200 OK", COOKIE)))
    assert web.read_json(f"http://{address}/one") is True
    assert web.read_json(f"http://{address}/two") is True
    assert web.head(f"http://{address}/")["Date"] == "Sun, 22 Nov 2026 04:00:00 GMT"
    assert asked == ["/one", "/one", "/two", "/"]
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("curl FILE:/tickets/ann -sS --negotiate")


def test_a_page_that_leads_to_another_of_the_same_daemon(pages, negotiating):
    """As "/" of a NodeManager leads to "/node"."""
    address, asked = pages
    web = Web(negotiating(curl=says("200 OK", COOKIE)))
    assert web.head(f"http://{address}/moved")["Date"] == "Sun, 22 Nov 2026 04:00:00 GMT"
    assert asked == ["/moved", "/moved", "/one"]


def test_a_keytab_gets_a_ticket_of_its_own(pages, negotiating, tmp_path):
    keytab = tmp_path / "ann.keytab"
    keytab.touch()
    environ = negotiating(curl=says("200 OK", COOKIE), kinit="")
    web = Web({**environ, "KRB5KEYTAB": str(keytab), "KRB5PRINCIPAL": "ann"})
    assert web.read_json(f"http://{pages[0]}/one") is True
    kinit, curl = (line.split() for line in (tmp_path / "calls").read_text().splitlines())
    assert kinit[2:] == ["-k", "-t", str(keytab), "ann"]
    assert kinit[1] == curl[1] != "FILE:/tickets/ann"


@pytest.mark.parametrize(
    ("curl", "reason"),
    [
        ("echo 'curl: (2) no such option' >&2; exit 2", "curl: (2) no such option"),
        (says("401 Authentication required", "hadoop.auth="), "401 Authentication required"),
    ],
)
def test_a_login_that_fails_is_not_tried_again_at_once(pages, negotiating, tmp_path, curl, reason):
    web = Web(negotiating(curl=curl))
    for _ in range(2):
        with pytest.raises(DeniedError) as raised:
            web.get(f"http://{pages[0]}/one")
        assert str(raised.value) == f"{pages[0]} asks for Kerberos: {reason}"
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_without_curl(pages, negotiating):
    with pytest.raises(DeniedError, match="asks for Kerberos: curl cannot be run: it is not on"):
        Web(negotiating()).get(f"http://{pages[0]}/one")


def test_a_page_that_is_forbidden(pages):
    with pytest.raises(DeniedError, match="says 403 Forbidden"):
        Web({}).get(f"http://{pages[0]}/closed")


@pytest.fixture
def proxy():
    """The URL of a proxy that answers `true` itself, and the Cookie of each question."""
    cookies: list[str | None] = []

    class Proxy(Quiet):
        def do_GET(self):
            cookies.append(self.headers["Cookie"])
            protected = self.path.endswith("/protected")
            self.send_response(401 if protected else 200)
            if protected:
                self.send_header("WWW-Authenticate", "Negotiate")
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"true")

    with served(Proxy) as address:
        yield f"http://{address}", cookies


def test_the_proxy_of_the_environment_is_passed_by(
    pages, negotiating, proxy, monkeypatch, tmp_path
):
    address, cookies = proxy
    environ = {**negotiating(curl=says("200 OK", COOKIE)), "http_proxy": address}
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.delenv("no_proxy", raising=False)
    assert Web(environ).read_json(f"http://{pages[0]}/one") is True
    assert cookies == []
    assert " --noproxy * " in (tmp_path / "calls").read_text()


def test_a_host_that_is_not_there_says_how_a_proxy_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(OSError) as raised:
        Web({"HTTP_PROXY": "http://127.0.0.1:9"}).get("http://127.0.0.1:9/")
    assert str(raised.value) == (
        "Connection refused (hosts of the cluster are called directly; TFAPP_YARN_PROXY can name "
        "a proxy for them)"
    )
    with pytest.raises(OSError, match="Connection refused>$"):
        Web({}).get("http://127.0.0.1:9/")


def test_a_proxy_of_the_cluster_is_used_and_gets_no_login(negotiating, proxy, tmp_path):
    address, cookies = proxy
    environ = {**negotiating(curl=says("200 OK", COOKIE)), "TFAPP_YARN_PROXY": address}
    web = Web(environ)
    assert web.read_json("http://node.invalid:8042/open") is True
    with pytest.raises(DeniedError) as raised:
        web.get("http://node.invalid:8042/protected")
    assert "asks for Kerberos, and TFAPP_YARN_PROXY would get the login" in str(raised.value)
    assert cookies == [None, None]
    assert not (tmp_path / "calls").exists()
