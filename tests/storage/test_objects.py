import pytest
from obstore import exceptions
from obstore.store import S3Store

from tests.storage import s3_server
from tests.tls import make_authority
from tfapp.storage import base, objects

LIMITS = {"client_options", "retry_config"}


def told(environ):
    options = objects.s3_options(environ)
    plain = options["client_options"]["allow_http"]
    return {key: value for key, value in options.items() if key not in LIMITS}, plain


def test_the_variables_of_aws_come_first():
    environ = {"AWS_ACCESS_KEY_ID": "a", "S3_ACCESS_KEY": "b", "S3_SECRET_KEY": "c"}
    assert told(environ) == ({"access_key_id": "a", "secret_access_key": "c"}, False)


@pytest.mark.parametrize(
    ("environ", "endpoint", "plain"),
    [
        ({"S3_ENDPOINT": "host:9000"}, "https://host:9000", False),
        ({"S3_ENDPOINT": "host:9000", "S3_USE_HTTPS": "0"}, "http://host:9000", True),
        ({"AWS_ENDPOINT_URL": "http://host"}, "http://host", True),
        (
            {"AWS_ENDPOINT_URL": "http://host", "AWS_ENDPOINT_URL_S3": "https://s3"},
            "https://s3",
            False,
        ),
    ],
)
def test_an_endpoint_has_a_scheme(environ, endpoint, plain):
    keys = {"AWS_ACCESS_KEY_ID": "a"}
    assert told({**environ, **keys}) == ({"access_key_id": "a", "endpoint": endpoint}, plain)


def test_without_variables_a_profile_is_read(tmp_path):
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "config").write_text("[default]\nregion=one\n[profile two]\nregion=two\n")
    (folder / "credentials").write_text(
        "[two]\naws_access_key_id=a\naws_secret_access_key=b\naws_session_token=c\n"
    )
    environ = {"HOME": str(tmp_path)}
    assert told(environ)[0] == {"region": "one"}
    two = {
        "access_key_id": "a",
        "secret_access_key": "b",
        "session_token": "c",
        "region": "two",
    }
    assert told({**environ, "AWS_PROFILE": "two"})[0] == two
    assert told({**environ, "AWS_WEB_IDENTITY_TOKEN_FILE": "f"})[0] == {}


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"AWS_ACCESS_KEY_ID": "v", "S3_ACCESS_KEY": "v", "S3_SECRET_KEY": "v"},
            "AWS_ACCESS_KEY_ID and S3_SECRET_KEY",
        ),
        ({"S3_ACCESS_KEY": "v"}, "S3_ACCESS_KEY and no secret key"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "v"}, "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ({"AWS_PROFILE": "one"}, "profile one in the files of AWS"),
        ({}, "none are set: the role of this machine, if it has one"),
    ],
)
def test_credentials_in_words(tmp_path, environ, words):
    (tmp_path / ".aws").mkdir()
    text = "[one]\naws_access_key_id=v\naws_secret_access_key=v\nregion=v\n"
    (tmp_path / ".aws" / "credentials").write_text(text)
    region = "the profile" if "profile" in words else "not set (us-east-1)"
    found = objects.credentials("s3://b", {"HOME": str(tmp_path), **environ})
    assert found == f"{words}; endpoint: not set (AWS's own); region: {region}"


def test_credentials_of_azure_in_words():
    assert objects.credentials("abfs://c@a", {}) == "no variable AZURE_... is set"
    given = {"AZURE_STORAGE_ACCOUNT_KEY": "v", "HOME": "/"}
    assert objects.credentials("abfs://c@a", given) == "AZURE_STORAGE_ACCOUNT_KEY"


REQUEST = (
    "Error performing GET http://h:403/timeout/NoSuchBucket/503 in 403.112µs, after 3 retries - "
)
XML = (
    f"{REQUEST}"
    'Server returned non-2xx status code: {}: <?xml version="1.0"?>\n'
    "<Error><Code>{}</Code><Message>Why.</Message><More>x</More></Error>  \n\nDebug source:\nX"
)


@pytest.mark.parametrize(
    ("status", "name", "code"),
    [
        ("404 Not Found", "NoSuchBucket", base.NOT_FOUND),
        ("404 Not Found", "NoSuchKey", base.NOT_FOUND),
        ("403 Forbidden", "SignatureDoesNotMatch", base.DENIED),
        ("412 Precondition Failed", "PreconditionFailed", base.ABORTED),
        ("503 Service Unavailable", "SlowDown", base.UNAVAILABLE),
        ("409 Conflict", "ObjectParentIsFile", base.PRECONDITION),
        ("301 Moved", "PermanentRedirect", base.PRECONDITION),
    ],
)
def test_an_answer_of_a_server_is_an_error_of_tensorflow(status, name, code):
    words = objects.words_of(XML.format(status, name))
    assert words == f"{REQUEST}Server returned non-2xx status code: {status}: {name}: Why"
    assert base.told(objects.answered(words), "s3://b/a")[0] == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (f"{REQUEST}HTTP error: error sending request", base.UNAVAILABLE),
        (
            "Error performing PUT http://169.254.169.254/latest/api/token in 1.5s - HTTP error",
            base.UNAUTHENTICATED,
        ),
        (f"{REQUEST}operation timed out", base.LATE),
        ("something else", base.UNKNOWN),
        ("Generic S3 error: URL did not match any known pattern for scheme: abfs", base.INVALID),
    ],
)
def test_no_answer_is_an_error_of_tensorflow(words, code):
    assert base.told(objects.answered(words), "s3://b/a")[0] == code


@pytest.fixture(scope="module")
def store(s3):
    return objects.Objects(s3)


