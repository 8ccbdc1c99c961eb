import pytest

from tfapp.engines.yarn.configuration import manager_addresses, read_configuration


def write(folder, name, **values):
    entries = "".join(
        f"<property><name>{key.replace('_', '.')}</name><value>{value}</value></property>"
        for key, value in values.items()
    )
    (folder / name).write_text(f"<configuration>{entries}</configuration>")


def test_references_are_filled_in(tmp_path):
    write(tmp_path, "core-site.xml", fs_defaultFS="hdfs://${name.of.host}:1", name_of_host="a")
    write(tmp_path, "yarn-site.xml", name_of_host=" b ", loop="${loop}", other="${unknown}")
    assert read_configuration({"HADOOP_CONF_DIR": str(tmp_path)}) == {
        "fs.defaultFS": "hdfs://b:1",
        "name.of.host": "b",
        "loop": "${loop}",
        "other": "${unknown}",
    }


def test_files_that_cannot_be_read_set_nothing(tmp_path):
    (tmp_path / "core-site.xml").write_text("<configuration>")
    assert read_configuration({"YARN_CONF_DIR": str(tmp_path)}) == {}


@pytest.mark.parametrize(
    ("values", "addresses"),
    [
        ({"webapp.address": "a:1"}, ["http://a:1"]),
        ({"hostname": "a"}, ["http://a:8088"]),
        ({"webapp.https.address": "a:2", "http.policy": "HTTPS_ONLY"}, ["https://a:2"]),
        (
            {"ha.rm-ids": "x, y", "hostname.x": "a", "webapp.address.y": "b:1"},
            ["http://a:8088", "http://b:1"],
        ),
        ({}, []),
    ],
    ids=["address", "host", "https", "two-managers", "nothing"],
)
def test_addresses(values, addresses):
    keys = {
        f"yarn.{key}" if key == "http.policy" else f"yarn.resourcemanager.{key}": value
        for key, value in values.items()
    }
    assert list(manager_addresses(keys)) == addresses
