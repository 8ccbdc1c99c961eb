"""The list of applications, in several homes of one user, with a pretended ResourceManager and a
pretended `hadoop fs`."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from tests.compiler.packages import compile_with, package
from tests.engines.yarn.file_system import CACHE, URL, FileSystem
from tests.engines.yarn.test_verdict import REPORT
from tfapp.compiler.store import store_files
from tfapp.engines.definition import Definition, definition_file
from tfapp.engines.yarn.bundle import Bundle, decode
from tfapp.engines.yarn.layout import YarnCredentials, YarnHome
from tfapp.engines.yarn.register import KEPT, LOOK_EVERY, RECENT, SWEEP_EVERY, YarnRegister
from tfapp.errors import UnavailableError

SECRET = "correct horse battery staple"
WEEK_LATER = KEPT + 10


class ResourceManager:
    """YARN's reports of applications, oldest first."""

    def __init__(self):
        self.reports = []

    def applications(self, user, name=None):
        assert user == "ann"
        return tuple(report for report in self.reports if name in (None, report.name))

    def add(self, definition: Definition, ended: bool = True) -> str:
        found = dataclasses.replace(
            REPORT,
            id=f"application_1_{len(self.reports) + 1:04}",
            name=definition.name,
            tags=definition.tags,
            state="FINISHED" if ended else "RUNNING",
        )
        self.reports.append(found)
        return found.id

    def end(self) -> None:
        """Ends all that runs."""
        self.reports = [dataclasses.replace(found, state="KILLED") for found in self.reports]

    def kill(self, application):
        assert application in {found.id for found in self.reports}


class Somewhere:
    """One home of the user. A command is a new Register."""

    def __init__(self, files: FileSystem, manager: ResourceManager, name: str):
        self.files, self.manager, self.name = files, manager, name
        self.home = files.base / name
        self.now = os.path.getmtime(files.base)

    def register(self) -> YarnRegister:
        shared = self.files.shared_folder(f"{self.name}/yarn", self.now)
        home = YarnHome(self.home / "yarn")
        return YarnRegister(home, self.manager, shared, "ann", lambda: self.now)

    def create(self, name: str, ended: bool = True, queue: str = "default") -> Definition:
        """As the engine does."""
        compiled = compile_with(
            package(),
            name=name,
            queue=queue,
            cache=self.home / "cache",
            place=URL,
            secrets={"TOKEN": SECRET},
        )
        store_files(compiled.files)
        shared = self.files.shared_folder(f"{self.name}/yarn", self.now)
        definition = Definition.of(name, compiled)
        bundle = Bundle.of(definition)
        shared.put(
            {file.path.name: file.path for file in compiled.files if file.place},
            along={bundle.name: bundle.encode()},
        )
        shared.keep({bundle.name: bundle.encode()})
        application = self.manager.add(definition, ended)
        self.register().write(application, definition, YarnCredentials(b"certificate", b"key"))
        return definition

    def names(self) -> list[str]:
        return [found.name for found, _ in self.register().newest()]

    def destroy(self, name: str) -> None:
        register = self.register()
        register.destroy(register.known_runs(name))


@pytest.fixture
def files(tmp_path):
    return FileSystem(tmp_path)


@pytest.fixture
def manager():
    return ResourceManager()


@pytest.fixture
def here(files, manager):
    return Somewhere(files, manager, "here")


@pytest.fixture
def there(files, manager):
    return Somewhere(files, manager, "there")


def test_what_it_is_made_of_is_known_in_every_home(here, there, files, manager):
    made = here.create("app")
    register = there.register()
    files.calls()
    found = register.definition(register.runs("app"))
    assert [call.split()[0] for call in files.calls()] == ["-stat", "-cat"]
    assert found == made.with_files_in(there.home / "cache")
    assert not found.missing_files()
    assert {path.name for path in found.local_files()} == {p.name for p in made.local_files()}
    for path in found.local_files():
        assert path.read_bytes() == (here.home / "cache" / path.name).read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # It is started there; then it is known there too, and here no file has to be read.
    manager.add(found)
    assert here.register().definition(here.register().runs("app")) == made


