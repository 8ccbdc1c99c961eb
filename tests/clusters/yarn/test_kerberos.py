"""A cluster whose RPC and pages ask for Kerberos, with a real KDC: tickets, keytabs, and what is
wrong with them. Everybody here is a stranger to the machine: the cluster's user `ann` has no
account on it."""

import concurrent.futures
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.yarn import programs
from tests.clusters.yarn.conftest import User, start, wait_for
from tests.clusters.yarn.realm import REALM, Realm, SecureCluster
from tests.debian import UnavailableError
from tests.lacking import lacking
from tfapp.engines.yarn.kerberos import find_ticket

OR_KEYTAB = "or set KRB5KEYTAB and KRB5PRINCIPAL to a keytab and its principal."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[SecureCluster]:
    """Two NodeManagers, of which the second has the node label, in a realm that knows ann."""
    cache = Path(os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp").expanduser()
    folder = tmp_path_factory.mktemp("secure")
    realm = Realm(folder / "realm", cache)
    try:
        realm.start()
    except UnavailableError as error:
        lacking(f"this machine has no Kerberos: {error}")
    cluster = SecureCluster(folder / "yarn", cache, realm)
    try:
        start(cluster, nodes=2)
        cluster.make_home("ann")
        yield cluster
    finally:
        cluster.stop()
        realm.stop()


@pytest.fixture(scope="module")
def keytab(cluster) -> Path:
    return cluster.realm.keytab("ann")


@pytest.fixture(scope="module")
def ann(cluster, tmp_path_factory) -> Iterator[User]:
    """She has tickets, or none."""
    home = tmp_path_factory.mktemp("ann")
    user = User(home, {**environ_of_users(cluster), "KRB5CCNAME": f"FILE:{home}/ticket"})
    yield user
    user.end_drivers()


@pytest.fixture(scope="module")
def service(cluster, keytab, tmp_path_factory) -> Iterator[User]:
    """She herself elsewhere, by her keytab alone."""
    home = tmp_path_factory.mktemp("service")
    login = {"KRB5KEYTAB": str(keytab), "KRB5PRINCIPAL": f"ann@{REALM}"}
    user = User(home, {**environ_of_users(cluster), "KRB5CCNAME": f"FILE:{home}/none", **login})
    yield user
    user.end_drivers()


def environ_of_users(cluster: SecureCluster) -> dict[str, str]:
    """KRB5_CONFIG alone says where the realm is described."""
    return {key: value for key, value in cluster.environ().items() if key != "_JAVA_OPTIONS"}


def get_ticket(cluster: SecureCluster, user: User, keytab: Path, seconds: int = 600) -> None:
    cluster.realm.kinit(keytab, "ann", ticket_of(user), seconds)


def ticket_of(user: User) -> Path:
    return Path(user.environ["KRB5CCNAME"].removeprefix("FILE:"))


def complaint(user: User, **environ: str) -> list[str]:
    done = user.call("list", environ=environ)
    assert (done.returncode, done.stdout) == (53, "")
    return done.stderr.splitlines()


def findings(user: User, **environ: str) -> dict[str, tuple[str, str]]:
    found = json.loads(user.call("doctor", "--format", "json", environ=environ).stdout)
    return {one["subject"]: (one["level"], one["text"]) for one in found["findings"]}


def test_no_ticket(ann):
    place = ticket_of(ann)
    sentence = f"there is no Kerberos ticket in {place}"
    hint = f"  Run `kinit -c FILE:{place}`, {OR_KEYTAB}"
    assert complaint(ann) == [f"error: {sentence}", hint]
    found = findings(ann)
    assert found["kerberos"] == ("problem", sentence)
    assert "resourcemanager" not in found


def test_a_ticket_that_has_expired(cluster, ann, keytab):
    """Also while a driver runs that has seen it: YARN would be asked in vain for 10 s."""
    get_ticket(cluster, ann, keytab)
    assert ann.call("list").returncode == 0
    get_ticket(cluster, ann, keytab, seconds=1)
    expires = find_ticket(ann.environ).expires
    wait_for(lambda: time.time() > expires, "end of the ticket")
    begun = time.monotonic()
    sentence = f"the Kerberos ticket of ann@{REALM} has expired"
    said = ann.here("list")
    assert time.monotonic() - begun < 10
    expected = [f"error: {sentence}", f"  Run `kinit`, {OR_KEYTAB}"]
    assert (said.code, said.err.splitlines()) == (53, expected)
    assert findings(ann)["kerberos"] == ("problem", sentence)


# Where it has no ticket, with the tokens of its container alone.
SAVES = """
import os
import time
import tensorflow as tf
from tfapp.storage import expiry
assert 6 < (expiry.of_hdfs(os.environ) - time.time()) / 86400 <= 7
assert not {"KRB5CCNAME", "KRB5KEYTAB"} & os.environ.keys()
checkpoint = tf.train.Checkpoint(step=tf.Variable(7))
folder = os.environ["TFAPP_CHECKPOINT_DIR"]
print("saved", checkpoint.save(folder + "/ckpt"), flush=True)
assert "127.0.0.1" in folder  # as tokens have it
assert "checkpoint" in tf.io.gfile.listdir(folder.replace("127.0.0.1", "localhost"))
assert "checkpoint" in tf.io.gfile.listdir(f"hdfs:///{folder.split('/', 3)[3]}")
with open("kept.txt", "w") as file:
    file.write("by the runner")
"""


@pytest.mark.trains
def test_a_program_saves_on_hdfs_by_its_tokens(cluster, ann, keytab, tmp_path):
    get_ticket(cluster, ann, keytab)
    script = tmp_path / "train.py"
    script.write_text(SAVES)
    done = ann.call("run", str(script), "-w", "1", "--name", "saves", "--memory", "1500 MiB")
    assert done.returncode == 0, done.stderr
    assert "/user/ann/tfapp/checkpoints/saves/ckpt-1" in done.stdout
    assert ann.call("fetch", "saves", str(tmp_path / "kept"), "--outputs").returncode == 0
    assert (tmp_path / "kept/worker_0/kept.txt").read_text() == "by the runner"
    destroyed = ann.call("destroy", "saves", "--checkpoints")
    assert "saves.outputs are deleted" in destroyed.stdout + destroyed.stderr


@pytest.mark.weekly
def test_an_application_by_ticket_and_one_by_keytab(cluster, ann, service, keytab, tmp_path):
    get_ticket(cluster, ann, keytab)
    script = tmp_path / "train.py"
    script.write_text(programs.GOES_ON)
    # What a queue allows is read from pages that Kerberos protects.
    words = ("create", "large", "--appdef", "app-packages/tensorflow", "--files", str(script))
    large = ann.call(
        *words, "--component", "worker", "1", "--queue", "batch", "--resopt", "yarn.memory", "5000"
    )
    assert large.returncode == 77, large.stderr
    assert "queue 'batch' gives a container at most 4096 MiB" in large.stderr
    done = ann.call("run", str(script), "-w", "1", "--name", "long", "--detach")
    assert done.returncode == 0, done.stderr
    script.write_text(programs.HELLO)
    done = service.call("run", str(script), "-w", "1", "--name", "hello")
    assert done.returncode == 0, done.stderr
    assert "TF_CONFIG is " in done.stdout  # as it grew
    assert "hello: Succeeded: " in done.stderr
    assert "worker/0 | TF_CONFIG is " in service.here("logs", "hello").out
    # Of hers, another TFAPP_HOME finds the credentials in the staging folder.
    (instance,) = service.status("long")["status"]["instances"]
    assert (instance["instance"], instance["state"]) == ("worker/0", "RUNNING")
    said = []

    def begins() -> bool:
        said.append(service.here("logs", "long"))
        return "worker/0 | begins" in said[-1].out

    try:
        wait_for(begins, "output")
    except AssertionError:
        pytest.fail(f"no output: {said[-1]}, {findings(service)}")
    assert "generation 1" in service.here("logs", "long", "coordinator").out
    denied = service.call("logs", "long", environ={"PATH": without("curl", tmp_path, cluster)})
    assert denied.returncode == 53
    assert "asks for Kerberos: curl cannot be run: it is not on PATH" in denied.stderr
    assert "`yarn logs -applicationId ID`" in denied.stderr
    stopped = service.call("stop", "long", "--force")
    assert stopped.returncode == 0, stopped.stderr
    listed = json.loads(ann.here("list", "--format", "json").out)["applications"]
    states = {row["name"]: row["state"] for row in listed}
    assert states == {"long": "KILLED", "hello": "SUCCEEDED"}
    wait_for(lambda: not cluster.container_processes(), "end of all processes")
    assert cluster.staged("ann") == []


def without(name: str, folder: Path, cluster: SecureCluster) -> str:
    """A PATH on which the machine's programs are that a command needs, but for one."""
    programs = folder / "programs"
    programs.mkdir()
    for needed in {"sh", "java", "dirname", "kinit", "curl"} - {name}:
        found = shutil.which(needed, path=cluster.environ()["PATH"])
        (programs / needed).symlink_to(found)
    return f"{cluster.commands}{os.pathsep}{programs}"


def test_it_is_well(service):
    found = findings(service)
    key = f"the key of ann@{REALM} in {service.environ['KRB5KEYTAB']}"
    assert found["kerberos"] == ("ok", key)
    assert {subject: told for subject, told in found.items() if told[0] != "ok"} == {}


@pytest.mark.weekly
def test_the_kdc_is_down_or_a_keytab_of_no_use(cluster, ann, service, keytab, tmp_path):
    get_ticket(cluster, ann, keytab)
    no_answer = "Kerberos' KDC does not answer: Connection refused"
    cluster.realm.stop()
    try:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            by_ticket = pool.submit(complaint, ann)  # Java tries for longer than tfapp waits
            principal, path = f"bob@{REALM}", str(tmp_path / "empty.keytab")
            Path(path).touch()
            down, _ = complaint(service, TFAPP_HOME=str(tmp_path / "new"))
            by_keytab = {
                f"{principal} in with {keytab}: no key of it is there": complaint(
                    service, KRB5PRINCIPAL=principal
                ),
                f"ann@{REALM} in with {path}: no key of it is there": complaint(
                    service, KRB5KEYTAB=path
                ),
            }
            first, hint = by_ticket.result()
    finally:
        cluster.realm.resume()
    assert (first, hint.partition("? ")[0]) in {
        # Java waits a while between its attempts, for a time that is drawn by lot.
        (
            "error: YARN did not list applications within 10 s",
            "  Are the ResourceManager that the configuration names and Kerberos' KDC up",
        ),
        (f"error: {no_answer}", "  Is one up that krb5.conf names"),
    }
    assert down == f"error: {no_answer}"
    for sentence, (said, hint) in by_keytab.items():
        assert said == f"error: Kerberos does not let {sentence}"
        assert hint.startswith("  `kinit -kt ")
