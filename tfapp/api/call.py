"""`tfapp.run`, `submit`, `open`, `compile` and `write_package`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.api import notebook
from tfapp.api.arguments import Arguments, Call, OnChange, PathLike, made_call, shows_arguments
from tfapp.api.errors import told_in_full
from tfapp.api.handle import Application, caller_of, interruptible
from tfapp.api.request import name_of, requested
from tfapp.api.result import Result
from tfapp.errors import UsageError
from tfapp.launch.caller import Caller
from tfapp.topology import Component

if TYPE_CHECKING:
    import skein
    from typing_extensions import Unpack

    from tfapp.engines.base import Engine
    from tfapp.launch.submission import Request


@shows_arguments
def run(
    program: object = None,
    components: Mapping[str, Component] | None = None,
    *,
    on_change: OnChange | None = None,
    show: bool = True,
    **more: Unpack[Arguments],
) -> Result:
    """Runs a program on a cluster, follows it until it ends, and returns its `Result`.

    `program` is one of

    - a function without arguments, or with one, its `tfapp.Context`. Every instance calls it. It
      may return a `tfapp.Experiment` or a `tfapp.KerasExperiment`, which is then trained;
    - the path of a script, the name of a module, or "module:function".

    `components` maps names to `tfapp.Component`: the number of instances and their resources.
    Default: one chief. A component may have a program of its own.

    Further arguments, by keyword. The package:

    - `package`: the folder or .zip of a package to use in place of tfapp's TensorFlow package, or
      the name of one that `tfapp packages` lists
    - `template`, `resources`: files in place of its appConfig and resources
    - `options`: keys of appConfig, such as {"site.global.stop.grace": 60}
    - `files`: files and folders to ship as well, under their own names ("data/": the content of
      the folder); a list, or a mapping {path there: path here}

    The application:

    - `engine`: "local", "yarn", "kubernetes" or "spark". Default: the variable TFAPP_ENGINE, then
      the file TFAPP_HOME/config.yaml, then "local"
    - `queue`: the queue of YARN; `namespace`, `context`: those of Kubernetes
    - `spark`: a SparkSession or SparkContext of this process. It implies the engine "spark"
    - `name`: default: a new name. `replace`: stop and destroy an application of this name first;
      its checkpoints are kept. `fresh`: move the checkpoints of an earlier application aside
    - `tags`: labels for `tfapp list --tag`
    - `acls`: users and groups that may view or modify it, such as {"view_users": ["ann"]}
    - `tensorboard`: whether a TensorBoard runs as well
    - `retries`: the number of program failures that are survived. Default: 3. `losses`: that of
      losses by the infrastructure, such as preempted containers and lost machines. Default: 10
    - `timeout`: seconds after which it is stopped, and fails

    The environment of programs:

    - `packages`: requirements for pip, such as ["pandas", "keras-cv<1"]. tfapp ships an
      environment that adds them to what is there
    - `python`: the path of an interpreter there, or a version such as "3.11" for that environment
    - `image`: the Docker image to run in
    - `env`: variables; `secrets`: variables whose values are struck out of logs; `env_file`,
      `secret_env_file`: files with such variables
    - `checkpoints`: a folder that all instances see; the application's own folder is below it
    - `data`: the folder of the training data
    - `file_systems`: further HDFS file systems that programs read, such as ["hdfs://other"]
    - `feed`: whether `app.feed(data)` of the `Application` that `submit` returns feeds the programs
    - `pickles`: whether programs may return values as pickles. Loading a pickle runs code

    The output here:

    - `show`: whether states and the output of the chief are printed; in a notebook, a table
    - `on_change`: a function that is called with each new status

    Raises `tfapp.errors.ApplicationFailedError`, with the result, when the application does not
    succeed; KeyboardInterrupt after Ctrl-C or the interrupt of a kernel has stopped it; and the
    errors of `submit` before anything is submitted.

    >>> def train():
    ...     return {"accuracy": 0.5 + 0.25}
    >>> tfapp.run(train, name="doc-run", show=False).value
    {'accuracy': 0.75}
    """
    call = made_call(program, components, more)
    with told_in_full():
        name, caller = name_of(call), caller_of(show)
        engine = _engine(call, caller)
        with interruptible(engine, name, caller) as stopper:
            application = submitted(call, name, engine, caller, show)
            status = application.follow_with(stopper, on_change)
        return application.finished(status)


@shows_arguments
def submit(
    program: object = None,
    components: Mapping[str, Component] | None = None,
    *,
    show: bool = True,
    **more: Unpack[Arguments],
) -> Application:
    """Submits a program as `tfapp.run` does, with the same arguments. Returns the `Application` as
    soon as the engine has accepted it.

    Raises `tfapp.errors.ProgramError` for a program that cannot be shipped, `InvalidPackageError`
    with all findings, `ExistsError` if the name is taken, `UnavailableError` if the engine or this
    machine lacks something, and `UsageError` for arguments that contradict each other.

    >>> with tfapp.submit(lambda: 1, name="doc-submit", show=False) as application:
    ...     application.wait().state
    'SUCCEEDED'
    """
    call = made_call(program, components, more)
    with told_in_full():
        caller = caller_of(show)
        return submitted(call, name_of(call), _engine(call, caller), caller, show)


def open(
    name: str,
    engine: str | None = None,
    *,
    run: int | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> Application:
    """Returns the application `name`, also one that another process has submitted. `engine`,
    `namespace`, `context`: see `tfapp.run`. `run`: the number of a run; default: the newest.

    Raises `tfapp.errors.UnknownApplicationError` if there is no such application.

    >>> tfapp.run(lambda: None, name="doc-open", show=False).state
    'SUCCEEDED'
    >>> application = tfapp.open("doc-open")
    >>> application.status().state
    'SUCCEEDED'
    >>> application.destroy()
    """
    with told_in_full():
        caller = notebook.caller_here()
        opened = _engine(Call(engine=engine, namespace=namespace, context=context), caller)
        return Application(opened, opened.find(name, run), caller)


@shows_arguments
def compile(
    program: object = None,
    components: Mapping[str, Component] | None = None,
    **more: Unpack[Arguments],
) -> skein.ApplicationSpec:
    """Returns the Skein specification that `submit` would submit for the same arguments. Nothing is
    submitted, and no file is written. Raises the errors of `submit`.

    >>> specification = tfapp.compile(lambda: None, tfapp.all_reduce(3))
    >>> specification.services["worker"].instances
    3
    """
    from tfapp.launch.submission import compile_request

    call = made_call(program, components, more)
    with told_in_full(), _requested(call, show=False) as (request, engine, caller):
        return compile_request(request, caller, engine, dry_run=True).spec


@shows_arguments
def write_package(
    folder: PathLike,
    program: object = None,
    components: Mapping[str, Component] | None = None,
    **more: Unpack[Arguments],
) -> Path:
    """Writes the package that `submit` would run for the same arguments to `folder`, and returns
    that folder. `tfapp create NAME --appdef FOLDER` then runs the same application. `folder` must
    be empty or not exist. The values of `secrets` are not written: pass them with
    --secret-env-file. Raises the errors of `submit`.

    >>> import tempfile
    >>> parent = tempfile.TemporaryDirectory()
    >>> folder = tfapp.write_package(f"{parent.name}/alone", lambda: None)
    >>> (folder / "metainfo.yaml").is_file()
    True
    >>> parent.cleanup()
    """
    from tfapp.launch.submission import write_request

    call = made_call(program, components, more)
    with told_in_full(), _requested(call, show=True) as (request, _, caller):
        return write_request(request, Path(folder), caller)


@contextlib.contextmanager
def _requested(call: Call, show: bool) -> Iterator[tuple[Request, Engine, Caller]]:
    caller = caller_of(show)
    with requested(call, name_of(call), caller) as request:
        yield request, _engine(call, caller), caller


def _engine(call: Call, caller: Caller) -> Engine:
    places = {"namespace": call.namespace, "context": call.context}
    engine = caller.engine(
        call.engine, {k: value for k, value in places.items() if value is not None}
    )
    if call.spark is None and not call.feed:
        return engine
    from tfapp.engines.base import RunsInSession

    if isinstance(engine, RunsInSession):
        if call.spark is not None:
            engine.use(call.spark)
        if call.feed:
            engine.leave_slot()
    elif call.spark is not None:
        raise UsageError(f"spark= is for the engine spark, and this is {engine.name}")
    return engine


def submitted(call: Call, name: str, engine: Engine, caller: Caller, show: bool) -> Application:
    """Submits the application of `call`. Raises the errors of `submit`."""
    feeding = None
    if call.feed:
        from tfapp.api.feeding import Feeding

        feeding = Feeding(caller, engine)
        call = dataclasses.replace(call, secrets={**call.secrets, **feeding.secrets()})
    # The engine prepares itself while here is loaded what reads, checks and compiles.
    with engine.preparing(name):
        from tfapp.launch.submission import submit as submit_request

        with requested(call, name, caller) as request:
            accepted = submit_request(request, engine, caller, call.replace, call.fresh)
    return Application(engine, accepted, caller, show, call.pickles, feeding)