@pytest.mark.parametrize("listed", [True, False])
def test_what_yarn_has_forgotten_is_destroyed_with_its_definition(
    here, there, files, manager, monkeypatch, listed
):
    made = here.create("app", ended=False)
    manager.reports = []
    assert (here.names(), there.names()) == (["app"], [])
    (run,) = here.register().runs("app")
    assert (run.state, run.ended, run.tags) == ("FORGOTTEN", True, made.tags)
    register = here.register()
    assert register.definition((run,)) == made
    if not listed:  # the file system answers too late
        monkeypatch.setattr(type(register._shared), "look", lambda self: None)
    here.destroy("app")
    assert here.names() == []
    assert [name for name in files.files() if name.endswith(".definition")] == []
    left = [path.name for path in here.home.glob("yarn/applications/*/*")]
    assert left == ["destroyed"]


def test_secrets_are_in_no_definition_and_no_tag(here, files):
    made = here.create("app")
    assert SECRET not in repr(made)
    (name,) = (name for name in files.files() if name.endswith(".definition"))
    (bundle,) = decode((files.folder / name).read_bytes())
    assert SECRET not in repr(bundle)
    assert [SECRET in text for _, text in sorted(bundle.files.items())].count(True) == 1
    kept = Path(here.home, "yarn/applications/application_1_0001/definition.json").read_text()
    assert SECRET not in kept


def test_an_application_without_a_definition_on_the_cluster(here, there, files):
    made = here.create("app")
    (files.folder / definition_file(made.tags)).unlink()
    register = there.register()
    assert register.definition(register.runs("app")) is None
    assert register.accepted(register.runs("app")[0], fetch=True).instances == ()
    for path in made.local_files():
        path.unlink()
    assert here.register().definition(here.register().runs("app")) is None


def test_instances_of_a_run_that_was_submitted_elsewhere(here, there, files):
    made = here.create("app", ended=False)
    register = there.register()
    (run,) = register.runs("app")
    files.calls()
    assert register.accepted(run, fetch=False).instances == ()
    assert files.calls() == []
    assert register.accepted(run, fetch=True).instances == made.instances
    assert [call.split()[0] for call in files.calls()] == ["-cat"]
    # It is kept.
    assert there.register().accepted(run, fetch=True).instances == made.instances
    assert files.calls() == []


def test_a_file_system_that_does_not_answer_hides_no_application(here, there, files):
    here.create("app")
    (files.base / "down").touch()
    register = there.register()
    (run,) = register.runs("app")
    assert register.accepted(run, fetch=True).instances == ()
    with pytest.raises(UnavailableError, match="the cluster's file system does not answer"):
        register.definition([run])
    with pytest.raises(UnavailableError, match="the cluster's file system does not answer"):
        there.destroy("app")
    assert there.names() == here.names() == ["app"]


def test_what_is_destroyed_is_gone_in_every_home(here, there, files):
    here.create("app")
    here.create("other")
    there.destroy("app")
    assert files.marks() == {"application_1_0001"}
    assert (there.names(), here.names()) == (["other"], ["other"])
    # What only it shipped is deleted in the home that created it as well: one job.
    assert len(list((here.home / "cache").glob("*.json"))) == 2
    # Hidden once, it costs nothing any more.
    files.calls()
    assert here.register().runs("app") == ()
    assert files.calls() == []


def test_what_runs_costs_no_look(here, files):
    here.create("app")
    here.create("app", ended=False)
    files.calls()
    assert [found.id[-1] for found in here.register().runs("app", fresh=True)] == ["1", "2"]
    assert files.calls() == []


def test_a_look_a_minute_is_enough_but_for_a_taken_name(here, there, files):
    here.create("app")
    assert here.names() == ["app"]
    there.destroy("app")
    files.calls()
    here.now += LOOK_EVERY
    assert here.names() == ["app"]
    assert files.calls() == []
    assert here.register().runs("app", fresh=True) == ()
    here.create("again")
    there.destroy("again")
    here.now += LOOK_EVERY + 1
    assert here.names() == []


def test_a_name_is_free_again_and_its_runs_begin_anew(here, there, manager):
    made = here.create("app")
    there.destroy("app")
    here.now += LOOK_EVERY + 1
    assert here.register().runs("app", fresh=True) == ()
    again = here.create("app")
    assert again == made
    there.now += LOOK_EVERY + 1
    ((found, number),) = there.register().newest()
    assert (found.id, number) == ("application_1_0002", 1)
    assert there.register().definition([found]) is not None


