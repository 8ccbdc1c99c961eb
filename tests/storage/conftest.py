import sys

import pytest

from tests.storage import s3_server

# It imports a library that exists from Python 3.10 on.
collect_ignore = [] if sys.version_info >= (3, 10) else ["test_objects.py"]


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """The variables of a program that uses an S3 server, which has the bucket "bucket"."""
    with s3_server.running(tmp_path_factory.mktemp("s3") / "buckets", ("bucket",)) as environ:
        yield environ
