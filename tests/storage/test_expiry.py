"""When credentials end, read from a file that Hadoop 3.4.2 wrote."""

import base64
import logging
import math

import pytest

from tests.lacking import needs_storage
from tfapp.storage import base, expiry, hdfs, objects

# Written by Credentials.writeTokenStorageFile: a token of HDFS of ann, whose maxDate is END, a
# token of YARN with a password of 200 bytes, and a secret key.
TOKENS = base64.b64decode(
    "SERUUwACDTEwLjAuMC4xOjgwMjAgAANhbm4EeWFybgVwcm94eYoBoh5q0TSKAaJCd1U0BwIUAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAVSERGU19ERUxFR0FUSU9OX1RPS0VODTEwLjAuMC4xOjgwMjAFb3RoZXIDAQIDj8gAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABBZQVJOX0FNX1JNX1RPS0"
    "VODTEwLjAuMC4xOjgwMzABBnNlY3JldAEB"
)
END = 1796411446.580
SESSION = {
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_SESSION_TOKEN": "t",
    "AWS_CREDENTIAL_EXPIRATION": "2026-12-04T19:10:46Z",
}
IN_WORDS = "2026-12-04 19:10 UTC"


@pytest.fixture
def tokens(tmp_path):
    """The variable of a file with them."""
    (tmp_path / "tokens").write_bytes(TOKENS)
    return {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")}


def test_the_end_of_the_tokens_of_hdfs(tokens):
    assert expiry.of_hdfs(tokens) == END
    assert f"HADOOP_TOKEN_FILE_LOCATION, which end at {IN_WORDS}" in hdfs.credentials(tokens)


def test_a_namenode_is_called_as_its_token_has_it(monkeypatch, tokens, tmp_path):
    """By its address, where the URL has a name; and else as the URL does."""
    hosts = {"namenode": "10.0.0.1", "other": "10.0.0.2"}

    def addresses(name, port, **_):
        if name not in hosts:
            raise OSError("unknown")
        return [(2, 1, 6, "", (found, int(port))) for found in ("10.0.0.9", hosts[name])]

    monkeypatch.setattr(hdfs.socket, "getaddrinfo", addresses)
    asked = ("namenode:8020", "other:8020", "10.0.0.1:8020", "nameservice", "no:8020")
    assert [hdfs.as_tokens_have_it(host) for host in asked] == list(asked)
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", tokens["HADOOP_TOKEN_FILE_LOCATION"])
    expected = ["10.0.0.1:8020", *asked[1:]]
    assert [hdfs.as_tokens_have_it(host) for host in asked] == expected
    # Of hdfs:///NAME, that of the settings.
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    site = "<configuration><property><name>fs.defaultFS</name><value>{}</value></property>"
    for value, found in {
        "hdfs://namenode:8020": "10.0.0.1:8020",
        "hdfs://other:8020/": "",
        "hdfs://nameservice": "",
        "viewfs://cluster": "",
    }.items():
        (tmp_path / "core-site.xml").write_text(f"{site.format(value)}</configuration>")
        assert hdfs.as_tokens_have_it("") == found


def test_where_its_tokens_have_ended_no_ticket_is_asked_for(monkeypatch, tokens):
    """hdfs-native leaves out tokens that end within a minute, and looks for a ticket."""
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", tokens["HADOOP_TOKEN_FILE_LOCATION"])
    store = hdfs.Hdfs()

    def call():
        raise RuntimeError("GSSAPIError: No Kerberos credentials available")

    for now, words in (
        (END - 3600, "Is there a ticket"),
        (END - 30, "start the application again"),
    ):
        monkeypatch.setattr(expiry.time, "time", lambda now=now: now)
        with pytest.raises(base.Failed, match=words) as caught:
            store.done(call)
        assert caught.value.code == base.UNAUTHENTICATED


def test_a_file_that_is_no_such_file_says_nothing(tmp_path):
    path = tmp_path / "tokens"
    environ = {"HADOOP_TOKEN_FILE_LOCATION": str(path)}
    cut = [TOKENS[:length] for length in range(len(TOKENS))]
    for content in (b"HDTS\1", b"HDTS\0" + b"\x8f" * 9, b"HDTS\0\x01" + b"\x80" * 20, *cut):
        path.write_bytes(content)
        assert expiry.of_hdfs(environ) in (math.inf, END)
    path.unlink()
    assert expiry.of_hdfs(environ) == expiry.of_hdfs({}) == math.inf


def test_the_end_of_a_session_of_aws():
    assert expiry.of_aws(SESSION) == int(END)
    assert f"whose session ends at {IN_WORDS};" in objects.credentials("s3://b/a", SESSION)
    for changes in ({"AWS_SESSION_TOKEN": ""}, {"AWS_CREDENTIAL_EXPIRATION": "soon"}):
        assert expiry.of_aws({**SESSION, **changes}) == math.inf


@needs_storage
@pytest.mark.parametrize(
    ("now", "told"), [(END - 25 * 3600, 0), (END - 23 * 3600, 1), (END + 60, 1)]
)
def test_a_store_tells_of_it_once_a_day_before(monkeypatch, caplog, tokens, now, told):
    monkeypatch.setattr(expiry.time, "time", lambda: now)
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", tokens["HADOOP_TOKEN_FILE_LOCATION"])
    with caplog.at_level(logging.WARNING):
        store = hdfs.Hdfs()
        for _ in range(3):
            store._at("hdfs://namenode:8020/a")
        assert [IN_WORDS in one.message for one in caplog.records] == [True] * told
        caplog.clear()
        store = objects.Objects(SESSION)
        for _ in range(3):
            store._at("s3://bucket/a")
    assert [IN_WORDS in one.message for one in caplog.records] == [True] * told
