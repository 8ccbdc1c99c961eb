"""The API of tf-yarn, for programs that were written for it. Change the import line, and the
programs run with tfapp: on YARN or, with engine="local", on one machine.

    from tfapp.tf_yarn import Experiment, TaskSpec, run_on_yarn

It is a thin layer over `tfapp.run`. An argument that has no effect here is accepted with a warning;
one whose effect would be missed is an error. Containers import this module too.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from tfapp.errors import ApplicationFailedError as RunFailed
from tfapp.errors import UsageError
from tfapp.program.experiment import Experiment, KerasExperiment
from tfapp.topology import Component

__all__ = [
    "ContainerKey",
    "Experiment",
    "KerasExperiment",
    "Metrics",
    "NodeLabel",
    "RunFailed",
    "TaskFlavor",
    "TaskSpec",
    "get_safe_experiment_fn",
    "ps_strategy_topology",
    "run_on_yarn",
    "single_server_topology",
]

_ARCHIVE = "site.global.python.archive"
_ATTEMPTS = "site.global.master.attempts"
TASK_TYPES = ("chief", "worker", "ps", "evaluator", "tensorboard")


class NodeLabel(enum.Enum):
    """The YARN label of the nodes on which a task runs."""

    CPU = ""
    GPU = "gpu"


TaskFlavor = NodeLabel


class TaskSpec:
    """One type of task. `memory`: MiB of one instance, or text such as "2 GiB". `vcores`: its
    virtual cores. `instances`: the number of instances. `label`, or its older name `flavor`: the
    label of the nodes on which they run; that of GPU is "gpu". `gpus`: GPUs of one instance, if
    YARN counts GPUs. `tb_model_dir`, `tb_extra_args`: folder and arguments of TensorBoard.

    >>> TaskSpec(memory=2 * 2**10, vcores=4, flavor=TaskFlavor.GPU).label.value
    'gpu'
    """

    def __init__(
        self,
        memory: int | str,
        vcores: int,
        instances: int = 1,
        nb_proc_per_worker: int | NodeLabel = 1,
        label: NodeLabel | None = None,
        tb_termination_timeout_seconds: int = -1,
        tb_model_dir: str | None = None,
        tb_extra_args: str | None = None,
        *,
        flavor: NodeLabel | None = None,
        gpus: int | None = None,
    ):
        if isinstance(nb_proc_per_worker, NodeLabel):  # the fourth argument in older versions
            flavor, nb_proc_per_worker = nb_proc_per_worker, 1
        if nb_proc_per_worker != 1:
            raise _usage_error(
                "nb_proc_per_worker has no meaning here: an instance is one process",
                "Give more instances.",
            )
        self.memory, self.vcores, self.instances = memory, vcores, instances
        self.label = label or flavor or NodeLabel.CPU
        self.gpus = gpus
        self.tb_model_dir, self.tb_extra_args = tb_model_dir, tb_extra_args
        if tb_termination_timeout_seconds > 0:
            _without_meaning("tb_termination_timeout_seconds", "TensorBoard ends with its training")


def single_server_topology(memory: int | str = 4096, vcores: int = 2) -> dict[str, TaskSpec]:
    """A chief, an evaluator and a TensorBoard.

    >>> sorted(single_server_topology())
    ['chief', 'evaluator', 'tensorboard']
    """
    return {name: TaskSpec(memory, vcores) for name in ("chief", "evaluator", "tensorboard")}


def ps_strategy_topology(
    nb_workers: int = 2, nb_ps: int = 1, memory: int | str = 4096, vcores: int = 2
) -> dict[str, TaskSpec]:
    """A chief, workers, parameter servers, an evaluator and a TensorBoard.

    >>> ps_strategy_topology(nb_workers=3)["worker"].instances
    3
    """
    return {
        **single_server_topology(memory, vcores),
        "worker": TaskSpec(memory, vcores, nb_workers),
        "ps": TaskSpec(memory, vcores, nb_ps),
    }


class ContainerKey(NamedTuple):
    """One task, such as ("worker", 0)."""

    type: str
    id: int


class Metrics(NamedTuple):
    """Durations of an application: of training, of evaluation, and of each task. A task's duration
    is that of its last program. None if it is not known."""

    total_training_duration: datetime.timedelta | None
    total_eval_duration: datetime.timedelta | None
    container_duration: dict[ContainerKey, datetime.timedelta | None]
    train_eval_time_per_node: dict[ContainerKey, datetime.timedelta | None]


def get_safe_experiment_fn(full_fn_name: str, *args: Any) -> Any:
    """Returns the experiment function named "package.module.function". Its module is imported in
    the container only. The function is called with `args`, which must be plain data. UsageError
    for a name without a module.

    >>> get_safe_experiment_fn("trainers.digits.experiment", 0.1).module
    'trainers.digits'
    """
    from tfapp.program.named import NamedFunction

    module, dot, name = full_fn_name.rpartition(".")
    if not dot:
        raise _usage_error(f"{full_fn_name!r} names no module", 'Expected "module.function".')
    return NamedFunction(module, name, args)


def run_on_yarn(
    experiment_fn: Any,
    task_specs: Mapping[str, TaskSpec] | None = None,
    *,
    python: str | None = None,
    pip_packages: list[str] | None = None,
    pyenv_zip_path: str | Mapping[NodeLabel, str] | None = None,
    files: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    queue: str = "default",
    name_nodes: list[str] | None = None,
    file_systems: list[str] | None = None,
    acls: Any = None,
    nb_retries: int = 0,
    name: str | None = None,
    engine: str = "yarn",
    skein_client: Any = None,
    eval_monitor_log_thresholds: Any = None,
    custom_task_module: str | None = None,
    pre_script_hook: str | None = None,
    cuda_runtime_hdfs_path: str | None = None,
    **more: Any,
) -> Metrics:
    """Runs an experiment and returns its durations. Raises RunFailed if it fails, and the errors of
    `tfapp.run`.

    Accepts tf-yarn's arguments; `engine`, "yarn" or "local"; and all arguments of `tfapp.run`.
    After a failure the application itself goes on from its last checkpoint, `nb_retries` times, and
    on YARN it may lose its master as often, within YARN's own limit. No other application is
    submitted. Metrics are logged to the active MLflow run, if there is one. A shipped environment
    (`pip_packages`, `python`) gets the version of TensorFlow that is installed here, unless
    `pip_packages` names one.

    >>> def train():  # in place of a function that returns an Experiment or KerasExperiment
    ...     return {"accuracy": 0.75}
    >>> specs = {"chief": TaskSpec(memory="1 GiB", vcores=1)}
    >>> metrics = run_on_yarn(train, specs, engine="local", name="doc-yarn", show=False)
    >>> sorted(metrics.container_duration)
    [ContainerKey(type='chief', id=0)]
    """
    try:
        from tfapp.api.call import run
        from tfapp.api.mlflow import logging_to_active_run
    except ModuleNotFoundError:
        raise _usage_error(
            "run_on_yarn cannot be called in a container",
            'Call it where you submit from: below `if __name__ == "__main__":`.',
        ) from None
    from tfapp.compiler.options import new_name

    _refuse("custom_task_module", custom_task_module, "Give a program to a tfapp.Component.")
    _refuse("pre_script_hook", pre_script_hook, "Ship a script by files, or use an image.")
    _refuse("cuda_runtime_hdfs_path", cuda_runtime_hdfs_path, "Use an image with CUDA.")
    if skein_client is not None:
        _without_meaning("skein_client", "tfapp has a driver of its own")
    if eval_monitor_log_thresholds is not None:
        _without_meaning("eval_monitor_log_thresholds", "status shows each evaluator's metrics")
    specs = single_server_topology() if task_specs is None else task_specs
    _check(specs)
    options = {_ATTEMPTS: str(nb_retries + 1), **more.pop("options", {})}
    archives = _archives(pyenv_zip_path, specs)
    shared = archives.get("chief")
    if shared is not None:
        options[_ARCHIVE] = shared
    on_change = logging_to_active_run(more.pop("on_change", None))
    result = run(
        experiment_fn,
        {
            one: _component(spec, None if archives.get(one) == shared else archives.get(one))
            for one, spec in specs.items()
        },
        python=python,
        packages=_packages(pip_packages, python),
        files=files or {},
        env=env or {},
        queue=queue,
        file_systems=[*(name_nodes or []), *(file_systems or [])],
        acls=_acls(acls),
        retries=nb_retries,
        name=new_name(name or "run-on-yarn"),
        engine=engine,
        options=options,
        on_change=on_change,
        **more,
    )
    return _metrics(result)


def _check(specs: Mapping[str, TaskSpec]) -> None:
    unknown = sorted(set(specs) - set(TASK_TYPES))
    if unknown:
        raise _usage_error(
            f"task_specs: there is no task type {unknown[0]!r}", f"Types: {', '.join(TASK_TYPES)}."
        )
    if "chief" not in specs or specs["chief"].instances != 1:
        raise _usage_error("task_specs: exactly one chief is needed", 'Add "chief": TaskSpec(...).')
    for one in ("evaluator", "tensorboard"):
        if one in specs and specs[one].instances > 1:
            raise _usage_error(f"task_specs: one {one} at most", "Give it instances=1.")


def _component(spec: TaskSpec, archive: str | None) -> Component:
    options = {}
    if archive is not None:
        options[_ARCHIVE] = archive
    if spec.tb_model_dir is not None:
        options["site.global.tensorboard.logdir"] = spec.tb_model_dir
    if spec.tb_extra_args is not None:
        options["site.global.tensorboard.args"] = spec.tb_extra_args
    label = spec.label.value or None
    return Component(spec.memory, spec.vcores, spec.instances, spec.gpus, label, options=options)


def _packages(pip_packages: list[str] | None, python: str | None) -> list[str]:
    import importlib.metadata

    if pip_packages is None and python is None:
        return []
    found = list(pip_packages or [])
    if any(one.lower().startswith("tensorflow") for one in found):
        return found
    for name in ("tensorflow", "tf-keras"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name}=={importlib.metadata.version(name)}")
    return found


def _archives(
    given: str | Mapping[NodeLabel, str] | None, specs: Mapping[str, TaskSpec]
) -> dict[str, str]:
    """Task type -> archive of its Python environment."""
    if given is None:
        return {}
    if isinstance(given, str):
        return dict.fromkeys(specs, given)
    return {one: given[spec.label] for one, spec in specs.items() if spec.label in given}


def _acls(given: Any) -> dict[str, list[str]]:
    """The ACLs in a mapping or a skein.ACLs. They have no effect if `enable` is false, as in
    Skein."""
    names = ("view_users", "view_groups", "modify_users", "modify_groups", "ui_users")
    if not isinstance(given, Mapping):
        given = {name: getattr(given, name, None) for name in (*names, "enable")}
    if not given.get("enable", True):
        return {}
    return {name: list(given[name]) for name in names if given.get(name)}


def _metrics(result: Any) -> Metrics:
    durations = {}
    for instance, one in result.instances.items():
        component, _, index = instance.rpartition("/")
        seconds = one.seconds
        durations[ContainerKey(component, int(index))] = (
            None if seconds is None else datetime.timedelta(seconds=seconds)
        )
    own = {key: took for key, took in durations.items() if key.type not in ("ps", "tensorboard")}
    training = [took for key, took in own.items() if key.type != "evaluator" and took is not None]
    evaluation = [took for key, took in own.items() if key.type == "evaluator" and took is not None]
    return Metrics(max(training, default=None), max(evaluation, default=None), durations, own)


def _refuse(argument: str, value: Any, hint: str) -> None:
    if value is not None:
        raise _usage_error(f"{argument} has no meaning here", hint)


def _usage_error(message: str, hint: str) -> UsageError:
    """The error with its hint in its text, as a traceback shows it."""
    error = UsageError(message, hint)
    error.args = (f"{message}\n{hint}",)
    return error


def _without_meaning(argument: str, reason: str) -> None:
    warnings.warn(f"{argument} has no meaning here: {reason}", stacklevel=3)
