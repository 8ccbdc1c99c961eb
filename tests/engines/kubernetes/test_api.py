"""The client of the API server, on a server that answers as the test says."""

import functools
import itertools
import json
import socket
import threading
from http.server import HTTPServer

import pytest

from tests.engines.kubernetes.api_server import Answer, status
from tests.tls import make_certificate
from tfapp.engines.kubernetes import configuration
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod.failures import AwayError, ConflictError, RefusedObjectError
from tfapp.errors import ExistsError, ForbiddenError, NotFoundError, UnavailableError


@pytest.fixture
def path(server, kubeconfig):
    return kubeconfig(server.address, namespace="team")


@pytest.fixture
def cluster(path, clock):
    load = functools.partial(configuration.load, {"KUBECONFIG": str(path)})
    return KubernetesCluster(load(), load, clock, clock.sleep)


def config_map(name: str = "a", version: str = "1", **data: str) -> dict:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def review(allowed: bool) -> Answer:
    return Answer({"status": {"allowed": allowed}}, 201)


def test_an_object_is_read_made_changed_and_deleted(server, cluster):
    made = config_map(x="1")
    server.answers = [Answer(made), Answer(made, 201), Answer(made), Answer(made), Answer(made)]
    assert cluster.get("ConfigMap", "a") == made
    assert cluster.create(made) == made
    assert cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}}, dry_run=True)
    assert cluster.patch("ConfigMap", "a", {"data": {"x": "1"}}) == made
    assert cluster.delete("Pod", "a", foreground=True, grace=0)
    maps, strict = "/api/v1/namespaces/team/configmaps", {"fieldValidation": "Strict"}
    assert [request[:3] for request in server.requests] == [
        ("GET", f"{maps}/a", {}),
        ("POST", maps, strict),
        ("POST", "/apis/batch/v1/namespaces/team/jobs", {**strict, "dryRun": "All"}),
        ("PATCH", f"{maps}/a", strict),
        ("DELETE", "/api/v1/namespaces/team/pods/a", {}),
    ]
    assert server.requests[1].body == made
    assert server.requests[4].body == {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0}
    assert server.requests[3].headers["Content-Type"] == "application/merge-patch+json"
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer secret"}


def test_what_is_not_there(server, cluster):
    missing = status("NotFound", 'configmaps "a" not found', name="a", kind="configmaps")
    server.answers = [Answer(missing, 404)] * 3
    assert cluster.get("ConfigMap", "a") is None
    assert cluster.delete("ConfigMap", "a") is False
    with pytest.raises(NotFoundError, match="there is no ConfigMap 'a' in namespace 'team'$"):
        cluster.patch("ConfigMap", "a", {})


def test_a_list_comes_in_pages_and_again_when_it_took_too_long(server, cluster):
    a, b = config_map("a"), config_map("b")
    bare = {key: value for key, value in a.items() if key not in ("kind", "apiVersion")}
    expired = status("Expired", "The provided continue parameter is too old")
    server.answers = [
        Answer({"metadata": {"continue": "x"}, "items": [b]}),
        Answer(expired, 410),
        Answer({"metadata": {"continue": "y"}, "items": [bare]}),
        Answer({"metadata": {"resourceVersion": "9"}, "items": [b]}),
    ]
    assert cluster.list("ConfigMap", {"l": "m", "n": "o"}, "metadata.name!=c") == [a, b]
    selected = {"labelSelector": "l=m,n=o", "fieldSelector": "metadata.name!=c", "limit": "500"}
    assert [request.query for request in server.requests] == [
        selected,
        {**selected, "continue": "x"},
        selected,
        {**selected, "continue": "y"},
    ]


def refusal(server, cluster, *answers: Answer, dry_run: bool = False) -> Exception:
    server.answers = list(answers)
    with pytest.raises(Exception) as raised:
        cluster.create(config_map(), dry_run=dry_run)
    return raised.value


def test_a_missing_right_is_told_with_the_rule_to_ask_for(server, cluster, path):
    words = status("Forbidden", 'configmaps is forbidden: User "u" cannot', kind="configmaps")
    error = refusal(server, cluster, Answer(words, 403), review(False))
    assert isinstance(error, ForbiddenError)
    assert (error.message, error.hint) == (
        f"context 'a' of {path} may not create configmaps in namespace 'team'",
        "Ask its owner for a Role in namespace 'team' with the rule "
        '{apiGroups: [""], resources: [configmaps], verbs: [create]}.',
    )
    assert server.requests[1].body["spec"]["resourceAttributes"] == {
        "namespace": "team",
        "verb": "create",
        "group": "",
        "resource": "configmaps",
        "subresource": "",
    }


