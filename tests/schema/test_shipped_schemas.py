"""The schema files themselves: they are schemas and a manual, and they know Slider's words."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from tfapp.documents import Document
from tfapp.schema import KINDS, check_document, describe, schema_text

SCHEMAS = {kind: json.loads(schema_text(kind)) for kind in KINDS}
ROWS = [pytest.param(row, id=f"{kind} {row.section} {row.key}") for kind in KINDS
        for row in describe(kind)]  # fmt: skip
ANNOTATIONS = (
    *(
        "capitals",
        "code",
        "expected",
        "hint",
        "ignored",
        "key",
        "message",
        "prefix",
        "refused",
        "secret",
    ),
    "unknown",
)


@pytest.mark.parametrize("kind", KINDS)
def test_it_passes_the_metaschema(kind):
    Draft202012Validator.check_schema(SCHEMAS[kind])
    assert SCHEMAS[kind]["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def subschemas(value):
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from subschemas(inner)


@pytest.mark.parametrize("kind", KINDS)
def test_its_annotations_are_known_ones(kind):
    used = {key for schema in subschemas(SCHEMAS[kind]) for key in schema if key.startswith("x-")}
    assert used <= {f"x-tfapp-{word}" for word in ANNOTATIONS}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_ignored_is_deprecated_and_what_is_refused_allows_nothing(kind):
    for schema in subschemas(SCHEMAS[kind]):
        if isinstance(schema.get("x-tfapp-ignored"), str):
            assert schema.get("deprecated") is True and schema["description"]
        if isinstance(schema.get("x-tfapp-refused"), str):
            assert schema.get("not") == {} and schema["x-tfapp-hint"]


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_and_examples_fit_their_schemas(kind):
    for schema in subschemas(SCHEMAS[kind]):
        checker = Draft202012Validator({**schema, "$defs": SCHEMAS[kind]["$defs"]})
        if "type" in schema or "enum" in schema or "const" in schema:
            values = list(schema.get("examples", ()))
            values += [schema["default"]] if "default" in schema else []
            assert [error.message for value in values for error in checker.iter_errors(value)] == []


@pytest.mark.parametrize("row", ROWS)
def test_every_key_is_explained(row):
    assert re.match(r"[A-Z'$].*[.)]\Z", row.description), row.description
    assert row.type or row.status


# Every word of Slider's vocabulary, and what becomes of it.
SLIDER = {
    "metainfo": {
        "": "schemaVersion application applicationPackage",
        "application": "name version comment exportedConfigs components exportGroups commandOrders "
        "configFiles packages osSpecifics",
        "application.components[]": "name category type commandScript commands appExports "
        "compExports componentExports publishConfig minInstanceCount maxInstanceCount "
        "autoStartOnFailure configFiles dockerContainers",
        "application.components[].commandScript": "script scriptType timeout",
        "application.components[].dockerContainers[]": "name image network useNetworkScript "
        "options mounts ports inputFiles configFiles startCommand statusCommand commandPath "
        "additionalParam runPrivilegedContainer",
        "application.exportGroups[]": "name exports",
        "application.exportGroups[].exports[]": "name value",
        "application.commandOrders[]": "command requires",
        "application.packages[]": "name type",
    },
    "appConfig": {
        "": "schema metadata global components credentials",
        "global": "application.def application.addons application.addon.x application.resources "
        "java_home site.global.app_version site.global.app_root site.global.app_install_dir "
        "site.global.pid_file site.global.app_user site.global.app_log_dir site.global.app_pid_dir "
        "site.global.app_conf_dir site.global.app_input_conf_dir site.global.app_container_id "
        "site.global.app_container_tag site.global.app_container.release_timeout_secs "
        "site.global.slider.allowed.ports site.global.component_type role.prefix "
        "env.MALLOC_ARENA_MAX jvm.heapsize jvm.opts gc.opts role.additional.args system_configs "
        "am.config.generation conf.x.per.component conf.x.per.group create.default.zookeeper.node "
        "wait.heartbeat container.launch.delay.sec heartbeat.monitor.interval "
        "heartbeat.lost.interval agent.conf agent.version agent.package.root "
        "agent.python.exec.path agent.instance.debug.data ssl.server.client.auth "
        "slider.am.keytab.local.path slider.hdfs.keytab.dir slider.keytab.principal.name "
        "slider.component.security.stores.required service.record.attribute.x "
        "internal.chaos.monkey.enabled internal.container.failure.shortlife "
        "escalation.check.interval.seconds site.fs.defaultFS site.fs.default.name zookeeper.path "
        "zookeeper.quorum zookeeper.hosts site.global.hadoop.conf site.global.yarn.cgroup.root "
        "site.global.user.scripts.entry site.global.user.checkpoint.prefix site.global.user.name "
        "site.global.zookeeper.quorum site.global.docker.image site.global.ps.port "
        "tf.image tf.ports.hostPort tf.mounts.hostMount tf.inputFiles.containerPath "
        "tf.yarn.container.mount.points tf.options tf.lifetime",
    },
    "resources": {
        "": "schema metadata global components credentials",
        "components.worker": "yarn.role.priority yarn.component.instances yarn.memory yarn.vcores "
        "yarn.resource.normalization.enabled yarn.label.expression component.unique.names "
        "yarn.component.placement.policy yarn.placement.escalate.seconds "
        "yarn.container.failure.threshold yarn.container.failure.window.days "
        "yarn.container.failure.window.hours yarn.container.failure.window.minutes "
        "yarn.container.failure.window.seconds yarn.node.failure.threshold "
        "yarn.container.health.threshold.percent yarn.container.health.threshold.window.secs "
        "yarn.container.health.threshold.poll.frequency.secs "
        "yarn.container.health.threshold.init.delay.secs yarn.log.include.patterns "
        "yarn.log.exclude.patterns yarn.resourcemanager.am.retry-count-window-ms "
        "yarn.resource-profile-name yarn.disks.count-per-instance yarn.disk.size",
        "components.slider-appmaster": "yarn.memory yarn.vcores yarn.label.expression "
        "yarn.component.instances",
    },
}
WORDS = [
    (kind, section, word)
    for kind, sections in SLIDER.items()
    for section, words in sections.items()
    for word in words.split()
]


@pytest.mark.parametrize(("kind", "section", "word"), WORDS)
def test_no_word_of_sliders_is_unknown(kind, section, word):
    value = {word: "x"}
    for step in reversed(section.split(".")) if section else ():
        value = {step[:-2]: [value]} if step.endswith("[]") else {step: value}
    _, problems = check_document(Document.from_value(value, "f"), kind)
    assert [problem for problem in problems if problem.code == "unknown-key"] == []
