"""The client of the API server, on a real one."""

import contextlib
import hashlib
import socket
import threading
import time

import pytest
import yaml

from tests.clusters.kubernetes.namespace import LIMIT, wait_for
from tfapp.engines.kubernetes.api import KubernetesCluster
from tfapp.engines.kubernetes.pod.failures import AwayError, ExecError, RefusedObjectError
from tfapp.errors import BadStateError, ForbiddenError, NotFoundError, UnavailableError

# Port 5001 sends back what comes; 5002 reads a number of bytes, 8 bytes, and answers with the
# SHA-256 of as many. Lines appear in the log for ever.
PROGRAM = """
import hashlib, itertools, os, socket, threading, time
def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
def digest(connection):
    left, found = int.from_bytes(connection.recv(8), "big"), hashlib.sha256()
    while left and (data := connection.recv(1 << 20)):
        found.update(data)
        left -= len(data)
    connection.sendall(found.digest())
def serve(port, handle):
    listener = socket.create_server(("0.0.0.0", port))
    while True:
        connection, _ = listener.accept()
        def work(connection=connection):
            with connection:
                handle(connection)
        threading.Thread(target=work, daemon=True).start()
for place in ((5001, echo), (5002, digest)):
    threading.Thread(target=serve, args=place, daemon=True).start()
for number in itertools.count():
    os.write(1, b"line %d\\n" % number)  # whole, also when it is killed
    time.sleep(0.05)
"""
UPLOAD = 40 << 20  # bytes
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def client(cluster, namespace):
    return KubernetesCluster.open({"KUBECONFIG": str(cluster.kubeconfig)}, namespace.name)


