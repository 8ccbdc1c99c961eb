import os
import threading
import traceback

import pytest

from tests.lacking import needs_storage
from tfapp.storage import base, hdfs


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("org.apache.hadoop.security.AccessControlException: denied", base.DENIED),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: full", base.EXHAUSTED),
        ("org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException: x", base.ABORTED),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException: x", base.UNAVAILABLE),
        ("IO error occurred: Connection refused (os error 111)", base.UNAVAILABLE),
        ("org.apache.hadoop.security.token.SecretManager$InvalidToken: x", base.UNAUTHENTICATED),
        (
            "KMS HTTP error: error sending request for url (http://127.0.0.1:1/kms)",
            base.UNAVAILABLE,
        ),
        ("KMS request failed (403 Forbidden): AuthorizationException User:ann", base.DENIED),
        ("in an HDFS encryption zone but no KMS provider is configured", base.PRECONDITION),
        ("PathIsNotEmptyDirectoryException: `/a is non empty'", base.PRECONDITION),
        ("odd", base.UNKNOWN),
    ],
)
def test_an_answer_of_hdfs_is_an_error_of_tensorflow(words, code):
    error = hdfs.answered(RuntimeError(f"{words}\n\tat org.apache.X.y(X.java:1)\n\tat z"))
    found, text = base.told(error, "hdfs://h/a")
    assert found == code
    assert "X.java" not in text and text.startswith("hdfs://h/a: ")


def test_a_token_of_the_kms_is_not_told():
    """It is in the URL that hdfs-native tells."""
    url = "http://127.0.0.1:1/kms/v1/keyversion/of-zone%400/_eek?eek_op=decrypt&delegation=SECRET"

    def call():
        raise RuntimeError(
            f'OperationFailed("KMS HTTP error: error sending request for url ({url})")'
        )

    with pytest.raises(base.Failed, match=r"delegation=\.\.\.\)") as caught:
        hdfs.Hdfs().done(call)
    assert "SECRET" not in "".join(traceback.format_exception(caught.type, caught.value, caught.tb))


def test_without_a_ticket_tokens_are_not_for_a_zone(monkeypatch):
    def call():
        raise RuntimeError('GSSAPIError(GssMajorCodes { routine_error: "GSS_S_NO_CRED" })')

    with pytest.raises(base.Failed, match=r"Is there a ticket \(klist\)"):
        hdfs.Hdfs().done(call)
    monkeypatch.setattr(hdfs.expiry, "tokens_of_hdfs", lambda environ: [("10.0.0.1:8020", 2e9)])
    with pytest.raises(base.Failed, match="it is a file in an encryption zone") as caught:
        hdfs.Hdfs().done(call)
    assert caught.value.code == base.UNAUTHENTICATED


def test_a_token_that_has_ended_is_told_with_what_to_do():
    words = "SecretManager$InvalidToken: token (token for ann: HDFS_DELEGATION_TOKEN) is expired"
    code, text = base.told(hdfs.answered(RuntimeError(words)), "hdfs://h/a")
    assert code == base.UNAUTHENTICATED
    assert "by default after 7 days" in text and "start the application again" in text


@needs_storage
def test_a_url_without_an_address_needs_settings(monkeypatch):
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(base.Failed, match=r"No fs.defaultFS .* HADOOP_CONF_DIR .* core-site.xml"):
        hdfs.Hdfs().stat("hdfs:///a")


@needs_storage
def test_a_mount_table_without_a_fallback_is_told_with_what_to_do(monkeypatch, tmp_path):
    link = "<name>fs.viewfs.mounttable.cluster.link./a</name><value>hdfs://127.0.0.1:1/</value>"
    site = tmp_path / "core-site.xml"
    site.write_text(f"<configuration><property>{link}</property></configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(base.Failed, match=r"needs fs\.viewfs\.mounttable\.NAME\.linkFallback in"):
        hdfs.Hdfs().stat("viewfs://cluster/a/b")


def test_no_error_has_the_lines_of_java():
    error = FileNotFoundError("Parent directory doesn't exist: /a\n\tat org.apache.X.y(X.java:1)")
    found = hdfs.answered(error)
    assert (type(found), str(found)) == (FileNotFoundError, "Parent directory doesn't exist: /a")


def test_a_call_that_is_late_is_an_error():
    answer = threading.Event()
    with pytest.raises(base.Failed, match="no answer from HDFS within 0.05 s") as caught:
        hdfs.Hdfs(limit=0.05).done(answer.wait)
    answer.set()
    assert caught.value.code == base.LATE


def test_a_call_gives_its_result_or_its_error():
    store = hdfs.Hdfs()
    assert store.done(lambda: 7) == 7
    with pytest.raises(FileNotFoundError):
        store.done(lambda: os.stat("/none"))


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"HADOOP_TOKEN_FILE_LOCATION": "v", "KRB5CCNAME": "v", "HADOOP_CONF_DIR": "v"},
            "the tokens in the file of HADOOP_TOKEN_FILE_LOCATION; settings: HADOOP_CONF_DIR",
        ),
        (
            {"KRB5CCNAME": "v", "HADOOP_HOME": "v"},
            "the tickets of KRB5CCNAME; settings: HADOOP_HOME",
        ),
        (
            {"HADOOP_USER_NAME": "v"},
            "no ticket and no tokens: the name of HADOOP_USER_NAME; settings: none",
        ),
        ({}, "no ticket and no tokens: the name of this user; settings: none"),
    ],
)
def test_credentials_in_words(monkeypatch, environ, words):
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    assert hdfs.credentials(environ) == words


def test_the_tickets_of_this_user(monkeypatch):
    monkeypatch.setattr(os.path, "exists", lambda path: path == f"/tmp/krb5cc_{os.getuid()}")
    assert hdfs.credentials({}) == "the Kerberos tickets of this user; settings: none"
