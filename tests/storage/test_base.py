import pytest

from tfapp.storage import base


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("s3://bucket/a/b", ("s3", "bucket", "a/b")),
        ("s3://bucket//a/ b%#é/", ("s3", "bucket", "a/ b%#é")),
        ("hdfs://host:8020", ("hdfs", "host:8020", "")),
        ("hdfs:///user/me", ("hdfs", "", "user/me")),
    ],
)
def test_a_url_is_scheme_host_and_name(path, parts):
    assert base.split(path) == parts


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FileNotFoundError("no such file"), (base.NOT_FOUND, "s3://b/a: no such file")),
        (IsADirectoryError("a folder"), (base.PRECONDITION, "s3://b/a: a folder")),
        (ConnectionError("cut"), (base.UNAVAILABLE, "s3://b/a: cut")),
        (RuntimeError("odd"), (base.UNKNOWN, "s3://b/a: RuntimeError: odd")),
        (base.Failed(base.DENIED, "no.", "Ask"), (base.DENIED, "s3://b/a: no. Ask")),
        (
            ModuleNotFoundError("No module named 'obstore'"),
            (
                base.UNIMPLEMENTED,
                "s3://b/a: No module named 'obstore'. "
                "Install the extra: pip install 'tfapp[storage]'",
            ),
        ),
    ],
)
def test_an_error_is_told_with_the_path(error, told):
    assert base.told(error, "s3://b/a") == told
