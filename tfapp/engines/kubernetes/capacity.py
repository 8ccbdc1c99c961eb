"""Checks whether the nodes of a cluster and the quotas of a namespace could ever take pods.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

Object = Mapping[str, Any]
Amounts = dict[str, Decimal]

_UNITS = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    "m": Decimal(1) / 1000,
    "u": Decimal(1) / 10**6,
    "n": Decimal(1) / 10**9,
}
# Taints of a node's state, which passes.
_OF_STATE = "node.kubernetes.io/"
_HOST = "kubernetes.io/hostname"


class Lack(NamedTuple):
    """The reason why no node takes a pod. `field`: the field of the pod that asks for it."""

    field: str
    message: str
    hint: str = ""


class Demand(NamedTuple):
    """`instances` pods with the same resources."""

    name: str
    instances: int
    pod: Object


def quantity(text: object) -> Decimal:
    """Parses a quantity: "100m", "2Gi" or "1e3" -> a number. ValueError for other text."""
    word = str(text).strip()
    for unit in (word[-2:], word[-1:]):
        if unit in _UNITS:
            word, factor = word[: -len(unit)], _UNITS[unit]
            break
    else:
        factor = Decimal(1)
    try:
        return Decimal(word) * factor
    except InvalidOperation:
        raise ValueError(f"{text!r} is no quantity") from None


def requests(pod: Object) -> Amounts:
    """The resources that a pod requests from its node."""
    return _amounts(pod, "requests", "limits")


def limits(pod: Object) -> Amounts:
    """The resource limits of a pod's containers, as far as they are set."""
    return _amounts(pod, "limits", "limits")


def _amounts(pod: Object, first: str, second: str) -> Amounts:
    spec = pod["spec"]
    together: Amounts = {}
    begin: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _of_container(container, first, second)
        if container.get("restartPolicy") == "Always":
            _add(together, asked)
            asked = {}
        for name, amount in asked.items():
            begin[name] = max(begin.get(name, Decimal(0)), amount + together.get(name, Decimal(0)))
    for container in spec["containers"]:
        _add(together, _of_container(container, first, second))
    for name, amount in begin.items():
        together[name] = max(together.get(name, Decimal(0)), amount)
    return {name: amount for name, amount in together.items() if amount}


def _of_container(container: Object, first: str, second: str) -> Amounts:
    resources = container.get("resources") or {}
    asked = {**(resources.get(second) or {}), **(resources.get(first) or {})}
    return {name: quantity(amount) for name, amount in asked.items()}


def _add(to: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, Decimal(0)) + amount


# ---- Nodes ------------------------------------------------------------------------------------


def lacks(name: str, pod: Object, nodes: Sequence[Object]) -> list[Lack]:
    """The reasons why the pod of the component `name` fits on none of `nodes`, even if they were
    empty; [] if it fits on one."""
    spec = pod["spec"]
    chosen = spec.get("nodeSelector") or {}
    found = [node for node in nodes if _has(node, chosen)]
    if not found:
        labels = ", ".join(f"{key}={value}" for key, value in chosen.items())
        return [Lack("spec.nodeSelector", f"no node has the labels of {name}, {labels}")]
    terms = _required(spec)
    placed = [node for node in found if not terms or any(_matches(node, term) for term in terms)]
    if not placed:
        hosts = ", ".join(sorted(_labels(node).get(_HOST, "") for node in nodes))
        wanted = "; ".join(", ".join(map(_worded, _expressions(term))) for term in terms)
        message = f"no node is as {name} asks: {wanted}"
        return [Lack("spec.affinity", message, f"Nodes: {hosts}.")]
    tolerated = [node for node in placed if not _repelled(node, spec.get("tolerations") or ())]
    if not tolerated:
        taints = sorted(
            {taint for n in placed for taint in _repelled(n, spec.get("tolerations") or ())}
        )
        return [
            Lack(
                "spec.tolerations",
                f"all nodes that {name} may run on keep its pods away: {', '.join(taints)}",
                "Name the taints in site.global.kubernetes.tolerations.",
            )
        ]
    return list(_too_large(name, requests(pod), tolerated))


