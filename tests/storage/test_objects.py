import pytest

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
