"""The rules by which containers come and go, without processes."""

import pytest

from tfapp.master.lifecycle import EXIT_MESSAGES, Lifecycle, ServiceRules
from tfapp.master.store import Owner, RequestError


class Recorder:
    """Effects that are only written down."""

    def __init__(self):
        self.launched, self.killed, self.dropped, self.ends = [], [], [], []

    def launch(self, container):
        self.launched.append(container)

    def kill(self, container):
        self.killed.append(container.id)

    def changed(self, container):
        pass

    def drop_keys(self, owner):
        self.dropped.append(str(owner))

    def end(self, status, message):
        self.ends.append((status, message))


class Application:
    def __init__(self, has_driver=False, **services):
        self.now = 100.0
        self.effects = Recorder()
        self.lifecycle = Lifecycle(services, self.effects, lambda: self.now, has_driver)
        self.lifecycle.start()

    def states(self, service="w"):
        every = ("WAITING", "REQUESTED", "RUNNING", "SUCCEEDED", "FAILED", "KILLED")
        return [c.state for c in self.lifecycle.containers([service], every)]

    def grant(self, *ids):
        for container in tuple(self.effects.launched):
            if container.id in ids or not ids:
                self.lifecycle.granted(container, f"host-of-{container.id}")

    def exit(self, id, code):
        state = "FAILED" if code else "SUCCEEDED"
        container = self.lifecycle.container(owner(id))
        self.lifecycle.finished(container, state, EXIT_MESSAGES[state])


def owner(id):
    service, _, number = id.rpartition("_")
    return Owner(service, int(number))


def test_begins_with_the_instances_of_each_service():
    app = Application(w=ServiceRules(2), v=ServiceRules(0))
    assert [c.id for c in app.effects.launched] == ["w_0", "w_1"]
    assert app.states() == ["REQUESTED", "REQUESTED"]
    app.grant("w_0")
    assert app.states() == ["RUNNING", "REQUESTED"]


def test_a_container_from_request_to_end():
    app = Application(w=ServiceRules(2))
    app.grant()
    app.now = 107.0
    app.exit("w_0", 0)
    container = app.lifecycle.container(Owner("w", 0))
    assert (container.started, container.ended, container.host) == (100.0, 107.0, "host-of-w_0")
    assert (container.state, container.message) == ("SUCCEEDED", "Completed successfully.")
    assert app.effects.dropped == ["w_0"]
    assert app.effects.killed == []


class TestEnd:
    def test_all_succeeded(self):
        app = Application(w=ServiceRules(1), v=ServiceRules(1))
        app.grant()
        app.exit("w_0", 0)
        assert app.effects.ends == []
        app.exit("v_0", 0)
        assert app.effects.ends == [("SUCCEEDED", "Application completed successfully.")]

    def test_a_master_script_keeps_it_alive(self):
        app = Application(has_driver=True, w=ServiceRules(1))
        app.grant()
        app.exit("w_0", 0)
        assert app.effects.ends == []

    @pytest.mark.parametrize("has_driver", [True, False])
    def test_one_failure_ends_it(self, has_driver):
        app = Application(has_driver=has_driver, w=ServiceRules(2))
        app.grant()
        app.exit("w_1", 3)
        message = "Failure in service w, see logs for more information."
        assert app.effects.ends == [("FAILED", message)]
        container = app.lifecycle.container(Owner("w", 1))
        assert container.state == "FAILED"
        assert container.message == (
            "Container failed during execution, see logs for more information."
        )

    def test_allowed_failures(self):
        app = Application(w=ServiceRules(2, allow_failures=True))
        app.grant()
        app.exit("w_0", 1)
        app.exit("w_1", 1)
        assert app.effects.ends == [("SUCCEEDED", "Application completed successfully.")]

    def test_killing_the_last_container(self):
        app = Application(w=ServiceRules(1))
        app.lifecycle.kill(Owner("w", 0))
        assert app.effects.ends == [("SUCCEEDED", "Application completed successfully.")]


class TestRestarts:
    def test_a_replacement_is_a_new_container_with_the_same_environment(self):
        app = Application(has_driver=True, w=ServiceRules(1, max_restarts=1))
        added = app.lifecycle.add("w", {"I": "w/1"})
        app.grant()
        app.exit(added.id, 1)
        assert app.states() == ["RUNNING", "FAILED", "REQUESTED"]
        assert app.effects.launched[-1].env == {"I": "w/1"}
        assert app.effects.ends == []
        app.grant()
        app.exit("w_2", 1)
        assert app.states() == ["RUNNING", "FAILED", "FAILED"]
        assert [status for status, _ in app.effects.ends] == ["FAILED"]

    def test_without_limit(self):
        app = Application(w=ServiceRules(1, max_restarts=-1))
        for number in range(5):
            app.grant()
            app.exit(f"w_{number}", 1)
        assert app.states() == ["FAILED"] * 5 + ["REQUESTED"]
        assert app.effects.ends == []

    def test_what_cannot_be_started_is_restarted_too(self):
        app = Application(w=ServiceRules(1, max_restarts=1))
        app.lifecycle.not_started(app.effects.launched[0], "no bash")
        assert app.states() == ["FAILED", "REQUESTED"]
        container = app.lifecycle.container(Owner("w", 0))
        assert container.message == "Failed to start, exception raised: no bash"

    def test_killed_ones_are_not_replaced(self):
        app = Application(w=ServiceRules(2, max_restarts=5))
        app.grant()
        app.lifecycle.kill(Owner("w", 0))
        app.exit("w_0", -15)
        assert app.states() == ["KILLED", "RUNNING"]


