"""A name service of two NameNodes, and viewfs over it and the cluster's own HDFS."""

import pytest

from tests.clusters.yarn.conftest import program
from tests.clusters.yarn.namenodes import Pair
from tfapp.storage import base, folders, hdfs

PART = 3 << 20  # bytes: more than a writer keeps


@pytest.fixture
def pair(cluster, tmp_path, monkeypatch):
    """/other of its viewfs is a folder of the cluster's HDFS."""
    for name, value in cluster.variables().items():
        monkeypatch.setenv(name, value)
    other = f"{cluster.storage}/user/{program.user()}/mounted"
    hdfs.Hdfs().make_folder(other, parents=True)
    made = Pair(tmp_path / "pair", cluster.cache, other)
    try:
        made.start()
        for name, value in made.variables().items():
            monkeypatch.setenv(name, value)
        yield made
    finally:
        made.stop()


@pytest.mark.weekly
def test_a_lost_namenode_and_two_mount_points(pair, cluster):
    """What is being written then is whole, or an error and not seen; all else goes on at the other
    NameNode. What is below one mount point can be renamed there, and not to another."""
    store, top = hdfs.Hdfs(), "viewfs://cluster"
    folders.put(store, [b"kept"], f"{top}/pair/a b/kept")
    writer = store.writer(f"{top}/pair/a b/half", append=False)
    writer.append(b"x" * PART)
    pair.kill("one")
    pair.activate("two")
    names = ["half", "kept", "more"]
    try:
        writer.append(b"y" * PART)
        writer.close()
    except base.Failed as error:
        assert error.code == base.UNAVAILABLE
        names.remove("half")
    folders.put(store, [b"more"], f"{top}/pair/a b/more")
    for url in ("hdfs://pair/a b", f"{top}/pair/a b", "viewfs:///pair/a b"):
        assert store.children(url) == names
        assert folders.read(store, f"{url}/kept", 4) == b"kept"
    folders.put(store, [b"other"], f"{top}/other/file")
    store.rename(f"{top}/other/file", f"{top}/other/named")
    there = f"{cluster.storage}/user/{program.user()}/mounted/named"
    assert folders.read(hdfs.Hdfs(), there, 5) == b"other"
    with pytest.raises(base.Failed):
        store.rename(f"{top}/other/named", f"{top}/pair/named")
