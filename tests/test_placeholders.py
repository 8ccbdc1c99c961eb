"""Placeholders: what is one, where it stands, and what replacing it gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp import placeholders
from tfapp.placeholders import Placeholder, find, resolve, substitute


def spell(text):
    return [text[p.start : p.end] for p in find(text)]


@pytest.mark.parametrize("name", sorted(placeholders.NAMES))
def test_each_name_has_one_kind(name):
    assert find(f"a ${{{name}}} b") == (
        Placeholder(placeholders.NAMES[name], name, 2, len(name) + 5),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("$USER {USER} $ {USER}", ()),
        ("${USER.lc}", (Placeholder("compile", "USER", 0, 10, lower=True),)),
        ("${TASK_INDEX.lc}", (Placeholder("unknown", "TASK_INDEX.lc", 0, 16),)),
        ("${ps_HOST}", (Placeholder("host", "ps_HOST", 0, 10, component="ps"),)),
        ("${_HOST}", (Placeholder("unknown", "_HOST", 0, 8),)),
        (
            "${ps.ALLOCATED_PORT}",
            (Placeholder("port", "ps.ALLOCATED_PORT", 0, 20, component="ps"),),
        ),
        (
            "x${a.b.ALLOCATED_PORT}{PER_CONTAINER}y",
            (
                Placeholder(
                    "port", "a.b.ALLOCATED_PORT", 1, 37, component="a.b", per_container=True
                ),
            ),
        ),
        (
            "${ps.ALLOCATED_PORT}{DEFAULT_6006}{PER_CONTAINER}",
            (
                Placeholder(
                    "port",
                    "ps.ALLOCATED_PORT",
                    0,
                    49,
                    component="ps",
                    default=6006,
                    per_container=True,
                ),
            ),
        ),
        (
            "${ps.ALLOCATED_PORT}{PER_CONTAINER}{DEFAULT_1}",
            (Placeholder("port", "ps.ALLOCATED_PORT", 0, 35, component="ps", per_container=True),),
        ),
        ("${.ALLOCATED_PORT}", (Placeholder("unknown", ".ALLOCATED_PORT", 0, 18),)),
        ("${site.global.a.b}", (Placeholder("reference", "site.global.a.b", 0, 18),)),
        ("${@//site/global/a.b}", (Placeholder("reference", "site.global.a.b", 0, 21),)),
        ("${site.global}", (Placeholder("unknown", "site.global", 0, 14),)),
        ("${@//site/global}", (Placeholder("unknown", "@//site/global", 0, 17),)),
        ("${NOPE}", (Placeholder("unknown", "NOPE", 0, 7),)),
        ("${}", (Placeholder("unknown", "", 0, 3),)),
        ("a${open", (Placeholder("unknown", "open", 1, 7),)),
        (
            "${a${USER}",
            (Placeholder("unknown", "a", 0, 3), Placeholder("compile", "USER", 3, 10)),
        ),
    ],
)
def test_find(text, expected):
    assert find(text) == expected


@given(st.text(alphabet="${}ab.PORT_HS", max_size=60))
def test_find_never_overlaps_and_substituting_nothing_changes_nothing(text):
    ends = 0
    for placeholder in find(text):
        assert ends <= placeholder.start < placeholder.end <= len(text)
        ends = placeholder.end
    assert substitute(text, {}) == text


def test_substitute_from_a_mapping():
    text = "${USER}/${CLUSTER_NAME.lc}/${site.global.x}-${@//site/global/x}/${NOPE}"
    values = {"USER": "ann", "CLUSTER_NAME": "JOB", "site.global.x": "${USER}"}
    assert substitute(text, values) == "ann/job/${USER}-${USER}/${NOPE}"


def test_substitute_from_a_function():
    text = "${a.ALLOCATED_PORT}{PER_CONTAINER}:${b.ALLOCATED_PORT}"
    assert substitute(text, lambda p: "1" if p.component == "a" else None) == (
        "1:${b.ALLOCATED_PORT}"
    )


def test_substitute_all_or_nothing():
    assert substitute("${USER}", {"USER": "ann"}, partial=False) == "ann"
    with pytest.raises(KeyError, match=r"\$\{USER.lc\}"):
        substitute("${USER.lc}", {}, partial=False)


def test_compile_values():
    text = " ".join(f"${{{name}}}" for name in ("USER", "APP_NAME", "COMPONENT_NAME"))
    assert substitute(text, placeholders.compile_values("ann", "job", "ps")) == "ann job ps"
    assert substitute(text, placeholders.compile_values("ann", "job", "")) == (
        "ann job ${COMPONENT_NAME}"
    )


@pytest.mark.parametrize(
    ("text", "component"),
    [
        ("${ps_HOST}", "ps"),
        ("${PS_HOST}", "ps"),
        ("${WORKER_HOST}", "WORKER"),
        ("${Ps_HOST}", None),
    ],
)
def test_host_component(text, component):
    (placeholder,) = find(text)
    assert placeholders.host_component(placeholder, ["ps", "worker", "WORKER"]) == component


def test_resolve_is_transitive_and_leaves_the_rest():
    values = {
        "site.global.a": "<${site.global.b}>",
        "site.global.b": "${@//site/global/c}${site.global.gone}",
        "site.global.c": "${WORKER_HOST}",
    }
    assert resolve(values) == {
        "site.global.a": "<${WORKER_HOST}${site.global.gone}>",
        "site.global.b": "${WORKER_HOST}${site.global.gone}",
        "site.global.c": "${WORKER_HOST}",
    }


def test_resolve_names_the_ring():
    values = {
        "site.global.a": "${site.global.b}",
        "site.global.b": "${site.global.c}",
        "site.global.c": "${site.global.b}",
    }
    with pytest.raises(placeholders.ReferenceCycleError) as caught:
        resolve(values)
    assert caught.value.trail == ("site.global.b", "site.global.c", "site.global.b")


def test_resolve_is_bounded_in_length():
    values = {"site.global.x0": "0123456789"}
    for level in range(1, 40):
        values[f"site.global.x{level}"] = f"${{site.global.x{level - 1}}}" * 10
    with pytest.raises(ValueError, match="longer than"):
        resolve(values)


def test_resolve_is_bounded_in_depth():
    values = {f"site.global.x{n}": f"${{site.global.x{n + 1}}}" for n in range(2000)}
    with pytest.raises(ValueError, match="references"):
        resolve(values)
