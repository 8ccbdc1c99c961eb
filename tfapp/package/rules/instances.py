"""Rules for the number of instances, their order of start, and the success policy."""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.package.model import AppPackage, Component
from tfapp.package.rules.rule import Found, rule
from tfapp.problems import WARNING, Position

INSTANCES = "yarn.component.instances"
LEAST = "yarn.component.instances.min"
ELASTIC_ROLES = ("worker", "other")
ENDLESS_ROLES = ("ps", "tensorboard", "dispatcher", "dataworker")


@rule("cluster-layout", "metainfo", "resources")
def cluster_layout(package: AppPackage) -> Iterator[Found]:
    """Instances that do not make a TensorFlow cluster.

    A cluster has at most one chief and at most one evaluator, over all components of the role;
    `ps` serve workers or a chief; data workers need the one dispatcher of tf.data service. `ps`
    with workers and without a chief is the layout of a program that elects one itself (worker 0):
    a warning. An application without any instance does nothing. Reported at the number of
    instances of the component that is one too many or alone.

        chief 1, worker 2, ps 1     PASS
        worker 2                    PASS
        worker 2, ps 1              WARNING
        chief 2                     FAIL
        evaluator 2                 FAIL
        ps 2                        FAIL
        worker 1, dataworker 1      FAIL
    """
    names = [component.name for component in package.components]
    if not _misnamed(package) and not any(map(package.instances, names)):
        yield Found(
            package.positions["resources"],
            "no component has an instance, so nothing would run",
            f"set {INSTANCES} of a component",
        )
    yield from _check_single(package, "chief", "a second one would train on its own")
    yield from _check_single(package, "evaluator", "TensorFlow knows one evaluator")
    yield from _check_single(package, "dispatcher", "trainers read from one tf.data service")
    yield from _check_ps(package)
    yield from _check_data_workers(package)


def _misnamed(package: AppPackage) -> bool:
    """Whether resources are for a component that metainfo lacks, which another rule says: one that
    lacks resources may be the one that is meant."""
    known = {component.name for component in package.components}
    return not package.resources.keys() <= known


def _check_single(package: AppPackage, role: str, why: str) -> Iterator[Found]:
    running = _running(package, role)
    total = sum(package.instances(component.name) for component in running)
    if total > 1 and not any(_exceeds_its_maximum(package, component) for component in running):
        names = ", ".join(component.name for component in running)
        message = f"there are {total} instances of role {role} ({names}), expected at most 1"
        yield Found(_place(package, running[-1]), message, why)


def _exceeds_its_maximum(package: AppPackage, component: Component) -> bool:
    """Reported by instance-count."""
    most = component.max_instances
    return most is not None and package.instances(component.name) > most


def _check_ps(package: AppPackage) -> Iterator[Found]:
    servers = _running(package, "ps")
    if not servers or _running(package, "chief"):
        return
    at, name = _place(package, servers[0]), servers[0].name
    if not _running(package, "worker"):
        message = f"'{name}' has instances, but there is neither a chief nor a worker to serve"
        yield Found(at, message, "add a chief, or workers")
        return
    hint = "tf.distribute's ParameterServerStrategy needs a chief; without one, the program "
    hint += "itself must let worker 0 be it"
    yield Found(at, f"'{name}' serves workers without a chief", hint, WARNING)


def _running(package: AppPackage, role: str) -> list[Component]:
    return [c for c in package.components if c.role == role and package.instances(c.name)]


def _place(package: AppPackage, component: Component) -> Position:
    """The position of the number of instances, or else of `minInstanceCount` in metainfo."""
    asked = package.resources.get(component.name)
    return asked.place(INSTANCES) if asked else component.place("minInstanceCount")


@rule("instance-count", "metainfo", "resources")
def instance_count(package: AppPackage) -> Iterator[Found]:
    """A component has fewer or more instances than its metainfo allows.

    `minInstanceCount` and `maxInstanceCount` bound `yarn.component.instances`; a component that
    resources leave out has 0 instances. A component of category CLIENT can have none. Reported
    at the number of instances, or at the component where resources lack it.

        minInstanceCount: 1    yarn.component.instances: 2     PASS
        minInstanceCount: 1    (not in resources)              FAIL
        maxInstanceCount: 1    yarn.component.instances: 2     FAIL
    """
    for component in package.components:
        name, least, most = component.name, component.min_instances, component.max_instances
        count, at = package.instances(name), _place(package, component)
        has = f"'{name}' has {count} instance{'' if count == 1 else 's'}, metainfo"
        if most is not None and most < least:
            message = f"maxInstanceCount {most} is below minInstanceCount {least}"
            hint = "exchange the two numbers, or remove one"
            yield Found(component.place("maxInstanceCount"), message, hint)
        elif component.category == "CLIENT" and count:
            message = f"'{name}' is of category CLIENT and cannot have instances"
            hint = "give it the category SLAVE or MASTER in metainfo, or set its instances to 0"
            yield Found(at, message, hint)
        elif count < least and (name in package.resources or not _misnamed(package)):
            hint = f"set {INSTANCES} of '{name}' in resources"
            yield Found(at, f"{has} wants at least {least}", hint)
        elif most is not None and count > most:
            yield Found(at, f"{has} allows at most {most}", f"lower {INSTANCES} of '{name}'")


