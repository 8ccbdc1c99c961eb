"""How an instance is called, and the container in which it begins."""

from __future__ import annotations


def instance_id(component: str, index: int) -> str:
    """ "worker", 1 -> "worker/1"."""
    return f"{component}/{index}"


def parse_instance(text: str) -> tuple[str, int]:
    """ "worker/1" -> ("worker", 1). ValueError for anything else."""
    component, slash, index = text.rpartition("/")
    if not slash or not component or not index.isdigit():
        raise ValueError(f"{text!r} is not an instance such as 'worker/0'")
    return component, int(index)


def initial_container(instance: str) -> str:
    """Skein's id of the container in which an instance begins, "worker/1" -> "worker_1": Skein
    numbers the containers of a service from 0, those it begins with first."""
    return "{}_{}".format(*parse_instance(instance))


def initial_instance(container: str) -> str:
    """The instance that begins in a container, "worker_1" -> "worker/1"."""
    component, _, index = container.rpartition("_")
    return f"{component}/{index}"