def test_what_is_forbidden_by_a_quota_is_no_missing_right(server, cluster):
    words = status("Forbidden", 'configmaps "a" is forbidden: exceeded quota: q', name="a")
    error = refusal(server, cluster, Answer(words, 403), review(True))
    assert isinstance(error, RefusedObjectError)
    assert error.message == (
        "the Kubernetes API does not take the ConfigMap 'a' in namespace 'team': "
        'configmaps "a" is forbidden: exceeded quota: q'
    )


def test_a_right_that_nobody_can_ask_for_is_still_told(server, cluster):
    error = refusal(server, cluster, Answer("no", 403), Answer("no", 403))
    assert isinstance(error, ForbiddenError)


@pytest.mark.parametrize(
    ("code", "reason", "details", "kind", "message"),
    [
        (409, "AlreadyExists", {}, ExistsError, "there is a ConfigMap 'a' in namespace 'team' al"),
        (409, "Conflict", {}, ConflictError, "the ConfigMap 'a' in namespace 'team' was changed"),
        (
            404,
            "NotFound",
            {"name": "team", "kind": "namespaces"},
            NotFoundError,
            "there is no namespace 'team' in the cluster of context 'a' of ",
        ),
        (404, "", {}, NotFoundError, "the Kubernetes API of context 'a' of "),
        (408, "", {}, AwayError, "the Kubernetes API of context 'a' of "),
        (418, "", {}, UnavailableError, "the Kubernetes API of context 'a' of "),
    ],
)
def test_a_refusal_has_its_class(server, cluster, code, reason, details, kind, message):
    error = refusal(server, cluster, Answer(status(reason, "words", **details), code))
    assert type(error) is kind
    assert error.message.startswith(message)


def test_an_invalid_object_is_told_by_its_fields(server, cluster):
    causes = [
        {"reason": "FieldValueInvalid", "message": "Invalid value", "field": "spec.a"},
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.b"},
    ]
    invalid = status("Invalid", "it is invalid", causes=causes)
    error = refusal(server, cluster, Answer(invalid, 422))
    assert error.causes == (("spec.a", "Invalid value"), ("spec.b", "Required value"))
    unknown = status("BadRequest", 'unknown field "spec.c"')
    error = refusal(server, cluster, Answer(unknown, 400))
    assert error.causes == (("", 'unknown field "spec.c"'),)


def test_what_is_no_kubernetes_api_is_told(server, cluster, path):
    server.answers = [Answer("<html>")]
    with pytest.raises(UnavailableError, match=f"answers at {server.address} is no Kubernetes API"):
        cluster.get("ConfigMap", "a")
    assert len(server.requests) == 1
    server.answers = [Answer(config_map()), Answer("<html>"), Answer(config_map())]
    assert [cluster.get("ConfigMap", "a") for _ in range(2)] == [config_map()] * 2


def test_a_login_that_is_not_accepted(server, cluster, path):
    server.answers = [Answer(status("Unauthorized", "Unauthorized"), 401)] * 2
    with pytest.raises(UnavailableError) as raised:
        cluster.get("ConfigMap", "a")
    assert raised.value.message == (
        f"the Kubernetes API does not accept the login of context 'a' of {path}"
    )


def test_a_token_that_was_rotated_is_read_again(server, cluster, path):
    server.answers = [Answer("", 401), Answer(config_map())]
    path.write_text(path.read_text().replace("secret", "rotated"))
    assert cluster.get("ConfigMap", "a") == config_map()
    used = [request.headers["Authorization"] for request in server.requests]
    assert used == ["Bearer secret", "Bearer rotated"]


def test_a_server_that_asks_for_patience_gets_it(server, cluster, clock):
    later = Answer(status("TooManyRequests", "later"), 429, {"Retry-After": "7"})
    server.answers = [later, Answer("", 503), Answer(config_map(), 201)]
    assert cluster.create(config_map()) == config_map()
    assert clock.slept[0] == 7
    assert len(clock.slept) == 2


def test_patience_ends(server, cluster, clock):
    server.answers = [Answer(status("InternalError", "etcd is away"), 500)] * 1000
    with pytest.raises(AwayError, match="cannot answer now: etcd is away"):
        cluster.get("ConfigMap", "a")
    assert 20 < clock.now <= 30


