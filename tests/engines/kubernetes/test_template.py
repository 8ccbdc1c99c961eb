"""Files that are no pod template. What becomes of one that is: golden/everything."""

import dataclasses
import json
import textwrap

import pytest

from tests.compiler.packages import MemorySource, compile_with, options, package, resources
from tests.compiler.packages import resources as resources_of
from tfapp.engines.kubernetes.pods import Places, check, pods
from tfapp.engines.kubernetes.template import read_template
from tfapp.package.model import ConfigValue
from tfapp.problems import WARNING, Position

AT = Places.of(options(), "ml")
SETTINGS = {
    "site.global.docker.image": "train:3",
    "site.global.kubernetes.pod.template": "pod.yaml",
}


def with_template(text, name="pod.yaml"):
    """(the worker's pod, findings without the file's name) with `text` as a file of the package."""
    settings = {**SETTINGS, "site.global.kubernetes.pod.template": name}
    built = package(settings=settings, source=MemorySource({name: text.encode()}))
    compiled = compile_with(built)
    problems = sorted(check(compiled.plan, AT))
    told = [f"{p.position}: {p.severity}: {p.message}" for p in problems]
    pod = pods(compiled.plan, AT)["worker"]
    return pod, [text.removeprefix("app/pod.yaml:") for text in told]


