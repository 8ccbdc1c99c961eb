import hashlib
import os

import pytest

from tfapp.disk import size_of, write_json
from tfapp.engines.definition import Definition
from tfapp.engines.tidying import EVERY, KEPT, RECENT, tidy
from tfapp.environment.unpacked import folder_of

NOW = 2.0e9
DAY = 24 * 3600.0
UNUSED = f"{hashlib.sha256(b'unused').hexdigest()}.zip"
SHIPPED = f"{hashlib.sha256(b'shipped').hexdigest()}.zip"


class Home:
    """A TFAPP_HOME, and what is in its cache."""

    def __init__(self, path):
        self.path = path
        self.environments = path / "cache" / "environments"
        self.environments.mkdir(parents=True)

    def file(self, name, age, size=10):
        path = self.path / "cache" / name
        path.write_bytes(bytes(size))
        os.utime(path, (NOW - age, NOW - age))
        return path

    def folder(self, name, age, size=10):
        path = self.environments / name
        (path / "lib").mkdir(parents=True)
        (path / "lib" / "file").write_bytes(bytes(size))
        os.utime(path, (NOW - age, NOW - age))
        return path

    def application(self, name, *files, running=False):
        """It is made of `files`."""
        about = {str(n): {"source": f"file://{path}"} for n, path in enumerate(files)}
        spec = {"name": name, "services": {"worker": {"files": about}}}
        folder = self.path / "apps" / name
        (folder / "runs" / "1" / ("containers" if running else "logs")).mkdir(parents=True)
        write_json(folder / "definition.json", Definition(name, "me", (), 0, (), spec))

    def left(self):
        cache = self.path / "cache"
        names = {path.name for folder in (cache, self.environments) for path in folder.iterdir()}
        return names - {"environments", ".lock", ".tidied"}


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_what_is_not_used_for_long_goes(home):
    home.file(UNUSED, KEPT + 1)
    home.file("private.key", 10 * KEPT)
    home.file("environments/0a1b.tar.gz", KEPT + 1)
    used = home.file("environments/2c3d.tar.gz", KEPT + 1)
    os.utime(used, (NOW - KEPT + 1, NOW - KEPT - 1))  # read, and not changed
    home.folder("a" * 24, KEPT + 1)
    home.folder("b" * 24, KEPT - 1)
    home.folder(f"tfapp-{'c' * 24}", KEPT + 1)
    home.folder("somebody's own", KEPT + 1)
    tidy(home.path, NOW)
    assert home.left() == {"private.key", used.name, "b" * 24, "somebody's own"}


def test_what_an_application_is_made_of_stays(home):
    """The folders that are unpacked from it, as long as the application runs."""
    shipped = home.file(SHIPPED, KEPT + 1)
    archive = home.file("environments/0a1b.tar.gz", KEPT + 1)
    folders = {
        home.folder(f"tfapp-{SHIPPED[:24]}", KEPT + 1).name,
        home.folder(folder_of(archive, home.environments).name, KEPT + 1).name,
    }
    home.application("mine", shipped, archive, running=True)
    tidy(home.path, NOW)
    assert home.left() == {SHIPPED, "0a1b.tar.gz", *folders}
    (home.path / "apps" / "mine" / "runs" / "1" / "containers").rmdir()
    tidy(home.path, NOW + EVERY)
    assert home.left() == {SHIPPED, "0a1b.tar.gz"}


def test_the_longest_unused_goes_first_when_there_is_no_room(home):
    for letter, age in zip("abcd", (9 * DAY, 5 * DAY, 7 * DAY, RECENT - 1)):
        home.folder(letter * 24, age, size=100_000)
    tidy(home.path, NOW, room=250_000)
    assert home.left() == {"b" * 24, "d" * 24}
    tidy(home.path, NOW + EVERY / 2, room=0)  # too early
    assert home.left() == {"b" * 24, "d" * 24}
    os.utime(home.environments / ("d" * 24), (NOW + EVERY, NOW + EVERY))
    tidy(home.path, NOW + EVERY, room=0)
    assert home.left() == {"d" * 24}


def test_where_it_is_not_known_what_is_needed_all_stays(home):
    home.folder("a" * 24, KEPT + 1)
    damaged = home.path / "apps" / "mine" / "definition.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    tidy(home.path, NOW)
    assert home.left() == {"a" * 24}


def test_without_a_cache_there_is_nothing_to_do(tmp_path):
    tidy(tmp_path / "none", NOW)
    assert size_of(tmp_path / "none") == 0
    assert list(tmp_path.iterdir()) == []


def test_the_size(home):
    home.file(SHIPPED, 0, size=5000)
    home.folder("a" * 24, 0, size=100_000)
    assert size_of(home.path / "cache" / SHIPPED) == 5000
    assert size_of(home.path / "cache") >= 105_000