def test_what_may_have_been_made_is_not_made_twice(server, cluster, clock):
    failed = Answer(status("Timeout", "etcdserver: request timed out"), 500)
    error = refusal(server, cluster, failed)
    assert isinstance(error, AwayError)
    assert (len(server.requests), clock.slept) == (1, [])
    error = refusal(server, cluster, failed, Answer(config_map(), broken=True))
    assert isinstance(error, AwayError)
    assert len(server.requests) == 2


def test_a_check_may_be_repeated(server, cluster):
    server.answers = [Answer("", 500), Answer(config_map(), 201)]
    assert cluster.create(config_map(), dry_run=True) == config_map()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_server_that_has_never_answered_is_asked_once(kubeconfig, clock):
    address = f"https://127.0.0.1:{free_port()}"
    path = kubeconfig(address)
    access = configuration.load({"KUBECONFIG": str(path)})
    with pytest.raises(AwayError) as raised:
        KubernetesCluster(access, None, clock, clock.sleep).get("ConfigMap", "a")
    assert raised.value.message == (
        f"the Kubernetes API at {address} (context 'a' of {path}) does not answer: "
        "Connection refused"
    )
    assert clock.slept == []


def test_a_server_that_has_answered_is_asked_again(server, cluster, clock):
    server.answers = [Answer(config_map())]
    cluster.get("ConfigMap", "a")
    server.answers = [Answer(config_map(), broken=True), Answer(config_map())]
    assert cluster.get("ConfigMap", "a") == config_map()
    server.answers = [Answer(config_map(), broken=True)] * 1000
    begun = clock.now
    with pytest.raises(AwayError, match="does not answer"):
        cluster.get("ConfigMap", "a")
    assert 20 < clock.now - begun <= 30


@pytest.fixture
def impostor(tmp_path):
    """The address of a server whose certificate nobody knows, and one that knows no TLS."""
    with HTTPServer(("127.0.0.1", 0), None) as plain:  # type: ignore[arg-type]
        context = make_certificate(tmp_path / "impostor.pem")
        plain.socket = context.wrap_socket(plain.socket, server_side=True)
        plain.timeout = 30.0  # seconds for a test to connect
        thread = threading.Thread(target=plain.handle_request)
        thread.start()
        yield f"https://127.0.0.1:{plain.server_port}"
        thread.join()


def test_a_certificate_of_somebody_else(kubeconfig, impostor, tmp_path, clock):
    make_certificate(tmp_path / "own.pem")
    path = kubeconfig(impostor, cluster=", certificate-authority: own.pem")
    access = configuration.load({"KUBECONFIG": str(path)})
    with pytest.raises(UnavailableError) as raised:
        KubernetesCluster(access, None, clock, clock.sleep).get("ConfigMap", "a")
    assert type(raised.value) is UnavailableError
    assert raised.value.message.startswith(
        f"the Kubernetes API at {impostor} (context 'a' of {path}) shows a certificate that is "
        "not to be trusted: "
    )
    assert clock.slept == []


def event(change: str, changed: dict) -> str:
    return json.dumps({"type": change, "object": changed}) + "\n"


def listed(*objects: dict, version: str = "1") -> Answer:
    return Answer({"metadata": {"resourceVersion": version}, "items": list(objects)})


def seen(changes, count: int) -> list[tuple[str, str, str]]:
    return [
        (change, found["metadata"]["name"], found["metadata"]["resourceVersion"])
        for change, found in itertools.islice(changes, count)
    ]


def test_a_watch_begins_with_what_is_there_and_goes_on_from_the_bookmark(server, cluster):
    bookmark = {"metadata": {"resourceVersion": "7"}}
    server.answers = [
        listed(config_map("a", "3"), version="5"),
        Answer(event("ADDED", config_map("b", "6")) + event("BOOKMARK", bookmark)),
        Answer(event("DELETED", config_map("a", "8"))),
    ]
    found = seen(cluster.watch("ConfigMap", {"l": "m"}), 3)
    assert found == [("ADDED", "a", "3"), ("ADDED", "b", "6"), ("DELETED", "a", "8")]
    asked = [request.query for request in server.requests]
    assert [query.get("resourceVersion") for query in asked] == [None, "5", "7"]
    assert asked[1] == {
        "labelSelector": "l=m",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "30",
        "resourceVersion": "5",
    }