POD = "spec: {containers: [{name: a}]}"
WRONG = {
    "": "1:1: error: expected a Pod",
    "[1]": "1:1: error: expected a Pod",
    "kind: Service\nspec: {}": "1:7: error: expected a Pod, found a Service",
    "kind: Deployment": "1:7: error: expected a Pod, found Deployment",
    "kind: PodTemplate": "1:7: error: expected a Pod, found PodTemplate",
    "kind: Pod": "1:1: error: the template: expected a Pod with a 'spec'",
    "spec: {}": "1:1: error: spec: expected at least one container",
    "spec: {containers: x}": "1:8: error: spec.containers: expected a list",
    "spec: {containers: [{image: x}]}": (
        "1:21: error: spec.containers.0: expected an entry with a 'name'"
    ),
    "spec: {containers: [{name: a}, {name: a}]}": (
        "1:32: error: spec.containers.1: expected one entry with the name 'a', found two"
    ),
    "spec: {containers: [{name: a, env: {A: 1}}]}": (
        "1:31: error: spec.containers.0.env: expected a list"
    ),
    "spec: {containers: [{name: a, volumeMounts: [{name: x}]}]}": (
        "1:46: error: spec.containers.0.volumeMounts.0: expected an entry with a 'mountPath'"
    ),
    f"metadata: []\n{POD}": None,
    f"metadata: [1]\n{POD}": "1:1: error: metadata: expected a mapping",
    f"metadata: {{labels: {{a: 1}}}}\n{POD}": (
        "1:21: error: metadata.labels.a: expected text (quote it)"
    ),
    "spec: {containers: [{name: a}], initContainers: [{name: tfapp}]}": (
        "1:51: error: an init container cannot be called 'tfapp': the program's is"
    ),
    "a: [": "2:1: error: expected a value",
    f"{POD}\n---\n{POD}": "2:1: error: a second document begins here, expected one in a file",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_pod_is_told(text):
    assert with_template(text)[1] == ([WRONG[text]] if WRONG[text] else [])


def test_a_service_is_answered_with_the_reason_why_none_is_needed():
    files = {"pod.yaml": b"kind: Service"}
    built = package(settings=SETTINGS, source=MemorySource(files))
    (problem,) = check(compile_with(built).plan, AT)
    assert problem.hint == "remove it: programs reach each other by the addresses of their pods"


def test_a_pod_template_and_json_are_templates():
    spec = {"containers": [{"name": "x"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    text = json.dumps({"kind": "PodTemplate", "template": template})
    pod, told = with_template(text, "pod.json")
    assert told == []
    assert pod["metadata"]["labels"]["a"] == "b"


def test_a_template_by_its_absolute_path(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text("spec: {nodeName: here, containers: [{name: x}]}")
    settings = {**SETTINGS, "site.global.kubernetes.pod.template": str(path)}
    built = package(settings=settings)
    made = pods(compile_with(built).plan, AT)
    assert made["worker"]["spec"]["nodeName"] == "here"


def test_a_template_beside_the_file_that_names_it(tmp_path):
    """A file that --template gives, which the package does not have."""
    tmp_path.joinpath("other.yaml").write_text("spec: {nodeName: here, containers: [{name: x}]}")
    at = Position(str(tmp_path / "appConfig.yaml"), 3, 5)
    value = ConfigValue("other.yaml", at, at)
    template, problems = read_template(package(), value, "other.yaml")
    assert problems == []
    assert template is not None
    assert template.at("spec", "nodeName") == Position(str(tmp_path / "other.yaml"), 1, 8)


def test_the_image_of_the_template_is_used_where_none_is_given():
    settings = {"site.global.kubernetes.pod.template": "pod.yaml"}
    text = "spec: {containers: [{name: side, image: s}, {name: tfapp, image: mine:1}]}"
    built = package(settings=settings, source=MemorySource({"pod.yaml": text.encode()}))
    compiled = compile_with(built)
    assert [p.severity for p in check(compiled.plan, AT)] == [WARNING]  # of the sidecar
    containers = pods(compiled.plan, AT)["worker"]["spec"]["containers"]
    assert [(c["name"], c["image"]) for c in containers] == [("tfapp", "mine:1"), ("side", "s")]


def test_what_is_the_same_is_no_conflict():
    text = textwrap.dedent("""\
        metadata: {namespace: ml}
        spec:
          restartPolicy: Never
          containers:
            - name: tfapp
              image: train:3
              securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        """)
    assert with_template(text)[1] == []


NAMED_IN = {
    "a file": Position("app/appConfig.yaml", 3, 5),
    "the command line": Position("--option"),
}
SIZES = """\
spec:
  containers:
    - name: tfapp
      image: theirs:1
      resources: {requests: {memory: 3Gi, cpu: 700m}}
"""


@pytest.mark.parametrize(
    ("named", "memory_said", "memory", "warnings"),
    [
        ("a file", "a file", "2176Mi", 3),
        ("a file", "the command line", "2176Mi", 3),
        ("the command line", "a file", "3Gi", 0),
        ("the command line", "the command line", "2176Mi", 1),
    ],
)
def test_a_template_of_the_command_line_goes_before_files(named, memory_said, memory, warnings):
    """`tfapp run --pod-file`: the package that it makes has sizes of its own."""
    at = NAMED_IN[named]
    template = {"site.global.kubernetes.pod.template": ConfigValue("pod.yaml", at, at)}
    built = package(
        settings={"site.global.docker.image": "ours:1"},
        source=MemorySource({"pod.yaml": SIZES.encode()}),
        resources={
            "worker": resources("worker", positions={
                "yarn.memory": NAMED_IN[memory_said], "yarn.vcores": NAMED_IN["a file"],
            })
        },
    )  # fmt: skip
    values = {**built.config.components["worker"], **template}
    config = dataclasses.replace(built.config, components={"worker": values})
    built = dataclasses.replace(built, config=config)
    compiled = compile_with(built)
    (container,) = pods(compiled.plan, AT)["worker"]["spec"]["containers"]
    ours = named == "a file"
    assert container["image"] == ("ours:1" if ours else "theirs:1")
    assert container["resources"] == {
        "requests": {"cpu": "1" if ours else "700m", "memory": memory},
        "limits": {} if memory == "3Gi" else {"memory": memory},
    }
    assert [p.severity for p in check(compiled.plan, AT)] == [WARNING] * warnings


def sized(resources, said=(), gpus=0):
    """(resources of the worker's container, words on its limit, warnings) with a template that has
    these. `said`: what the package says; it is 2 GiB, 1 core and `gpus`."""
    at = NAMED_IN["a file"]
    files = {"pod.yaml": f"spec: {{containers: [{{name: a, resources: {resources}}}]}}".encode()}
    positions = dict.fromkeys(said, at)
    built = package(
        settings=SETTINGS,
        source=MemorySource(files),
        resources={"worker": resources_of("worker", gpus=gpus, positions=positions)},
    )
    compiled = compile_with(built)
    (container,) = pods(compiled.plan, AT)["worker"]["spec"]["containers"]
    words = next(v["value"] for v in container["env"] if v["name"] == "TFAPP_OWN_CGROUP")
    told = [problem.message for problem in check(compiled.plan, AT)]
    return container["resources"], words, told


GPU = "nvidia.com/gpu"
DEFAULT = "its limit is 2176Mi: yarn.memory and 128Mi for the runner"
BY_PACKAGE = "its limit is 2176Mi: yarn.memory at appConfig.yaml:3 and 128Mi for the runner"
NO_LIMIT = "it has no limit, so its node has too little"
BY_TEMPLATE = "its limit is 4Gi, by pod.yaml:1; raise it there"
# The template's, what the package says -> requests, limits, words on the limit, warnings.
RULES = [
    ("{}", (), {"cpu": "1", "memory": "2176Mi"}, {"memory": "2176Mi"}, DEFAULT, 0),
    # A request alone is no limit; a limit alone is the request as well, as Kubernetes has it.
    ("{requests: {memory: 1Gi}}", (), {"cpu": "1", "memory": "1Gi"}, {}, NO_LIMIT, 0),
    ("{limits: {memory: 4Gi}}", (), {"cpu": "1"}, {"memory": "4Gi"}, BY_TEMPLATE, 0),
    (
        "{requests: {memory: 1Gi, cpu: 2}, limits: {memory: 4Gi, cpu: 3}}",
        (),
        {"cpu": 2, "memory": "1Gi"},
        {"cpu": 3, "memory": "4Gi"},
        BY_TEMPLATE,
        0,
    ),
    ("{limits: {cpu: 3}}", (), {"memory": "2176Mi"}, {"memory": "2176Mi", "cpu": 3}, DEFAULT, 0),
    # The package's values are both, and go before the template's.
    (
        "{requests: {memory: 1Gi}, limits: {memory: 4Gi}}",
        ("yarn.memory",),
        {"cpu": "1", "memory": "2176Mi"},
        {"memory": "2176Mi"},
        BY_PACKAGE,
        2,
    ),
    (
        "{requests: {cpu: 500m}, limits: {cpu: 2}}",
        ("yarn.vcores",),
        {"cpu": "1", "memory": "2176Mi"},
        {"memory": "2176Mi", "cpu": 2},
        DEFAULT,
        1,
    ),
    (
        "{limits: {cpu: 500m}}",
        ("yarn.vcores",),
        {"cpu": "1", "memory": "2176Mi"},
        {"memory": "2176Mi"},
        DEFAULT,
        1,
    ),
    # Others are the template's alone.
    (
        "{requests: {ephemeral-storage: 1Gi}, limits: {ephemeral-storage: 2Gi, nvidia.com/gpu: 1}}",
        (),
        {"cpu": "1", "memory": "2176Mi", "ephemeral-storage": "1Gi"},
        {"memory": "2176Mi", "ephemeral-storage": "2Gi", GPU: 1},
        DEFAULT,
        0,
    ),
]


@pytest.mark.parametrize(("theirs", "said", "requests", "limits", "words", "warnings"), RULES)
def test_requests_and_limits(theirs, said, requests, limits, words, warnings):
    found, told_words, told = sized(theirs, said)
    assert found == {"requests": requests, "limits": limits}
    assert (told_words, len(told)) == (words, warnings)


def test_the_gpus_of_the_package_are_request_and_limit():
    """Which Kubernetes wants to be equal: the limit alone is both."""
    theirs = "{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}"
    found, _, told = sized(theirs, gpus=2)
    assert (GPU in found["requests"], found["limits"][GPU]) == (False, "2")
    assert told == [f"container 'a': its {GPU} is 2, as the resources say"] * 2


def test_the_script_volume_of_tf_spawner_is_in_no_container():
    """tfapp brings the program itself."""
    mount = "volumeMounts: [{name: script, mountPath: /script}, {name: a, mountPath: /a}]"
    text = (
        "spec: {volumes: [{name: script, configMap: {name: script}}, {name: a, emptyDir: {}}], "
        f"containers: [{{name: x, {mount}}}], "
        f"initContainers: [{{name: y, restartPolicy: Always, {mount}}}]}}"
    )
    pod, told = with_template(text)
    spec = pod["spec"]
    containers = (*spec["containers"], *spec["initContainers"])
    mounted = [{m["name"] for m in c["volumeMounts"]} & {"script", "a"} for c in containers]
    assert ("script" in {v["name"] for v in spec["volumes"]}, mounted) == (False, [{"a"}, {"a"}])
    assert told == []
