"""The components of an application in a Python call: their instances and resources.

A program may use these at its top level and is imported in containers too, so this module uses the
standard library only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Union

Amount = Union[int, str]


@dataclasses.dataclass(frozen=True)
class Component:
    """One component of an application. None means the package's default, which is 2 GiB, one core
    and no GPU in tfapp's TensorFlow package.

    `memory`: MiB of one instance, or text such as "2 GiB" or "max". `vcores`: its virtual cores.
    `gpus`: its GPUs; its program sees no others. `label`: the label of the nodes on which it runs.
    `python`: the path of the interpreter of its programs, on the machines where they run.
    `program`: the program of its instances, if it is not that of the call. `options`: keys of
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
    """A single chief, optionally with an evaluator and a TensorBoard.

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
    """Workers without a chief, for `tf.distribute.MultiWorkerMirroredStrategy`.

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
    """A chief, workers and parameter servers, for `tf.distribute.ParameterServerStrategy`. Only the
    chief and the workers get `gpus`.

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