@rule("elastic-minimum", "metainfo", "resources")
def elastic_minimum(package: AppPackage) -> Iterator[Found]:
    """With fewer instances than a component may have, or of a component that is always needed.

    `yarn.component.instances.min` says with how many instances the application trains where there
    is no room for all. It lies between `minInstanceCount` of metainfo and
    `yarn.component.instances`. Only workers, and components of role `other`, can be fewer: a
    cluster without its chief, or with some of its parameter servers, does not train, and there is
    only one evaluator. Reported at the number.

        worker: instances 8, min 4                          PASS
        worker: instances 2, min 4                          FAIL
        worker: instances 8, min 1, minInstanceCount: 2     FAIL
        ps: instances 2, min 1                              FAIL
    """
    for component in package.components:
        asked = package.resources.get(component.name)
        if asked is None or asked.least is None:
            continue
        at, has = asked.place(LEAST), f"{LEAST} of '{component.name}' is {asked.least}"
        if component.role not in ELASTIC_ROLES:
            message = f"{LEAST} of '{component.name}': all instances of role {component.role} are"
            hint = f"remove it; roles that may have it: {', '.join(ELASTIC_ROLES)}"
            yield Found(at, f"{message} always needed", hint)
        elif asked.least > asked.instances:
            message = f"{has}, more than its {asked.instances} instances"
            yield Found(at, message, f"lower it, or raise {INSTANCES}")
        elif asked.least < component.min_instances:
            message = f"{has}, metainfo wants at least {component.min_instances} instances"
            yield Found(at, message, "raise it to minInstanceCount of metainfo")


@rule("success-policy", "metainfo", "resources")
def success_policy(package: AppPackage) -> Iterator[Found]:
    """Nothing would ever decide that the application has succeeded.

    It succeeds when all instances of the components in `successPolicy`, and the instances that it
    names, have exited with 0; without one, when the chief has, or else all workers (or what else
    there is that ends). So these must have instances, and must be able to end: `ps` and
    `tensorboard` run until they are stopped. Reported at the name in successPolicy, or where that
    would stand.

        successPolicy: {components: [worker]}    worker has 2 instances     PASS
        successPolicy: {components: [worker]}    worker has 0 instances     FAIL
        successPolicy: {components: [ps]}                                   FAIL
        successPolicy: {instances: [worker/2]}   worker has 2 instances     FAIL
        no successPolicy, and only tensorboard has instances                FAIL
    """
    by_name = {component.name: component for component in package.components}
    for number, decider in enumerate(package.success):
        name, _, index = decider.partition("/")
        if name not in by_name:
            continue  # unknown-component
        at = package.positions[f"successPolicy.{number}"]
        decides, count = f"'{decider}' decides about success", package.instances(name)
        if (role := by_name[name].role) in ENDLESS_ROLES:
            message = f"{decides}, and a {role} never ends by itself"
            yield Found(at, message, "name components whose programs end")
        elif not count:
            hint = "give it instances in resources, or name another component"
            yield Found(at, f"{decides} and has no instances", hint)
        elif index and int(index) >= count:
            message = f"{decides} and is not there: the last one is {name}/{count - 1}"
            yield Found(at, message, "name one of them, or give it more instances in resources")
    running = [c for c in package.components if package.instances(c.name)]
    endless = running and all(c.role in ENDLESS_ROLES and c.role != "ps" for c in running)
    if endless and not package.success:
        yield Found(
            package.positions["successPolicy"],
            "nothing that has instances ever ends, so the application would not either",
            "give a chief or a worker instances in resources",
        )


def _check_data_workers(package: AppPackage) -> Iterator[Found]:
    for component in _running(package, "dataworker"):
        if not _running(package, "dispatcher"):
            message = f"'{component.name}' has instances, but there is no dispatcher"
            hint = "give a component of role dispatcher one instance"
            yield Found(_place(package, component), message, hint)


@rule("start-order-cycle", "metainfo")
def start_order_cycle(package: AppPackage) -> Iterator[Found]:
    """Components whose commandOrders wait for each other: none of them could ever start.
    Reported once for each ring, at the order with which its first component begins.

    worker-START requires ps-STARTED                                        PASS
    worker-START requires ps-STARTED, ps-START requires worker-STARTED      FAIL
    """
    requires: dict[str, list[str]] = {}
    for order in package.command_orders:
        requires.setdefault(order.component, []).extend(order.requires)
    reported: set[frozenset[str]] = set()
    for order in package.command_orders:
        ring = _ring(requires, order.component, order.requires)
        if ring and frozenset(ring) not in reported:
            reported.add(frozenset(ring))
            message = f"these wait for each other to start: {' -> '.join((*ring, ring[0]))}"
            yield Found(order.at, message, "remove one of these commandOrders")


def _ring(
    requires: dict[str, list[str]], start: str, first: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The shortest way from `start` over `first` back to `start`."""
    ways: list[tuple[str, ...]] = [(start, name) for name in first]
    seen: set[str] = set()
    for way in ways:
        last = way[-1]
        if last == start:
            return way[:-1]
        if last not in seen:
            seen.add(last)
            ways.extend((*way, name) for name in requires.get(last, ()))
    return None
