"""`tfapp.run`, `submit`, `open`, `compile` and `write_package`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.api.arguments import Arguments, Call, PathLike, made_call, shows_arguments
from tfapp.api.errors import told_in_full
from tfapp.api.handle import Application, caller_of, interruptible
from tfapp.api.request import name_of, requested
from tfapp.api.result import Result
from tfapp.contract.status import ApplicationStatus
from tfapp.errors import UsageError
from tfapp.launch.caller import Caller, calling_process
from tfapp.topology import Component

if TYPE_CHECKING:
    import skein
    from typing_extensions import Unpack

    from tfapp.engines.base import Engine
    from tfapp.launch.submission import Request

OnChange = Callable[[ApplicationStatus], Any]


@shows_arguments
def run(
    program: object = None,
    components: Mapping[str, Component] | None = None,
    *,
    on_change: OnChange | None = None,
    show: bool = True,
    **more: Unpack[Arguments],
) -> Result:
    """Runs a program on a cluster, follows it to its end, and returns what came of it.

    `program`: a function without arguments or with one, its `tfapp.Context`; it runs on every
    instance as it is, or returns a `tfapp.Experiment` or `tfapp.KerasExperiment` that is trained.
    Or a script's path, or a module's name, or "module:function". A `tfapp.Component` may have
    another one. `components`: how many instances of which component; by default one chief.

    More arguments, all by name:
    `package`: a package on disk whose components, configuration and resources are the base, in
    place of tfapp's own TensorFlow package. `template`, `resources`: files in place of its
    appConfig and resources. `options`: keys of appConfig, {"site.global.stop.grace": 60}.
    `engine`: "local", "yarn"; by default what the variable TFAPP_ENGINE says, else the file
    TFAPP_HOME/config.yaml, else "local". `queue`: its queue; `namespace`, `context`: where
    Kubernetes is asked. `name`: the application's, by default a new one; `replace`: whether one
    that has it is stopped and destroyed first, which leaves its checkpoints; `fresh`: whether what
    an earlier one has saved is moved aside. `tags`: for `tfapp list --tag`.
    `files`: more files and folders that programs find beside their own, a list, or a mapping
    {path there: path here}. `env`: plain variables; `secrets`: such that are struck out of logs;
    `env_file`, `secret_env_file`: files of them.
    `packages`: what pip is to install in an environment that travels with the application,
    ["keras", "numpy<2"]. `python`: the interpreter of the programs, a path there, or a version
    such as "3.11", which travels in that environment. `image`: a Docker image to run in.
    `checkpoints`: a folder that every instance sees; the application's is below it. `data`: the
    folder of the data. `file_systems`: other HDFS that programs read, ["hdfs://other"]. `acls`:
    who may see or change it, {"view_users": ["ann"], "modify_groups": [...]}.
    `tensorboard`: a TensorBoard besides. `retries`: how many failures of programs are survived, by
    default 3. `spark`: a SparkSession or SparkContext of this process, whose executors run it: the
    engine is then "spark". `feed`: whether chief and workers are fed by `app.feed(data)` of what
    `submit` returns. `timeout`: seconds until it is stopped as failed. `pickles`: whether
    what programs return may come back as pickles, which run code when they are read.
    `on_change`: called with each new status. `show`: whether states and the chief's output are
    printed, or in a notebook a table is shown.

    Raises `tfapp.errors.ApplicationFailedError` with the result when it does not succeed,
    KeyboardInterrupt once Ctrl-C or a kernel's interrupt has stopped it, and before anything is
    submitted the errors of `submit`.

    >>> def train():
    ...     return {"accuracy": 0.5 + 0.25}
    >>> tfapp.run(train, name="doc-run", show=False).value
    {'accuracy': 0.75}
    """
    call = made_call(program, components, more)
    name, caller = name_of(call), caller_of(show)
    with told_in_full():
        engine = _engine(call, caller)
        with interruptible(engine, name, caller) as stopper:
            application = _submit(call, name, engine, caller, show)
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
    """Submits what `tfapp.run` with the same arguments runs, and returns once the engine has
    accepted it.

    Raises `tfapp.errors.ProgramError` for a program that cannot travel, `InvalidPackageError` with
    every finding, `ExistsError` where the name is taken, `UnavailableError` where the engine or
    this machine lacks something, `UsageError` for arguments that cannot be meant.

    >>> with tfapp.submit(lambda: 1, name="doc-submit", show=False) as application:
    ...     application.wait().state
    'SUCCEEDED'
    """
    call = made_call(program, components, more)
    with told_in_full():
        caller = caller_of(show)
        return _submit(call, name_of(call), _engine(call, caller), caller, show)


def open(
    name: str,
    engine: str | None = None,
    *,
    run: int | None = None,
    namespace: str | None = None,
    context: str | None = None,
) -> Application:
    """The application `name`, which any process may have submitted. `engine`, `namespace`,
    `context`: as for `tfapp.run`. `run`: its run number, by default the newest.

    Raises `tfapp.errors.UnknownApplicationError` when there is none.

    >>> tfapp.run(lambda: None, name="doc-open", show=False).state
    'SUCCEEDED'
    >>> application = tfapp.open("doc-open")
    >>> application.status().state
    'SUCCEEDED'
    >>> application.destroy()
    """
    with told_in_full():
        caller = calling_process(Caller)
        opened = _engine(Call(engine=engine, namespace=namespace, context=context), caller)
        return Application(opened, opened.find(name, run), caller)


@shows_arguments
def compile(
    program: object = None,
    components: Mapping[str, Component] | None = None,
    **more: Unpack[Arguments],
) -> skein.ApplicationSpec:
    """The Skein specification that `submit` with the same arguments would submit. Nothing is
    submitted or written, not even the files that the specification names. Raises the errors of
    `submit`.

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
    """Writes the package that `submit` with the same arguments would submit to `folder`, and
    returns that folder. `tfapp create NAME --appdef FOLDER` then runs the same. `folder` must not
    exist, or be empty. Values of `secrets` are not written: give them by --secret-env-file. Raises
    the errors of `submit`.

    >>> import tempfile
    >>> parent = tempfile.TemporaryDirectory()
    >>> folder = tfapp.write_package(f"{parent.name}/alone", lambda: None)
    >>> (folder / "metainfo.yaml").is_file()
    True
    >>> parent.cleanup()
    """
    from tfapp.launch.writing import write_request

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


def _submit(call: Call, name: str, engine: Engine, caller: Caller, show: bool) -> Application:
    feeding = None
    if call.feed:
        from tfapp.api.feeding import Feeding

        feeding = Feeding(caller)
        call = dataclasses.replace(call, secrets={**call.secrets, **feeding.secrets()})
    # The engine prepares itself while here is loaded what reads, checks and compiles.
    with engine.preparing(name):
        from tfapp.launch.submission import submit as submit_request

        with requested(call, name, caller) as request:
            accepted = submit_request(request, engine, caller, call.replace, call.fresh)
    return Application(engine, accepted, caller, show, call.pickles, feeding)
