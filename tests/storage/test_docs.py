"""The programs of docs/reading-data.md run as they stand, on a real S3 server."""

import pytest

from tests.lacking import needs_storage
from tests.storage import programs

pytestmark = needs_storage


@pytest.mark.trains
def test_the_programs_of_the_page(s3, tmp_path):
    programs.check_page("s3://bucket", {**s3, **programs.SECOND_OF_TWO}, tmp_path)
    environ = {**s3, "TF_USE_LEGACY_KERAS": "1"}  # as tfapp sets it
    done = programs.run("page", "s3://bucket", "1", environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Epoch 2/2" in done.stdout and done.stdout.count("25/25") == 2
