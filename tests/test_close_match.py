import pytest

from tfapp.close_match import close_match

KNOWN = (
    "site.global.run.mode", "site.global.user.scripts.entry", "site.global.app", "components",
    "minInstanceCount", "yarn.memory", "yarn.vcores", "worker", "chief",
)  # fmt: skip

MATCHES = [
    ("component", "components"),
    ("Components", "components"),
    ("min_instance_count", "minInstanceCount"),
    ("yarn.vcore", "yarn.vcores"),
    ("yarn.memory.mb", "yarn.memory"),
    ("memory", "yarn.memory"),
    ("site.global.run.mod", "site.global.run.mode"),
    ("site.global.user.script.entry", "site.global.user.scripts.entry"),
    ("cheif", "chief"),
    ("site.global.batch", ""),
    ("site.global.zzz", ""),
    ("yarn.gpus", ""),
    ("yarn.mem", "yarn.memory"),
    ("yarn.v", ""),
    ("site.global.user", "site.global.user.scripts.entry"),
    ("site.", ""),
    ("", ""),
]


@pytest.mark.parametrize(("word", "match"), MATCHES)
def test_the_likeliest_of_the_known_words(word, match):
    assert close_match(word, KNOWN) == match


def test_nothing_is_close_where_nothing_is_known():
    assert close_match("worker", ()) == ""
