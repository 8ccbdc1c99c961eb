"""Which cluster and login a command uses, and what it says when they cannot be used."""

import logging
import os
import subprocess
import sys

import pytest

from tfapp.engines.kubernetes.configuration import load
from tfapp.errors import ExitCode, NotFoundError, UnavailableError


def environ(*paths, **more) -> dict[str, str]:
    return {"KUBECONFIG": os.pathsep.join(map(str, paths)), **more}


def test_a_file_says_server_namespace_and_login(kubeconfig):
    path = kubeconfig("https://192.0.2.1:6443/", namespace="team")
    access = load(environ(path))
    assert (access.server, access.namespace, access.context, access.source) == (
        "https://192.0.2.1:6443",
        "team",
        "a",
        f"context 'a' of {path}",
    )
    assert access.authorization() == "Bearer secret"
    assert load(environ(path), namespace="other").namespace == "other"
    assert load(environ(kubeconfig(name="b"))).namespace == "default"


def test_the_file_in_the_home_folder_is_the_default(kubeconfig, tmp_path):
    path = tmp_path / "home" / ".kube" / "config"
    path.parent.mkdir(parents=True)
    kubeconfig().rename(path)
    assert load({"HOME": str(tmp_path / "home")}).context == "a"


def test_files_are_merged_and_the_first_current_context_is_taken(kubeconfig, tmp_path):
    a, b, gone = kubeconfig(), kubeconfig(name="b"), tmp_path / "gone"
    assert load(environ(a, gone, b)).context == "a"
    assert load(environ(b, a)).context == "b"
    assert load(environ(kubeconfig(current=False), b)).context == "b"
    assert load(environ(a, b), context="b").server == "https://192.0.2.1"


def test_a_login_file_is_found_beside_the_kubeconfig_file(kubeconfig, tmp_path):
    (tmp_path / "token").write_text("of-a-file")
    access = load(environ(kubeconfig(user="{tokenFile: token}")))
    assert access.authorization() == "Bearer of-a-file"


def plugin(code: str, tmp_path) -> str:
    program = tmp_path / "plugin.py"
    program.write_text(code)
    return (
        "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, "
        f'command: "{sys.executable}", args: ["{program}"]}}}}'
    )


def test_a_plugin_logs_in_and_again_when_its_token_expires(kubeconfig, tmp_path):
    counter = tmp_path / "counter"
    user = plugin(
        f"""
import json, pathlib
counter = pathlib.Path({str(counter)!r})
number = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(number))
status = {{"token": f"token{{number}}", "expirationTimestamp": "2020-01-01T00:00:00Z"}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": status}}))
""",
        tmp_path,
    )
    access = load(environ(kubeconfig(user=user)))
    assert access.authorization() == "Bearer token2"
    assert access.authorization() == "Bearer token3"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('session expired,\\nrun: corp-login')", "1. session expired, run: corp-login"),
        ("sys.exit(3)", "3"),
    ],
    ids=["told", "silent"],
)
def test_an_expired_login_is_told_in_the_plugins_words(kubeconfig, tmp_path, code, said, caplog):
    path = kubeconfig(user=plugin(f"import sys; {code}", tmp_path))
    handlers = list(logging.getLogger().handlers)
    with pytest.raises(UnavailableError) as raised:
        load(environ(path))
    assert raised.value.message == (
        f"the login of context 'a' of {path} failed: exec: process returned {said}"
    )
    assert raised.value.hint == f"This must work: `{sys.executable} {tmp_path / 'plugin.py'}`."
    assert caplog.records == []  # what the library logs is what is raised
    assert logging.getLogger().handlers == handlers


def test_on_a_terminal_the_plugin_speaks_for_itself(kubeconfig, tmp_path):
    path = kubeconfig(user=plugin("import sys; sys.exit('session expired')", tmp_path))
    code = (
        "from tfapp.engines.kubernetes.configuration import load\n"
        "from tfapp.errors import UnavailableError\n"
        f"try: load({{'KUBECONFIG': {str(path)!r}}})\n"
        "except UnavailableError as error: print(error.message)"
    )
    ours, theirs = os.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, timeout=300
        )
        said = terminal.read(10_000).decode().split("\r\n")
        os.close(theirs)
    command = f"{sys.executable} {tmp_path / 'plugin.py'}"
    assert done.returncode == 0
    assert said == [
        "session expired",
        f"the login of context 'a' of {path} failed: `{command}` failed",
        "",
    ]


def test_a_missing_plugin_is_named(kubeconfig):
    user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: corp-login}}"
    path = kubeconfig(user=user)
    with pytest.raises(UnavailableError) as raised:
        load(environ(path))
    assert raised.value.message == (
        f"the login of context 'a' of {path} failed: "
        "[Errno 2] No such file or directory: 'corp-login'"
    )