@pytest.fixture
def copies(monkeypatch):
    """The names that the server was asked to copy."""
    asked, really = [], objects.call

    def call(function, *arguments, **more):
        if function == "copy":
            asked.append(arguments[1])
        return really(function, *arguments, **more)

    monkeypatch.setattr(objects, "call", call)
    return asked


def save(store, last, names, content):
    """What TensorFlow does with a file of a checkpoint."""
    writer = store.writer(names[0], append=False)
    writer.append(content)
    writer.close()
    for old, new in zip(names, [*names[1:], last]):
        store.rename(old, new)


def content_of(store, path):
    return store.source(path).read(0, store.stat(path).length)


# The names of a file of a checkpoint, without what they begin with: its last one, those before.
NAMES = [
    (".data-00000-of-00001", (".part-00000-of-00001.data-00000-of-00001",)),
    (".data-00000-of-00001", ("_temp/part-00000-of-00001.data-00000-of-00001",)),
    (".data-00000-of-00001", ("_temp_6f/part-00000-of-00001.data-00000-of-00001",)),
    (".part-00001-of-00002.data-00000-of-00001", ()),
    (".part-00000-of-00001.index", ()),
    (".index", ()),
]


@pytest.mark.parametrize(("last", "parts"), NAMES)
def test_a_new_file_of_a_checkpoint_is_sent_once(store, copies, last, parts):
    base_of = f"s3://bucket/new{NAMES.index((last, parts))}/ckpt-1"
    names = [f"{base_of}{part}" for part in parts]
    first = f"{names[0] if names else base_of + last}.tempstate123"
    save(store, base_of + last, [first, *names], b"new")
    assert content_of(store, base_of + last) == b"new"
    assert list(store.children(base_of.rpartition("/")[0])) == [f"ckpt-1{last}"]
    assert copies == []


@pytest.mark.parametrize(("last", "parts"), NAMES)
def test_one_that_is_there_is_replaced_by_the_last_rename(store, last, parts):
    base_of = f"s3://bucket/old{NAMES.index((last, parts))}/ckpt-1"
    names = [f"{base_of}{part}" for part in parts]
    names.insert(0, f"{names[0] if names else base_of + last}.tempstate123")
    save(store, base_of + last, ["s3://bucket/any"], b"old")
    save(store, names[-1], names[:-1] or ["s3://bucket/any"], b"new")
    assert content_of(store, base_of + last) == b"old"
    store.rename(names[-1], base_of + last)
    assert content_of(store, base_of + last) == b"new"
    assert list(store.children(base_of.rpartition("/")[0])) == [f"ckpt-1{last}"]


def test_parts_of_several_are_renamed_by_the_server(store, copies):
    """Which number a part gets is not known before."""
    base_of = "s3://bucket/several/ckpt-1"
    part = f"{base_of}.part-00000-of-00002.data-00000-of-00001"
    save(store, f"{base_of}.data-00001-of-00002", [f"{part}.tempstate1", part], b"new")
    assert content_of(store, f"{base_of}.data-00001-of-00002") == b"new"
    assert copies == [part.removeprefix("s3://bucket/")]


def test_what_the_server_does_not_copy_goes_through_this_machine(store, monkeypatch):
    really = objects.call

    def call(function, *arguments, **more):
        if function == "copy":
            raise base.Failed(base.UNKNOWN, "larger than the maximum allowable size")
        return really(function, *arguments, **more)

    save(store, "s3://bucket/a", ["s3://bucket/first"], b"content")
    monkeypatch.setattr(objects, "call", call)
    with pytest.raises(base.Failed):
        store.copy("s3://bucket/a", "s3://bucket/b")
    monkeypatch.setattr(objects, "MOST_COPIED", 6)
    store.copy("s3://bucket/a", "s3://bucket/b")
    assert content_of(store, "s3://bucket/b") == b"content"


def test_a_machine_without_certificates_of_authorities(monkeypatch, tmp_path):
    """As many images: obstore alone cannot begin there."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    (tmp_path / "none.pem").touch()
    with pytest.raises(exceptions.GenericError):
        S3Store("bucket")
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    found = objects.Objects(keys)._at("s3://bucket/name")
    assert (type(found[0]), found[1]) == (S3Store, "name")


@pytest.mark.slow
def test_a_server_with_a_certificate_of_an_authority_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(objects, "RETRY_LIMIT", 1)
    authority, certificate = make_authority(tmp_path)
    with s3_server.running(tmp_path / "s3", ("tests",), certificate=certificate) as environ:
        with pytest.raises(base.Failed, match="certificate is refused: UnknownIssuer") as failed:
            objects.Objects(environ).stat("s3://tests/a")
        assert "Set AWS_CA_BUNDLE to a file" in failed.value.hint
        trusting = objects.Objects({**environ, "AWS_CA_BUNDLE": str(authority)})
        writer = trusting.writer("s3://tests/a", append=False)
        writer.append(b"abc")
        writer.close()
        assert trusting.stat("s3://tests/a").length == 3
        with pytest.raises(base.Failed, match="AWS_CA_BUNDLE cannot be read: .*'/none'"):
            objects.Objects({**environ, "AWS_CA_BUNDLE": "/none"}).stat("s3://tests/a")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            "Generic MicrosoftAzure error: Error performing token request: code: 403",
            "AZURE_STORAGE",
        ),
        ("Error performing GET https://a.blob.core.windows.net/c - code: 403", "AZURE_STORAGE"),
        (f"{REQUEST}code: 403", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_the_credentials_that_are_named_are_those_of_the_store(words, named):
    hint = base.told(objects.answered(words), "")[1].partition("Credentials are ")[2]
    assert hint.startswith(named)
