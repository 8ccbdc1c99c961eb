"""The placeholders that the compiler replaces, and those that it leaves to the containers."""

import pytest

from tests.compiler.packages import package, port_of
from tfapp.compiler.settings import ComponentSettings


def compiled(settings, own=None):
    built = package(settings=settings, own={"worker": own or {}})
    values = built.config.components["worker"]
    return ComponentSettings(values, "worker", user="Ann", application="digits")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain $5 {x}", "plain $5 {x}"),
        ("${USER_NAME}-${USER}-${USER.lc}", "Ann-Ann-ann"),
        ("${CLUSTER_NAME}/${APP_NAME}", "digits/digits"),
        ("${COMPONENT_NAME}/${APP_COMPONENT_NAME}", "worker/worker"),
        ("${COMPONENT_ID} ${CONTAINER_ID}", "${COMPONENT_ID} ${CONTAINER_ID}"),
        ("${WORKER_HOST} ${THIS_HOST}", "${WORKER_HOST} ${THIS_HOST}"),
        (port_of("worker"), port_of("worker")),
        ("${site.global.base}/x", "/mnt/Ann/x"),
        ("${@//site/global/base}/x", "/mnt/Ann/x"),
        ("${site.global.deep}", "/mnt/Ann/deep"),
        ("${site.global.here}", "${site.global.here}"),
        ("${site.global.worker.port}", "${site.global.worker.port}"),
        ("${site.global.missing}", "${site.global.missing}"),
    ],
)
def test_replaced_before_submission(text, expected):
    settings = {
        "site.global.base": "/mnt/${USER}",
        "site.global.deep": "${site.global.base}/deep",
        "site.global.here": "${THIS_HOST}:${site.global.base}",
        "site.global.text": text,
        "env.TEXT": text,
    }
    own = compiled(settings)
    assert own.site["site.global.text"] == expected
    assert own.environment == {"TEXT": expected}
    assert own.expand(text) == expected


def test_a_port_is_never_copied():
    own = compiled({"site.global.url": "http://x:${site.global.worker.port}"})
    assert own.site["site.global.url"] == "http://x:${site.global.worker.port}"


def test_a_component_refers_to_its_own_values():
    own = compiled(
        {"site.global.base": "shared", "site.global.text": "${site.global.base}"},
        {"site.global.base": "own"},
    )
    assert own.site["site.global.text"] == "own"