BROKEN = {
    "no-yaml": ("clusters: [", "cannot be read: while parsing a flow"),
    "list": ("- a", "cannot be read: it has not the shape of a kubeconfig file"),
    "empty": ("", "cannot be read: {path} file is empty"),
    "binary": ("\x00", "cannot be read: unacceptable character #x0000"),
    "nameless": ("contexts: [{context: {}}]", "cannot be read: Expected key name in {path}"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named(case, tmp_path, kubeconfig):
    path = tmp_path / "broken.yaml"
    text, message = BROKEN[case]
    path.write_text(text)
    for paths in ([path], [kubeconfig(), path]):
        with pytest.raises(UnavailableError) as raised:
            load(environ(*paths))
        assert raised.value.message.startswith(
            f"the kubeconfig file {path} {message.format(path=path)}"
        )
        assert raised.value.exit_code == ExitCode.UNAVAILABLE


def test_no_configuration_at_all(tmp_path):
    with pytest.raises(UnavailableError) as raised:
        load({"HOME": str(tmp_path)})
    assert raised.value.message == (
        "no Kubernetes cluster is configured: KUBECONFIG is not set and there is no "
        f"{tmp_path}/.kube/config"
    )
    gone = tmp_path / "gone"
    with pytest.raises(UnavailableError, match=f"KUBECONFIG names {gone}, and there is no such"):
        load(environ(gone))


def test_an_unknown_context(kubeconfig):
    a, b = kubeconfig(name="team-a"), kubeconfig(name="team-b")
    with pytest.raises(NotFoundError) as raised:
        load(environ(a, b), context="teama")
    assert raised.value.message == f"there is no context 'teama' in {a}, {b}"
    assert raised.value.hint == "Did you mean 'team-a'? Contexts: team-a, team-b."


def test_no_current_context_or_one_that_is_gone(kubeconfig, tmp_path):
    path = kubeconfig(current=False)
    with pytest.raises(UnavailableError) as raised:
        load(environ(path))
    assert raised.value.message == f"no current context is set in {path}"
    assert raised.value.hint == "Name one with --context. Contexts: a."
    path.write_text(path.read_text() + "current-context: gone\n")
    with pytest.raises(UnavailableError, match="is 'gone', and there is no such context"):
        load(environ(path))


def test_a_context_without_its_cluster_or_user(kubeconfig):
    path = kubeconfig()
    text = path.read_text()
    path.write_text(text.replace("users: [{name: a", "users: [{name: b"))
    with pytest.raises(UnavailableError) as raised:
        load(environ(path))
    assert raised.value.message == f"context 'a' of {path} cannot be used: there is no user 'a'"
    assert raised.value.hint.endswith("Users: b.")
    path.write_text(text.replace("clusters: [{name: a", "clusters: [{name: b"))
    with pytest.raises(UnavailableError, match="there is no cluster 'a'"):
        load(environ(path))


def test_a_certificate_that_is_not_there(kubeconfig, tmp_path):
    path = kubeconfig(cluster=', certificate-authority: "gone.pem"')
    with pytest.raises(UnavailableError) as raised:
        load(environ(path))
    gone = tmp_path / "gone.pem"
    assert raised.value.message == (
        f"context 'a' of {path} cannot be used: File does not exist: {gone}"
    )


@pytest.fixture
def service_account(tmp_path):
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, text in {"token": "of-pod", "ca.crt": "pem", "namespace": "team\n"}.items():
        (folder / name).write_text(text)
    return folder


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_in_a_pod_its_service_account_logs_in(service_account, tmp_path):
    env = {**IN_POD, "HOME": str(tmp_path)}
    access = load(env, service_account=service_account)
    assert (access.server, access.namespace, access.context, access.in_cluster) == (
        "https://10.96.0.1:443",
        "team",
        "",
        True,
    )
    assert access.authorization() == "bearer of-pod"
    assert load(env, "other", service_account=service_account).namespace == "other"
    with pytest.raises(NotFoundError, match="there is no context 'a': in a pod"):
        load(env, context="a", service_account=service_account)


def test_a_pod_without_its_token(service_account, tmp_path):
    (service_account / "token").unlink()
    with pytest.raises(UnavailableError) as raised:
        load({**IN_POD, "HOME": str(tmp_path)}, service_account=service_account)
    assert raised.value.message == (
        "the Kubernetes API cannot be used with the service account of this pod: "
        "Service token file does not exist."
    )
    assert "automountServiceAccountToken" in raised.value.hint


def test_a_file_goes_before_the_service_account(kubeconfig, service_account):
    access = load(environ(kubeconfig(), **IN_POD), service_account=service_account)
    assert access.context == "a"
