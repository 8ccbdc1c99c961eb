import base64
import dataclasses
import hashlib
import json
import zipfile

from tests.compiler.packages import compile_with, component, options, package
from tfapp.compiler.runtime import read_runtime
from tfapp.engines.kubernetes.objects import (
    FILES,
    MAX_CONTENT,
    application_content,
    digests,
    objects,
    owned,
    run_objects,
)
from tfapp.engines.kubernetes.pod import names
from tfapp.engines.kubernetes.pods import MASTER_FILES, Places, of_run, pods
from tfapp.master.messages import local_path
from tfapp.protocol.definition import messages

SECRET = "not for the eyes of others"
AT = Places.of(options(), "ml")
CREDENTIALS = (b"the certificate", b"the key")


def compiled(**changes):
    built = package(component("chief"), component("worker"), settings={
        "site.global.docker.image": "train:3", "env.MODE": SECRET})  # fmt: skip
    return compile_with(built, **changes)


def test_they_come_in_the_order_in_which_they_are_made():
    made = objects(compiled(), AT, {}, CREDENTIALS)
    assert [body["kind"] for body in made] == [
        "ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding",
        "ServiceAccount", "Role", "RoleBinding", "Secret", "Secret", "Job",
    ]  # fmt: skip
    assert {body["metadata"]["namespace"] for body in made} == {"ml"}


def test_values_of_programs_are_in_secrets_alone():
    made = objects(compiled(), AT, {}, CREDENTIALS)
    shown = json.dumps([body for body in made if body["kind"] != "Secret"])
    assert SECRET not in shown
    secret = made[1]["data"]
    assert any(SECRET.encode() in base64.b64decode(value) for value in secret.values())
    everything = json.dumps([*pods(compiled().plan, AT).values()])
    assert SECRET not in everything


def test_the_spec_calls_files_by_their_content():
    content = application_content(compiled(), AT)
    spec = messages.ApplicationSpec.FromString(content["spec"])
    parts = [spec.master, *spec.services.values()]
    found = {local_path(file.source) for part in parts for file in part.files.values()}
    known = {f"/tfapp/files/{digest}" for digest in digests(compiled()).values()}
    assert found == known
    assert FILES.endswith("/tfapp/files/")
    held = {path.rpartition("/")[2] for path in found}
    assert held < content.keys()
    assert all(hashlib.sha256(content[digest]).hexdigest() == digest for digest in held)


def test_what_has_no_room_is_left_out():
    large = {"scripts/model": bytes(300_000), "files/data": bytes(800_000)}
    built = package(settings={"site.global.docker.image": "train:3"})
    source = type(built.source)({**built.source.content, **large})
    with_large = compile_with(dataclasses.replace(built, source=source))
    content = application_content(with_large, AT)
    assert sum(map(len, content.values())) <= MAX_CONTENT
    missing = set(digests(with_large).values()) - content.keys()
    sizes = {hashlib.sha256(f.data).hexdigest(): len(f.data) for f in with_large.files}
    assert [sizes[digest] > 800_000 for digest in missing] == [True]


def test_tfapp_leaves_room_for_what_the_master_needs_at_once():
    """Its own files, the job's and the package's: they must not wait for the client. 40 % are left
    for a user's own."""
    made = compiled(runtime=read_runtime(MASTER_FILES, compiled=False), small=True)
    content = application_content(made, AT)
    assert set(digests(made).values()) < content.keys()
    assert sum(map(len, content.values())) < 0.6 * MAX_CONTENT


def test_an_environment_that_travels_is_among_the_files(tmp_path):
    archive = tmp_path / "environment.pex"
    archive.write_bytes(b"an environment")
    own = tmp_path / "own.pex"
    with zipfile.ZipFile(own, "w") as file:
        file.writestr("PEX-INFO", '{"venv": true}')
    own.chmod(0o755)
    settings = {"site.global.docker.image": "train:3"}
    parts = component("worker"), component("ps"), component("other")
    of_own = {"ps": {"site.global.python.archive": str(own)}}
    packages = {**settings, "site.global.python.packages": "tensorflow"}
    for given, shipped in ((packages, [archive, own]), (settings, [own])):
        built = package(*parts, settings=given, own=of_own)
        found = compile_with(built, python_archive=archive if given is packages else None)
        expected = {hashlib.sha256(path.read_bytes()).hexdigest() for path in shipped}
        known = set(digests(found).values())
        assert expected == known - {hashlib.sha256(f.data).hexdigest() for f in found.files}
        assert not expected & application_content(found, AT).keys()
        commands = {
            name: " ".join(pod["spec"]["containers"][0]["command"])
            for name, pod in pods(found.plan, AT).items()
        }
        # Where none travels, the image's Python has to run tfapp.
        bare = {name for name, command in commands.items() if "grpcio" in command}
        assert bare == (set() if given is packages else {"worker", "other"})


def test_a_later_run_has_its_own_secret_and_labels():
    content = application_content(compiled(), AT)
    third = Places("digits", "ann", "ml", run=3)
    secret, job = run_objects(content, third, CREDENTIALS)
    name = names.run_object("digits", 3)
    assert {body["metadata"]["name"] for body in (secret, job)} == {name}
    assert secret["data"] == {
        "certificate": base64.b64encode(b"the certificate").decode(),
        "key": base64.b64encode(b"the key").decode(),
    }
    template = job["spec"]["template"]
    for metadata in (secret["metadata"], job["metadata"], template["metadata"]):
        assert metadata["labels"]["tfapp/run"] == "3"
    mounted = [v["secret"]["secretName"] for v in template["spec"]["volumes"] if "secret" in v]
    assert mounted == [name, "tfapp-digits", "tfapp-digits"]
    environment = {e["name"]: e for e in template["spec"]["containers"][0]["env"]}
    assert environment["TFAPP_RUN"]["valueFrom"]["fieldRef"] == {
        "fieldPath": "metadata.labels['tfapp/run']"
    }


def test_a_pod_of_a_later_run():
    pod = pods(compiled().plan, AT)["worker"]
    third = pods(compiled().plan, Places("digits", "ann", "ml", run=3))["worker"]
    assert of_run(pod, "digits", 3) == third != pod


def test_what_is_owned_goes_with_the_record():
    record = {"metadata": {"name": "tfapp-digits", "uid": "1-2"}}
    body = {"kind": "Secret", "metadata": {"name": "s"}}
    assert owned(body, record)["metadata"] == {
        "name": "s",
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "tfapp-digits",
                "uid": "1-2",
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_names_of_no_kind_of_object_are_given_too():
    """Slider's names have '_' and 100 characters."""
    at = Places("my_" + "long" * 20, "ann", "ml")
    for body in objects(compiled(name=at.name), at, {}, CREDENTIALS):
        assert len(body["metadata"]["name"]) < 63
        assert body["metadata"]["annotations"]["tfapp/name"] == at.name
        assert all(len(value) <= 63 for value in body["metadata"]["labels"].values())