class TestKill:
    def test_the_keys_go_at_once_and_the_processes_are_ended(self):
        app = Application(w=ServiceRules(2))
        app.grant("w_1")
        for number in (0, 1, 1):
            app.lifecycle.kill(Owner("w", number))
        assert app.effects.killed == ["w_0", "w_1"]
        assert app.effects.dropped == ["w_0", "w_1"]
        container = app.lifecycle.container(Owner("w", 1))
        assert (container.state, container.message) == ("KILLED", "Killed by user request.")

    def test_before_it_started(self):
        app = Application(w=ServiceRules(2))
        (first, _) = app.effects.launched
        app.lifecycle.kill(Owner("w", 0))
        assert not app.lifecycle.granted(first, "yarn")
        assert app.states() == ["KILLED", "REQUESTED"]

    @pytest.mark.parametrize(
        ("id", "message"),
        [
            ("x_0", "Unknown service 'x'"),
            ("w_5", "Service 'w' has no container instance 5"),
            ("w_-1", "Service 'w' has no container instance -1"),
        ],
    )
    def test_unknown(self, id, message):
        app = Application(w=ServiceRules(1))
        with pytest.raises(RequestError) as refused:
            app.lifecycle.kill(owner(id))
        assert (str(refused.value), refused.value.code) == (message, "INVALID_ARGUMENT")


class TestScale:
    def app(self):
        return Application(has_driver=True, w=ServiceRules(3))

    @pytest.mark.parametrize(
        ("count", "delta", "changed", "after"),
        [
            (5, 0, ["w_3", "w_4"], ["RUNNING"] * 3 + ["REQUESTED"] * 2),
            (3, 0, [], ["RUNNING"] * 3),
            (1, 0, ["w_0", "w_1"], ["KILLED", "KILLED", "RUNNING"]),
            (0, 2, ["w_3", "w_4"], ["RUNNING"] * 3 + ["REQUESTED"] * 2),
            (0, -2, ["w_0", "w_1"], ["KILLED", "KILLED", "RUNNING"]),
            (0, -9, ["w_0", "w_1", "w_2"], ["KILLED"] * 3),
            (0, 0, ["w_0", "w_1", "w_2"], ["KILLED"] * 3),
        ],
    )
    def test_up_and_down(self, count, delta, changed, after):
        app = self.app()
        app.grant()
        assert [c.id for c in app.lifecycle.scale("w", count, delta)] == changed
        assert app.states() == after

    def test_those_not_running_yet_go_first(self):
        app = self.app()
        app.grant("w_0", "w_1")
        assert [c.id for c in app.lifecycle.scale("w", 1, 0)] == ["w_2", "w_0"]

    @pytest.mark.parametrize(
        ("service", "count", "delta", "message"),
        [
            ("w", 2, 2, "Can't specify both count and delta"),
            ("w", -1, 0, "count must be >= 0"),
            ("x", 1, 0, "Unknown service 'x'"),
        ],
    )
    def test_refused(self, service, count, delta, message):
        with pytest.raises(RequestError) as refused:
            self.app().lifecycle.scale(service, count, delta)
        assert str(refused.value) == message


class TestDepends:
    def test_waits_until_all_of_the_dependency_were_granted_once(self):
        app = Application(v=ServiceRules(2), w=ServiceRules(1, depends=frozenset("v")))
        assert app.states("w") == ["WAITING"]
        app.grant("v_0")
        app.exit("v_0", 0)
        assert app.states("w") == ["WAITING"]
        app.grant("v_1")
        assert app.states("w") == ["REQUESTED"]
        assert app.effects.launched[-1].id == "w_0"
        app.lifecycle.add("w", {})
        assert app.states("w") == ["REQUESTED", "REQUESTED"]

    def test_on_nothing_waits_until_there_is_one(self):
        app = Application(v=ServiceRules(0), w=ServiceRules(1, depends=frozenset("v")))
        app.lifecycle.scale("v", 1, 0)
        assert app.states("w") == ["WAITING"]
        app.grant()
        assert app.states("w") == ["REQUESTED"]

    def test_waiting_ones_are_scaled_away_first(self):
        app = Application(v=ServiceRules(1), w=ServiceRules(2, depends=frozenset("v")))
        assert [c.id for c in app.lifecycle.scale("w", 0, -1)] == ["w_0"]
        app.grant()
        assert app.states("w") == ["KILLED", "REQUESTED"]


def test_containers_by_service_and_state():
    app = Application(has_driver=True, w=ServiceRules(2), v=ServiceRules(1))
    app.grant("w_0")
    app.lifecycle.kill(Owner("v", 0))
    ids = lambda *args: [c.id for c in app.lifecycle.containers(*args)]  # noqa: E731
    assert ids([], []) == ["w_0", "w_1"]
    assert ids(["w"], ["RUNNING"]) == ["w_0"]
    assert ids([], ["RUNNING", "KILLED"]) == ["w_0", "v_0"]
    with pytest.raises(RequestError, match="Unknown service 'x'"):
        ids(["w", "x"], [])


def test_only_live_containers_own_keys():
    app = Application(has_driver=True, w=ServiceRules(2))
    app.lifecycle.kill(Owner("w", 0))
    app.lifecycle.check_owner(Owner("w", 1))
    with pytest.raises(RequestError, match="Container 'w_0' has already completed"):
        app.lifecycle.check_owner(Owner("w", 0))