def test_a_watch_goes_on_over_what_the_server_has_forgotten(server, cluster):
    gone = {**status("Expired", "too old resource version"), "code": 410}
    server.answers = [
        listed(config_map("a", "1"), config_map("b", "2"), config_map("c", "3"), version="5"),
        Answer(event("ERROR", gone)),
        listed(config_map("b", "2"), config_map("c", "8"), config_map("d", "9"), version="10"),
        Answer(gone, 410),
        listed(config_map("b", "2"), config_map("c", "8"), version="11"),
    ]
    assert seen(cluster.watch("ConfigMap", name="a"), 7) == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("ADDED", "c", "3"),
        ("DELETED", "a", "1"),
        ("MODIFIED", "c", "8"),
        ("ADDED", "d", "9"),
        ("DELETED", "d", "9"),
    ]


def test_a_watch_goes_on_over_broken_connections_and_tells(server, cluster, clock):
    told: list[str] = []
    server.answers = [
        listed(config_map("a", "1"), version="5"),
        Answer(event("MODIFIED", config_map("a", "6")), broken=True),
        Answer(status("InternalError", "starting"), 500),
        Answer('{"type": "MODI'),
        Answer(event("MODIFIED", config_map("a", "7"))),
    ]
    watched = cluster.watch("ConfigMap", away=told.append)
    assert [version for _, _, version in seen(watched, 3)] == ["1", "6", "7"]
    assert server.requests[-1].query["resourceVersion"] == "6"
    assert len(told) == 4
    assert "does not answer" in told[0]
    assert told[1].endswith("cannot answer now: starting")
    assert told[2].startswith("a watch of the API server broke: ")
    assert told[3] == ""


def test_a_watch_ends_after_its_time(server, cluster, clock):
    server.answers = [listed(version="5")] + [Answer("", 500)] * 100
    assert list(cluster.watch("ConfigMap", timeout=10)) == []
    assert clock.now >= 10
    server.answers, server.requests[:] = [listed(version="5")], []
    with pytest.raises(NotFoundError):
        list(cluster.watch("ConfigMap", timeout=10))
    assert server.requests[1].query["timeoutSeconds"] == "10"


LINE = "2026-01-02T03:04:05.%s %s\n"


def test_a_log_is_followed_as_far_as_the_connection_lasts(server, cluster, clock):
    text = LINE % ("000000001Z", "a") + LINE % ("12Z", "b") + "2026"
    starting = Answer(status("InternalError", "starting"), 500)
    server.answers = [Answer(text, broken=True), starting, Answer(text)]
    pieces = cluster.log("p", "main", since="2026-01-02T03:04:04Z", follow=True)
    assert next(pieces) == []
    assert [line[-2:-1] for line in next(pieces)] == [b"a", b"b"]
    with pytest.raises(AwayError):
        next(pieces)
    with pytest.raises(AwayError, match="cannot answer now: starting"):
        next(cluster.log("p", "main", follow=True))
    assert list(cluster.log("p", "main"))[-1] == [b"2026"]
    wanted = {"container": "main", "timestamps": "true"}
    assert [request.query for request in server.requests] == [
        {**wanted, "follow": "true", "sinceTime": "2026-01-02T03:04:04Z"},
        {**wanted, "follow": "true"},
        wanted,
    ]
    assert server.requests[0].path == "/api/v1/namespaces/team/pods/p/log"


def test_a_log_from_a_second_on(server, cluster):
    text = LINE % ("5+02:00", "a") + LINE % ("6+02:00", "b") + "cannot read the rest\n"
    server.answers = [Answer(text)]
    since = "2026-01-02T03:04:05.5+02:00"
    lines = list(cluster.log("p", "main", since=since))
    assert b"".join(itertools.chain(*lines)).decode() == text  # all that the server gives
    assert server.requests[0].query["sinceTime"] == since


def test_a_port_is_forwarded_to_those_who_may_alone(server, cluster):
    server.answers = [review(True), review(False)]
    with pytest.raises(ForbiddenError) as raised, cluster.forward("p", 1):
        pass
    assert raised.value.message.endswith(
        "may not get and create pods/portforward in namespace 'team'"
    )
    assert raised.value.hint.endswith(
        '{apiGroups: [""], resources: [pods/portforward], verbs: [get, create]}.'
    )
