"""The components that a call asks for: the instances of each, and their resources.

Standard library only: a program may have such values at its top level, and is loaded in
containers too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Union

Amount = Union[int, str]


@dataclasses.dataclass(frozen=True)
class Component:
    """One component of an application. None: the package's own value, which in tfapp's TensorFlow
    package is 2 GiB, one core and no GPU.

    `memory`: MiB of one instance, or text such as "2 GiB" or "max". `vcores`: its virtual cores.
    `gpus`: its GPUs; its program sees these and no others. `label`: the node label it is placed
    by. `python`: the interpreter of its programs, a path on the machines where they run.
    `program`: what its instances run, where that is not the call's program. `options`: keys of
    appConfig or resources for this component, such as {"env.OMP_NUM_THREADS": 4}.

    >>> Component("4 GiB", vcores=2, instances=8).instances
    8
    """

    memory: Amount | None = None
    vcores: Amount | None = None
    instances: int = 1
    gpus: int | None = None
    label: str | None = None
    python: str | None = None
    program: object = None
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)


def single_server(
    memory: Amount | None = None,
    vcores: Amount | None = None,
    *,
    gpus: int | None = None,
    evaluator: bool = False,
    tensorboard: bool = False,
) -> dict[str, Component]:
    """One chief alone.

    >>> sorted(single_server(evaluator=True))
    ['chief', 'evaluator']
    """
    chief = Component(memory, vcores, gpus=gpus)
    return {"chief": chief, **_beside(chief, evaluator, tensorboard)}


def all_reduce(
    workers: int = 2,
    memory: Amount | None = None,
    vcores: Amount | None = None,
    *,
    gpus: int | None = None,
    evaluator: bool = False,
    tensorboard: bool = False,
) -> dict[str, Component]:
    """Workers that train alike, for `tf.distribute.MultiWorkerMirroredStrategy`.

    >>> all_reduce(4)["worker"].instances
    4
    """
    worker = Component(memory, vcores, workers, gpus)
    return {"worker": worker, **_beside(worker, evaluator, tensorboard)}


def parameter_servers(
    workers: int = 2,
    ps: int = 1,
    memory: Amount | None = None,
    vcores: Amount | None = None,
    *,
    gpus: int | None = None,
    evaluator: bool = False,
    tensorboard: bool = False,
) -> dict[str, Component]:
    """A chief, workers and parameter servers. The `gpus` are the chief's and the workers'.

    >>> {name: one.instances for name, one in parameter_servers(3).items()}
    {'chief': 1, 'worker': 3, 'ps': 1}
    """
    chief = Component(memory, vcores, gpus=gpus)
    return {
        "chief": chief,
        "worker": Component(memory, vcores, workers, gpus),
        "ps": Component(memory, vcores, ps),
        **_beside(chief, evaluator, tensorboard),
    }


def _beside(like: Component, evaluator: bool, tensorboard: bool) -> dict[str, Component]:
    found = {}
    if evaluator:
        found["evaluator"] = Component(like.memory, like.vcores)
    if tensorboard:
        found["tensorboard"] = Component("1 GiB")
    return found
