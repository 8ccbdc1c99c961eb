import pytest

from tfapp.engines.base import StoredFile
from tfapp.engines.checkpoint_folder import FolderCheckpoints, UrlCheckpoints
from tfapp.engines.yarn.checkpoints import HadoopCheckpoints, checkpoints_of, parse_listing
from tfapp.errors import NotFoundError, UnavailableError

LISTING = """Found 3 items
drwx------   - ann users          0 2026-11-22 10:00 hdfs://n1:9000/saved/app/export
-rw-------   3 ann users       2048 2026-11-22 10:01 hdfs://n1:9000/saved/app/export/a b.pb
-rw-r--r--   1 ann users          7 2026-11-22 10:01 hdfs://n1:9000/saved/app/checkpoint
"""


@pytest.mark.parametrize(
    "place", ["hdfs://n1:9000/saved/app", "hdfs:///saved/app", "hdfs:/saved/app/"]
)
def test_files_of_a_listing(place):
    found = (StoredFile("checkpoint", 7), StoredFile("export/a b.pb", 2048))
    assert parse_listing(LISTING, place) == found
    assert parse_listing(LISTING.replace("hdfs://n1:9000", ""), place) == found


def test_which_reads_it(tmp_path):
    (tmp_path / "app").mkdir()
    assert isinstance(checkpoints_of("app", "hdfs://n1/saved/app", {}), HadoopCheckpoints)
    # Hadoop has a client of sftp, too.
    assert isinstance(checkpoints_of("app", "sftp://n1/app", {}), HadoopCheckpoints)
    assert isinstance(checkpoints_of("app", "sftp://n1/app", {}, "sftp"), UrlCheckpoints)
    assert isinstance(checkpoints_of("app", f"{tmp_path}/app", {}), FolderCheckpoints)
    assert isinstance(checkpoints_of("app", f"file://{tmp_path}/app", {}), FolderCheckpoints)
    with pytest.raises(NotFoundError, match="has no checkpoint folder that outlives"):
        checkpoints_of("app", "", {})
    with pytest.raises(UnavailableError, match="of the cluster's nodes, and this machine does not"):
        checkpoints_of("app", f"{tmp_path}/none/app", {})
