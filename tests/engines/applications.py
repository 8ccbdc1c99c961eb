"""Applications for tests of engines: small specs, and what the stock client says of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import skein

from tests.contract_values import make_component, make_job
from tests.waiting import wait
from tfapp.api.returned import fetch_returned
from tfapp.compiler.python import Travelling
from tfapp.contract.job import ComponentJob, Job, Resources
from tfapp.contract.names import INSTANCE_FILE, RETURNED_FILE
from tfapp.engines.base import Application, Engine
from tfapp.engines.definition import TAG
from tfapp.engines.local.engine import LocalEngine
from tfapp.engines.machine.folders import Home, RunFolder
from tfapp.engines.machine.state import read_state
from tfapp.errors import UnreachableError
from tfapp.processes import Process, with_environment, working_under

DEADLINE = 120.0  # seconds for anything a test waits for
SMALL = skein.Resources(memory=32, vcores=1)
MASTER = skein.Resources(memory=512, vcores=1)  # Skein's Java needs as much
FOREVER = "exec sleep 1000000"


@dataclasses.dataclass(frozen=True)
class CompiledLike:
    """As much of tfapp.compiler.compile.Compiled as an engine looks at."""

    spec: skein.ApplicationSpec
    job: Job
    plan: None = None
    environments: Mapping[str, Travelling] = dataclasses.field(default_factory=dict)


def service(script: str = FOREVER, instances: int = 1, **kwargs: Any) -> skein.Service:
    kwargs.setdefault("resources", SMALL)
    return skein.Service(script=script, instances=instances, **kwargs)


def compiled(
    name: str = "app", master: str | skein.Master = "", **services: skein.Service
) -> CompiledLike:
    """`master` is a script or a whole skein.Master; each service is a component."""
    if isinstance(master, str):
        master = skein.Master(script=master, resources=MASTER)
    spec = skein.ApplicationSpec(
        name=name,
        master=master,
        services=services,
        tags={TAG, "t2", "t1"},
        acls=skein.ACLs(enable=True, view_users=["*"]),  # YARN's pages do not know who asks
    )
    components = tuple(component(n, s.instances, s.resources.gpus) for n, s in services.items())
    return CompiledLike(spec, make_job(*components, name=name, user="somebody", success=()))


def lasting(application: Application) -> Application:
    """Without what an engine may tell at one moment and not at the next."""
    return dataclasses.replace(application, waits="", links=())


def serving(engine: Engine, name: str = "app") -> None:
    """Waits until its master takes orders."""

    def connected() -> bool:
        with contextlib.suppress(UnreachableError), engine.connect(name):
            return True
        return False

    eventually(connected, "a master")


def runner(script: str, component: str, index: int | None = None) -> str:
    """`script` with what a runner leaves for YARN's logs: the instance that the container is of;
    by default that of its number."""
    number = "${SKEIN_CONTAINER_ID##*_}" if index is None else index
    told = f'printf %s "{component}/{number}" > "$LOG_DIRS/{INSTANCE_FILE}"'
    return f'if [ "$LOG_DIRS" ]; then {told}; fi; {script}'


def returning(script: str, value: str, generation: str = "1") -> str:
    """`script` behind what a program leaves that returned `value`, text. Both are the shell's."""
    record = '{"generation": %s, "value": "%s"}'
    return f"""printf '{record}' "{generation}" "{value}" > "$LOG_DIRS/{RETURNED_FILE}"; {script}"""


def returned(engine: Engine, run: int | None = None) -> dict[str, object]:
    """What the programs of "app" returned, as the caller gets it."""
    return dict(fetch_returned(engine, "app", run))


def component(name: str, instances: int, gpus: int) -> ComponentJob:
    return make_component(name=name, instances=instances, container=Resources(32, 1, gpus))


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "CUDA_VISIBLE_DEVICES": "", **more}


@contextlib.contextmanager
def local_engine(home: Path, **kwargs: Any) -> Iterator[LocalEngine]:
    """An engine whose applications do not survive it."""
    engine = LocalEngine(home, environ=kwargs.pop("environ", environ()), **kwargs)
    try:
        yield engine
    finally:
        for application in engine.list():
            engine.stop(application.name, "the test is over", force=True)
        # What is killed is there for a moment.
        wait(lambda: not processes_under(home), lambda: commands_under(home), DEADLINE)


def run_folder(engine: LocalEngine, name: str = "app", number: int = 1) -> RunFolder:
    return engine._home.app(name).run(number)


@contextlib.contextmanager
def stock_client(engine: LocalEngine, name: str = "app") -> Iterator[skein.ApplicationClient]:
    """Skein's own client, connected to the newest run's master."""
    run = engine._home.app(name).runs()[-1]
    state = read_state(run)
    assert state is not None
    security = skein.Security(
        cert_bytes=run.certificate.read_bytes(), key_bytes=run.key.read_bytes()
    )
    with skein.ApplicationClient(state.address, engine.find(name).id, security) as client:
        yield client


def processes_under(home: Path) -> list[Process]:
    """Everything that still runs in a container of `home`."""
    apps = Home(home).apps
    prefix = os.fsencode(apps)
    told = with_environment(lambda env: env.get(b"LOCAL_DIRS", b"").startswith(prefix))
    return [*told, *working_under(str(apps))]


def commands_under(home: Path) -> list[bytes]:
    """The command lines of `processes_under`."""
    paths = [Path(f"/proc/{process.pid}/cmdline") for process in processes_under(home)]
    return [path.read_bytes() for path in paths if path.exists()]


def eventually(condition: Callable[[], Any], what: str = "it") -> Any:
    """The first true result of `condition`."""
    return wait(condition, f"{what} did not happen in {DEADLINE} s", DEADLINE, every=0.01)


def ended(engine: LocalEngine, name: str = "app") -> Any:
    *_, last = engine.follow(name)
    assert not last.live
    return last


def containers(client: skein.ApplicationClient, *states: str) -> list[str]:
    """Ids of the containers in `states`; none given: the live ones."""
    return [c.id for c in client.get_containers(states=states or None)]


def wait_for_containers(client: skein.ApplicationClient, count: int, *states: str) -> list[str]:
    """Waits until exactly `count` containers are in `states`."""

    def enough() -> list[str] | None:
        found = containers(client, *states)
        return found if len(found) == count else None

    return eventually(enough, f"{count} containers in {states}")


def await_containers(engine: LocalEngine, count: int, *states: str) -> list[str]:
    """As `wait_for_containers`, of the newest run of "app"."""
    with stock_client(engine) as client:
        return wait_for_containers(client, count, *states)
