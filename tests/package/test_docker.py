"""Texts about Docker containers."""

import pytest

from tfapp.contract.job import Mount
from tfapp.package.docker import CLOSE_THE_QUOTE, DockerError, parse_mounts, parse_options


@pytest.mark.parametrize(
    ("text", "mounts"),
    [
        ("", ()),
        ("/a", (Mount("/a", "/a"),)),
        ("/a:ro", (Mount("/a", "/a", True),)),
        (" /a:/b:ro , /c:/d:rw ", (Mount("/a", "/b", True), Mount("/c", "/d"))),
        ("${site.global.x}/a:/b", (Mount("${site.global.x}/a", "/b"),)),
    ],
)
def test_mounts(text, mounts):
    assert parse_mounts(text) == mounts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "'a' is no mount: 'a' is not an absolute path"),
        ("/a:b", "'/a:b' is no mount: 'b' is not an absolute path"),
        ("/a:/b:rx", "'/a:/b:rx' is no mount"),
        ("/a/../b", "'/a/../b' is no mount: '/a/../b' holds '..'"),
        ("/:/host", "'/:/host' would give the program the whole machine"),
        ("/a:/", "'/a:/' would hide the image"),
    ],
)
def test_what_is_no_mount(text, message):
    with pytest.raises(DockerError) as caught:
        parse_mounts(text)
    assert caught.value.message == message


def test_options():
    text = "--shm-size=64MB --ipc host --ulimit nofile=1:2 --ulimit core=0 --tmpfs /t:size=1m"
    text += " --cap-drop NET_RAW --cap-drop ALL --cgroup-parent=/hadoop-yarn/training"
    assert parse_options(text) == {
        "shm_size": 64 << 20,
        "ipc": "host",
        "ulimits": {"nofile": (1, 2), "core": (0, 0)},
        "tmpfs": {"/t": "size=1m"},
        "cap_drop": ("NET_RAW", "ALL"),
        "cgroup_parent": "/hadoop-yarn/training",
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "-v /:/host",
            "the option -v is not supported",
            "declare it in 'mounts'",
        ),
        (
            "--privileged",
            "the option --privileged is not supported",
            "a program gets no more rights than its user has",
        ),
        (
            "--nonsense 3",
            "the option --nonsense is not supported",
            "the options that can be given are --shm-size, --ipc, --ulimit, --tmpfs, --cap-drop, "
            "--cgroup-parent",
        ),
        ("--shm-size", "the option --shm-size needs a value", "write --shm-size VALUE"),
        ("--shm-size big", "--shm-size: 'big' is no size", "write it as in --shm-size 2g"),
        ("--ipc container:x", "--ipc: 'container:x' is not supported", "it is host or private"),
        ("--ulimit 7", "--ulimit: '7' is no limit", "write it as in --ulimit nofile=1024:4096"),
        ("'", "the options cannot be split into words: No closing quotation", CLOSE_THE_QUOTE),
    ],
)
def test_what_is_no_option(text, message, hint):
    with pytest.raises(DockerError) as caught:
        parse_options(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)