def config_map(name: str, **data: str) -> dict:
    metadata = {"name": name, "labels": {"l": "m"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, f"it ended after {len(data)} of {size} bytes"
        data += more
    return bytes(data)


def written(client: KubernetesCluster, since: str = "") -> list[bytes]:
    """The lines of a log so far."""
    return [line for lines in client.log("p", "main", since) for line in lines]


def lines_of(numbers: list[int], client: KubernetesCluster) -> None:
    """Follows a log, also over connections that break."""
    since = ""
    while True:
        try:
            for piece in client.log("p", "main", since=since, follow=True):
                for line in piece:
                    since, number = line.split()[0].decode(), int(line.split()[-1])
                    if number >= len(numbers):
                        numbers.append(number)
            return
        except AwayError:
            time.sleep(0.1)


def test_objects_and_what_the_server_refuses(cluster, client):
    client.create(config_map("a", x="1"))
    assert client.patch("ConfigMap", "a", {"data": {"y": "2"}})["data"] == {"x": "1", "y": "2"}
    assert [found["kind"] for found in client.list("ConfigMap", {"l": "m"})] == ["ConfigMap"]
    assert len(client.list("Node")) == 2
    with pytest.raises(RefusedObjectError, match='unknown field "spex"'):
        client.create({**config_map("b"), "spex": 1}, dry_run=True)
    with pytest.raises(RefusedObjectError) as raised:
        client.create(config_map("B"))
    assert [field for field, _ in raised.value.causes] == ["metadata.name"]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    client.create({**quota, "spec": {"hard": {"secrets": "0"}}})
    wait_for(lambda: client.get("ResourceQuota", "q").get("status"), "status of the quota")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    with pytest.raises(RefusedObjectError, match="exceeded quota: q"):
        client.create(secret)
    assert client.delete("ConfigMap", "a", foreground=True)
    wait_for(lambda: client.get("ConfigMap", "a") is None, "end of the ConfigMap")
    elsewhere = KubernetesCluster.open({"KUBECONFIG": str(cluster.kubeconfig)}, "no-such-namespace")
    with pytest.raises(NotFoundError, match="there is no namespace 'no-such-namespace' in the"):
        elsewhere.create(config_map("a"))


def test_a_user_without_rights_is_told_what_to_ask_for(cluster, namespace, client):
    path = cluster.add_user("nobody")
    nobody = KubernetesCluster.open({"KUBECONFIG": str(path)}, namespace.name)
    assert not nobody.allowed("create", "pods")
    assert client.allowed("create", "pods")
    for call in (
        lambda: nobody.create(config_map("a")),
        lambda: nobody.create(config_map("a"), dry_run=True),
    ):
        with pytest.raises(ForbiddenError) as raised:
            call()
        assert raised.value.message == (
            f"context 'tfapp' of {path} may not create configmaps in namespace {namespace.name!r}"
        )
        assert raised.value.hint.endswith(
            '{apiGroups: [""], resources: [configmaps], verbs: [create]}.'
        )
    with pytest.raises(ForbiddenError, match="may not get and create pods/portforward"):
        nobody.forward("p", 1).__enter__()
    with pytest.raises(ForbiddenError, match="may not get and create pods/exec"):
        list(nobody.exec("p", "main", ["true"]))
    with pytest.raises(ForbiddenError, match="may not get pods/log"):
        list(nobody.log("p", "main"))
    with pytest.raises(ForbiddenError, match="may not list pods"):
        next(nobody.watch("Pod"))


def test_a_certificate_and_a_login_of_another_cluster(cluster, tmp_path):
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    path = tmp_path / "config"
    authority = config["clusters"][0]["cluster"].pop("certificate-authority-data")
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(UnavailableError, match="shows a certificate that is not to be trusted"):
        KubernetesCluster.open({"KUBECONFIG": str(path)}).list("Pod")
    config["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    config["users"][0]["user"] = {"token": "of-another-cluster"}
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(UnavailableError, match="does not accept the login of context"):
        KubernetesCluster.open({"KUBECONFIG": str(path)}).list("Pod")


def test_a_token_is_replaced_in_its_file(cluster, namespace, tmp_path):
    """A token is good as long as the Secret is there that it is bound to."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
    namespace.add(RBAC, "roles", {"metadata": {"name": "list"}, "rules": [rule]})
    account = {"kind": "ServiceAccount", "name": "default", "namespace": namespace.name}
    reference = {"kind": "Role", "name": "list", "apiGroup": RBAC.partition("/")[0]}
    binding = {"metadata": {"name": "list"}, "subjects": [account], "roleRef": reference}
    namespace.add(RBAC, "rolebindings", binding)

    def token(bound: str) -> str:
        namespace.api.call("POST", f"{namespace.path}/secrets", {"metadata": {"name": bound}})
        reference = {"apiVersion": "v1", "kind": "Secret", "name": bound}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": reference},
        }
        path = f"{namespace.path}/serviceaccounts/default/token"
        return namespace.api.call("POST", path, request)["status"]["token"]

    def opened(user: dict) -> KubernetesCluster:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        config["users"][0]["user"] = user
        path = tmp_path / f"config-{'-'.join(user)}"
        path.write_text(yaml.safe_dump(config))
        return KubernetesCluster.open({"KUBECONFIG": str(path)}, namespace.name)

    def refused(client: KubernetesCluster) -> bool:
        try:
            client.list("ConfigMap")
        except UnavailableError as error:
            assert "does not accept the login of context" in error.message
            return True
        return False

    first, file = token("first"), tmp_path / "token"
    file.write_text(first)
    client, of_the_first = opened({"tokenFile": str(file)}), opened({"token": first})
    assert not refused(client)
    file.write_text(token("second"))
    namespace.api.call("DELETE", f"{namespace.path}/secrets/first")
    wait_for(lambda: refused(of_the_first), "end of the first token")
    assert not refused(client)


def test_a_pod_is_reached(namespace, client):
    with pytest.raises(NotFoundError, match="there is no Pod 'p'"):
        client.forward("p", 5001).__enter__()
    changes = client.watch("Pod", name="p", timeout=LIMIT)
    namespace.run("p", PROGRAM)
    waiting = {"image": "localhost/none:1", "imagePullPolicy": "Never"}
    namespace.run("waits", "", container=waiting)
    phases = (pod["status"].get("phase") for _, pod in changes)
    assert "Running" in phases
    wait_for(lambda: written(client), "a line")

    # A command.
    assert b"".join(client.exec("p", "main", ["printf", "a\nb"])) == b"a\nb"
    assert sum(map(len, client.exec("p", "main", ["head", "-c", "5000000", "/dev/zero"]))) == 5e6
    with pytest.raises(ExecError) as failed:
        list(client.exec("p", "main", ["sh", "-c", "echo why >&2; exit 7"]))
    assert (failed.value.code, failed.value.stderr) == (7, "why\n")
    with pytest.raises(BadStateError, match="container none is not valid for pod p"):
        list(client.exec("p", "none", ["true"]))

    # Its log.
    last = written(client)
    since = last[-1].split()[0].decode()
    after = [int(line.split()[-1]) for line in written(client, since)]
    assert int(last[-1].split()[-1]) in after  # from the whole second on
    assert after == list(range(after[0], after[0] + len(after)))
    wait_for(lambda: client.get("Pod", "waits")["status"].get("containerStatuses"), "the other pod")
    with pytest.raises(BadStateError, match="is waiting to start"):
        list(client.log("waits", "main"))

    # Its ports.
    forward = client.forward("p", 5001)
    with forward as address:
        echoed: list[bool] = []

        def echo(number: int) -> None:
            data = bytes([number]) * 1_000_000
            with socket.create_connection(address) as connection:
                sender = threading.Thread(target=connection.sendall, args=(data,))
                sender.start()
                echoed.append(read(connection, len(data)) == data)
                sender.join()

        threads = [threading.Thread(target=echo, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert echoed == [True] * 12
        open_yet = socket.create_connection(address)
        open_yet.sendall(b"x")
        assert read(open_yet, 1) == b"x"
    with open_yet, contextlib.suppress(ConnectionError):
        assert open_yet.recv(1) == b""
    with pytest.raises(ConnectionError):
        socket.create_connection(address)
    data = bytes(range(256)) * (UPLOAD // 256)
    with client.forward("p", 5002) as address, socket.create_connection(address) as connection:
        begun = time.monotonic()
        connection.sendall(UPLOAD.to_bytes(8, "big") + data)
        assert read(connection, 32) == hashlib.sha256(data).digest()
        print(f"{UPLOAD / 1e6 / (time.monotonic() - begun):.0f} MB/s to a port of a pod")
    with client.forward("p", 5999) as address, socket.create_connection(address) as connection:
        assert connection.recv(1) == b""  # nobody listens there


def test_the_api_server_goes_away_and_comes_back(cluster, namespace, client):
    namespace.run("p", PROGRAM)
    namespace.wait("p", "Running")
    seen: list[str] = []
    numbers: list[int] = []
    told: list[str] = []

    def watch() -> None:
        for change, found in client.watch("ConfigMap", {"l": "m"}, away=told.append):
            seen.append(f"{change} {found['metadata']['name']}")
            if found["metadata"]["name"] == "last":
                return

    def follow() -> None:
        with contextlib.suppress(NotFoundError):
            lines_of(numbers, client)

    threads = [threading.Thread(target=watch), threading.Thread(target=follow)]
    client.create(config_map("a"))
    for thread in threads:
        thread.start()
    wait_for(lambda: seen and numbers, "a change and a line")
    cluster.kill_api()
    try:
        wait_for(lambda: told, "word that it is away")
        with pytest.raises(AwayError, match="does not answer"):
            KubernetesCluster.open({"KUBECONFIG": str(cluster.kubeconfig)}).list("Pod")
        before = len(numbers)
        answers: list[object] = []
        patient = threading.Thread(target=lambda: answers.append(client.get("ConfigMap", "a")))
        patient.start()
    finally:
        cluster.start_api()
    patient.join(LIMIT)
    assert answers and answers[0]
    wait_for(lambda: len(numbers) > before + 10, "more lines")
    client.create(config_map("last"))
    namespace.api.call("DELETE", f"{namespace.path}/pods/p?gracePeriodSeconds=0")
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert seen == ["ADDED a", "ADDED last"]
    assert numbers == list(range(len(numbers)))
    assert told[-1] == ""
