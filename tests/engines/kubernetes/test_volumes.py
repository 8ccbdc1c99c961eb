import pytest

from tfapp.engines.kubernetes.volumes import Volume, VolumeError, holding, objection, parse_volumes

VOLUMES = {
    "pvc:data:/data": Volume("pvc", "data", "/data"),
    "pvc:data/a/b:/data/:ro": Volume("pvc", "data", "/data", "a/b", read_only=True),
    "hostPath:/srv:/data": Volume("hostPath", "/srv", "/data"),
    "nfs:files.example.org:/export:/data": Volume("nfs", "files.example.org", "/data", "/export"),
    "emptyDir:/data": Volume("emptyDir", "", "/data"),
    "emptyDir:1GiB:/data": Volume("emptyDir", "1073741824", "/data"),
    "memory:64k:/dev/shm": Volume("memory", "65536", "/dev/shm"),
    "secret:token:/data": Volume("secret", "token", "/data", read_only=True),
    "configMap:settings:/data": Volume("configMap", "settings", "/data", read_only=True),
}


@pytest.mark.parametrize("word", VOLUMES)
def test_a_volume_is_read(word):
    assert parse_volumes([word]) == (VOLUMES[word],)


SHAPES = (
    "write pvc:CLAIM:/PATH, hostPath:/HOSTPATH:/PATH, nfs:SERVER:/EXPORT:/PATH, "
    "secret:NAME:/PATH, configMap:NAME:/PATH, emptyDir:/PATH or emptyDir:SIZE:/PATH, "
    "memory:SIZE:/PATH; at its end :ro"
)
WRONG = {
    "disk:data:/data": ("'disk:data:/data' is no volume", SHAPES),
    "pvc:data": ("'pvc:data' is no volume", "write pvc:CLAIM:/PATH; at its end :ro"),
    "nfs:server:/data": (
        "'nfs:server:/data' is no volume",
        "write nfs:SERVER:/EXPORT:/PATH; at its end :ro",
    ),
    "pvc::/data": ("'pvc::/data' is no volume: a name is missing", "write pvc:CLAIM:/PATH"),
    "memory::/data": ("'memory::/data' is no volume: a name is missing", "write memory:SIZE:/PATH"),
    "pvc:data:data": (
        "'pvc:data:data' is no volume: 'data' is not an absolute path",
        "write the whole path, beginning with /",
    ),
    "hostPath:srv:/data": (
        "'hostPath:srv:/data' is no volume: 'srv' is not an absolute path",
        "write the whole path, beginning with /",
    ),
    "pvc:data:/a/../b": (
        "'pvc:data:/a/../b' is no volume: '/a/../b' holds '..'",
        "write it without",
    ),
    "pvc:data/../b:/b": (
        "'pvc:data/../b:/b' is no volume: '../b' leaves the claim",
        "write it without",
    ),
    "emptyDir:much:/data": (
        "'emptyDir:much:/data' is no volume: 'much' is no size",
        "write it as 10GiB",
    ),
    "pvc:data:/": ("'pvc:data:/' would hide tfapp or the image", "give it another path"),
    "pvc:data:/tfapp/work": (
        "'pvc:data:/tfapp/work' would hide tfapp or the image",
        "give it another path",
    ),
}


@pytest.mark.parametrize("word", WRONG)
def test_what_is_no_volume_is_told(word):
    with pytest.raises(VolumeError) as caught:
        parse_volumes([word])
    assert (caught.value.message, caught.value.hint) == WRONG[word]


def test_two_volumes_at_one_path():
    with pytest.raises(VolumeError, match="two volumes have the path /data"):
        parse_volumes(["pvc:a:/data", "emptyDir:/data/"])


def pod(*volumes, **more):
    """A pod with these volumes, by their words."""
    parsed = parse_volumes(volumes)
    names = [f"v{n}" for n in range(len(parsed))]
    container = {"name": "tfapp", "volumeMounts": [*map(Volume.volume_mount, parsed, names)]}
    return {"spec": {"containers": [container],
                     "volumes": [*map(Volume.manifest, parsed, names)], **more}}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/mnt", "v0"), ("/mnt/x/y", "v0"), ("/mnt/deep/er", "v1"), ("/mnt/deeper", "v0"),
        ("/mntx", None), ("/", None), ("/mnt/./deep/../x", "v0"),
    ],
)  # fmt: skip
def test_the_volume_that_a_path_lies_in(path, name):
    found = holding(pod("pvc:a:/mnt", "pvc:b:/mnt/deep"), "tfapp", path)
    assert (found and found[0]["name"]) == name


CLAIMS = {"once": ["ReadWriteOnce"], "many": ["ReadWriteOnce", "ReadWriteMany"]}
READS = "is the claim once, whose access mode is ReadWriteOnce"
# Volume, more than one instance -> (the end of the objection, whether it is certain).
OBJECTIONS = {
    ("pvc:once:/m", False): None,
    ("pvc:once:/m", True): (READS, True),
    ("pvc:many:/m", True): None,
    ("pvc:unknown:/m", True): None,
    ("pvc:many:/m:ro", False): ("is read-only", True),
    ("nfs:server:/x:/m", True): None,
    ("hostPath:/x:/m", False): None,
    ("hostPath:/x:/m", True): ("is a hostPath: each node has one of its own", False),
    ("emptyDir:/m", False): ("is an emptyDir, which ends with its pod", False),
    ("emptyDir:/m", True): ("is an emptyDir: each instance has one of its own", True),
    ("memory:1g:/m", True): ("is an emptyDir: each instance has one of its own", True),
    ("secret:x:/m", False): ("is read-only", True),
}


@pytest.mark.parametrize(("word", "many"), OBJECTIONS)
def test_where_checkpoints_do_not_belong(word, many):
    found = holding(pod(word), "tfapp", "/m/checkpoints")
    assert found is not None
    told = objection(*found, many=many, claims=CLAIMS)
    expected = OBJECTIONS[word, many]
    if expected is None:
        assert told is None
    else:
        assert told is not None
        assert (told[0], told[2]) == (f"/m of the pods {expected[0]}", expected[1])


def test_a_config_map_cannot_be_written():
    volume, mount = {"name": "v", "configMap": {"name": "x"}}, {"name": "v", "mountPath": "/m"}
    told = objection(volume, mount, many=False, claims={})
    assert told is not None
    assert told[0] == "/m of the pods is a configMap, which cannot be written"