def test_its_newest_run_says_what_it_is_made_of(here, there):
    here.create("app")
    assert here.names() == ["app"]
    there.destroy("app")
    there.create("app", queue="batch")
    # Seen here within the minute: a run of what was destroyed, and one of what is.
    register = here.register()
    runs = register.runs("app")
    assert [run.id[-1] for run in runs] == ["1", "2"]
    assert register.definition(runs).spec["queue"] == "batch"


def test_archives_stay_for_a_while_and_definitions_do_not(here, there, files):
    here.create("app")
    archives = {name for name in files.files() if name.endswith(".zip")}
    there.destroy("app")
    assert files.files() == archives
    # The next one of the same files brings its definition alone.
    here.now += LOOK_EVERY + 1
    here.names()
    files.calls()
    here.create("next")
    (put,) = files.calls()
    assert put.startswith("-put ")
    assert put.endswith(f".definition {CACHE}/")
    here.destroy("next")
    assert files.files() == archives


def test_what_nothing_is_made_of_goes_after_a_week(here, there, files, manager):
    lasting = here.create("lasting", ended=False)
    here.create("app")
    (files.folder / "0a.tar.gz").touch()  # brought for an application that was never submitted
    there.now += WEEK_LATER
    # So that what there is in use has to be asked for.
    there.destroy("app")
    assert files.files() == {
        definition_file(lasting.tags),
        *(source.rpartition("/")[2] for source in lasting.sources() if "zip" in source),
    }
    manager.end()
    there.destroy("lasting")
    assert files.files() == set()


def test_nothing_goes_while_it_is_unknown_what_an_application_is_made_of(here, files, manager):
    manager.add(dataclasses.replace(here.create("old"), tags=("tfapp",)))
    made = here.create("app")
    (files.folder / "0a.tar.gz").touch()
    before = files.files()
    here.now += WEEK_LATER
    here.destroy("app")
    assert before - files.files() == {definition_file(made.tags)}


def test_who_destroys_nothing_keeps_what_can_be_started(here, files):
    made = here.create("app")
    kept = files.files()
    (files.folder / "0a.tar.gz").touch()
    here.now += WEEK_LATER
    here.names()
    assert files.files() == kept
    assert definition_file(made.tags) in kept
    # The next look comes a day later.
    (files.folder / "0b.tar.gz").touch()
    os.utime(files.folder / "0b.tar.gz", (0, 0))
    here.now += SWEEP_EVERY - 1
    here.names()
    assert files.files() == {*kept, "0b.tar.gz"}
    here.now += LOOK_EVERY + 1
    here.names()
    assert files.files() == kept


def test_it_goes_after_a_day_where_there_is_no_room(here, files, monkeypatch):
    here.create("app")
    kept = files.files()
    (files.folder / "0a.tar.gz").touch()
    here.now += RECENT + 10
    here.names()
    assert files.files() == {*kept, "0a.tar.gz"}
    monkeypatch.setattr("tfapp.engines.yarn.register.ROOM", 0)
    here.now += SWEEP_EVERY + 10
    here.names()
    assert files.files() == kept


def test_clusters_that_share_a_home_folder_leave_each_others_files_and_marks(here, there, files):
    """Those of `there` are of another cluster, and its record is beside the one of `here`."""
    theirs = ResourceManager()
    there.manager = theirs
    made = there.create("theirs")
    theirs.reports[0] = dataclasses.replace(theirs.reports[0], id="application_2_0001")
    there.create("destroyed")
    theirs.reports[1] = dataclasses.replace(theirs.reports[1], id="application_2_0002")
    there.destroy("destroyed")
    kept = files.files()
    assert definition_file(made.tags) in kept
    here.create("app")
    (record,) = (there.home / "yarn" / "places").iterdir()
    beside = here.home / "yarn" / "places" / "another-ann.json"
    beside.write_bytes(record.read_bytes())
    here.now += WEEK_LATER
    here.destroy("app")
    assert files.files() == kept
    there.now += LOOK_EVERY + 1
    assert there.names() == ["theirs"]
    assert "application_2_0002" in there.register()._shared.look().destroyed


def test_marks_of_what_yarn_has_forgotten_go(here, there, files, manager):
    here.create("app")
    here.create("other")
    there.destroy("app")
    del manager.reports[0]
    there.destroy("other")
    assert files.marks() == {"application_1_0002"}