def _too_large(name: str, asked: Amounts, nodes: Sequence[Object]) -> Iterator[Lack]:
    sizes = [_allocatable(node) for node in nodes]
    single = False
    for resource, amount in sorted(asked.items()):
        most = max(size.get(resource, Decimal(0)) for size in sizes)
        if amount <= most:
            continue
        single = True
        if not most:
            message = f"{name} asks for {resource}, and no node that it may run on has any"
        else:
            message = (
                f"a pod of {name} asks for {shown(resource, amount)}, and the largest node that it "
                f"may run on has {shown(resource, most)}"
            )
        yield Lack(f"resources.{resource}", message, "It would wait for ever. Ask for less.")
    if not single and not any(
        all(size.get(resource, Decimal(0)) >= amount for resource, amount in asked.items())
        for size in sizes
    ):
        together = ", ".join(shown(resource, amount) for resource, amount in sorted(asked.items()))
        yield Lack(
            "resources",
            f"no single node that {name} may run on has all that its pod asks for: {together}",
            "It would wait for ever. Ask for less.",
        )


def shown(resource: str, amount: Decimal) -> str:
    """An amount of a resource for messages: "2048 MiB of memory", "0.5 cpu", "2 nvidia.com/gpu"."""
    if resource.rpartition(".")[2] in ("memory", "ephemeral-storage"):
        return f"{_number(amount / 2**20)} MiB of {resource}"
    return f"{_number(amount)} {resource}"


def _number(amount: Decimal) -> str:
    return f"{round(amount, 1):f}".removesuffix(".0")


def _allocatable(node: Object) -> Amounts:
    status = node.get("status") or {}
    found = status.get("allocatable") or status.get("capacity") or {}
    return {name: quantity(amount) for name, amount in found.items()}


def total(nodes: Iterable[Object]) -> Amounts:
    """The total resources of the nodes."""
    found: Amounts = {}
    for node in nodes:
        _add(found, _allocatable(node))
    return found


def ready(node: Object) -> bool:
    """Whether a node is ready and not cordoned."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    says = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return says and not (node.get("spec") or {}).get("unschedulable")


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _has(node: Object, labels: Mapping[str, str]) -> bool:
    own = _labels(node)
    return all(own.get(key) == value for key, value in labels.items())


def _required(spec: Object) -> Sequence[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or ()


def _expressions(term: Object) -> Sequence[Object]:
    return [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]


def _matches(node: Object, term: Object) -> bool:
    own = {**_labels(node), "metadata.name": node["metadata"]["name"]}
    for each in _expressions(term):
        key, operator, values = each["key"], each["operator"], each.get("values") or ()
        if operator == "In" and own.get(key) not in values:
            return False
        if operator == "Exists" and key not in own:
            return False
        if operator == "NotIn" and own.get(key) in values:
            return False
        if operator == "DoesNotExist" and key in own:
            return False
    return True


def _worded(expression: Object) -> str:
    values = expression.get("values") or ()
    words = [expression["key"], expression["operator"], *([", ".join(values)] if values else [])]
    return " ".join(words)


def _repelled(node: Object, tolerations: Iterable[Object]) -> list[str]:
    """The taints that the pod does not tolerate, in the notation of kubectl."""
    tolerations = list(tolerations)
    return [
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}".replace("=:", ":")
        for taint in (node.get("spec") or {}).get("taints") or ()
        if taint["effect"] in ("NoSchedule", "NoExecute")
        and not taint["key"].startswith(_OF_STATE)
        and not any(_tolerates(each, taint) for each in tolerations)
    ]


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


# ---- Quotas -----------------------------------------------------------------------------------


class Excess(NamedTuple):
    """A quota that `demands` exceed together, even if nothing else ran. `name`: that of the largest
    demand. `resource`: as in a pod."""

    name: str
    resource: str
    message: str


def excesses(demands: Sequence[Demand], quotas: Iterable[Object]) -> Iterator[Excess]:
    """The exceeded limits of quotas without scopes."""
    for quota in quotas:
        spec = quota.get("spec") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        for key, most in sorted((spec.get("hard") or {}).items()):
            parts = [demand.instances * counted(key, demand.pod) for demand in demands]
            asked, allowed = sum(parts, Decimal(0)), quantity(most)
            if asked > allowed:
                largest = demands[parts.index(max(parts))]
                yield Excess(
                    largest.name,
                    _resource(key),
                    f"all pods together ask for {shown(key, asked)}, and the quota "
                    f"{quota['metadata']['name']!r} allows {shown(key, allowed)}",
                )


def counted(key: str, pod: Object) -> Decimal:
    """The amount that a pod uses of the key of a quota; 0 for keys that do not concern pods."""
    if key in ("pods", "count/pods"):
        return Decimal(1)
    amounts = limits(pod) if key.startswith("limits.") else requests(pod)
    return amounts.get(_resource(key), Decimal(0))


def _resource(key: str) -> str:
    """The resource of a quota's key: "requests.nvidia.com/gpu" -> "nvidia.com/gpu"."""
    kind, _, resource = key.partition(".")
    return resource if kind in ("requests", "limits") else key
