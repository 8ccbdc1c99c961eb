"""Carries out the runner's decisions: ports, exports, the program, and the calls into the package's
script."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfapp import processes, threads
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Answer, Cluster, ExitReport
from tfapp.contract.names import ENV_NODE, MAX_LAST_LINES, MAX_MISSED, instance_id
from tfapp.contract.profiles import MAX_SECONDS, InstanceProfile, ProfileRequest
from tfapp.contract.sessions import SessionOffer, SessionRequest, Welcome
from tfapp.contract.stacks import InstanceStacks, StacksRequest
from tfapp.contract.status import Outputs
from tfapp.frozen import frozen
from tfapp.runner import context as contexts
from tfapp.runner import metrics, outputs, package_script, ports, profiles, progress, stacks
from tfapp.runner.container import Container, local_path
from tfapp.runner.context import ExportError, InstanceSettings
from tfapp.runner.events import Attempt, Ended, Hangs, Report
from tfapp.runner.output import redact
from tfapp.runner.package_script import ScriptOutcome
from tfapp.runner.preparation import Preparation
from tfapp.runner.program import StartError
from tfapp.runner.run_mode import RunMode, Running
from tfapp.runner.sessions import SessionError
from tfapp.runner.tensorflow_env import NoAddressError
from tfapp.script import Context, Program, Script


class FailedError(Exception):
    """An action has failed. `exit`: the end that is reported for it."""

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.exit = Exit(None, None, reason, text)


@frozen
class ScriptDone:
    """A call into the package's script has ended, perhaps long after the program that it was
    about."""

    name: str
    attempt: Attempt
    outcome: ScriptOutcome


class Supervisor:
    """Supervises the program of one instance in its container. What happens later is put into the
    preparation's queue: `ScriptDone` after a call, `Ended` after the program. `say(line)` writes
    to the log."""

    def __init__(
        self,
        container: Container,
        preparation: Preparation,
        mode: RunMode,
        say: Callable[[str], None],
    ):
        self.name = instance_id(container.component.name, container.index)
        self.program: Running | None = None
        self._meter: metrics.Meter | None = None  # of the program
        self._attempt = Attempt(0)
        self._killed = False  # whether this runner has killed the program
        self._outputs: Outputs | None = None  # of the program, once it has ended
        self._progressed = True  # whether the program has saved anything, or nobody can see that
        self._container = container
        self._preparation = preparation
        self._events: queue.SimpleQueue[Any] = preparation.events
        self._mode = mode
        self._say = say
        self._ports: list[ports.HeldPort] = []
        self._settings = InstanceSettings({}, {})
        self._exports: contexts.Exports = {}
        self._context: Context | None = None
        self._traceback = ""  # the script's own, in place of the last lines of a program

    def answer(self, generation: int, container_id: str) -> Answer:
        """Takes new ports and makes the exports. FailedError when that is not possible. Never
        while an older program lives."""
        self.release_ports()
        self.program, self._context, self._traceback = None, None, ""
        self._meter = None
        try:
            self._settings = contexts.take_settings(self._container, self._take_port)
            self._exports = contexts.make_exports(self._container, self._settings)
        except (ports.NoPortError, ExportError, ValueError) as error:
            raise FailedError("start", f"{error} (on {self.host})") from error
        return Answer(
            generation=generation,
            instance=self.name,
            host=self.host,
            container=container_id,
            exports=self._exports,
            ports=self._settings.ports,
            pid=os.getpid(),
            node=self._container.environ.get(ENV_NODE, ""),
            versions=self._versions(),
        )

    def _versions(self) -> dict[str, str]:
        return {str(name): str(version) for name, version in self._script.versions.items()}

    def keep_address(self) -> None:
        """Forgets the program that has ended, and keeps its ports. FailedError when one of them is
        not free any more."""
        self.program, self._context, self._traceback = None, None, ""
        self._meter = None
        try:
            self._ports = [ports.hold_again(held) for held in self._ports]
        except ports.NoPortError as error:
            raise FailedError("start", f"{error} (on {self.host})") from error

    def choose(self, cluster: Cluster, attempt: Attempt) -> None:
        """Asks the script for the program. FailedError when the cluster lacks an address."""
        settings, generation = self._settings, cluster.generation
        self._attempt = attempt
        roles = (member.role for member in cluster.members)
        if not attempt.number and not self._container.job.trains_alone(roles):
            self._clear_checkpoints()
        try:
            self._context = context = contexts.build_context(
                self._container,
                settings,
                generation,
                self._exports,
                self._mode.execute,
                cluster.members,
            )
        except NoAddressError as error:
            raise FailedError("start", str(error)) from error
        self._call("start", lambda: self._script.start(context))

    def _clear_checkpoints(self) -> None:
        """All instances of a generation begin alike: none goes on from checkpoints of its own."""
        try:
            cleared = self._container.clear_checkpoints(self._settings.site)
        except OSError as error:
            raise FailedError(
                "start", f"its checkpoint folder cannot be emptied: {error}"
            ) from error
        if cleared:
            self.tell(
                "its checkpoint folder is emptied: no other instance sees it, and all begin anew "
                "(site.global.user.checkpoint.prefix is not set)"
            )

    def launch(self, program: Program) -> None:
        """Starts the program, in the main thread. FailedError when it cannot be started."""
        context = self._context
        assert context is not None, "a program is chosen with a context"
        released = {context.ports.get(key) for key in program.release_ports}
        ports.release(held for held in self._ports if held.number in released)
        command = shlex.join(program.argv).replace(f"{self._container.root}/", "")
        self.tell(f"starting {command}")
        # Made first: it forgets what an older program has reported.
        container = self._container
        asked = container.component.container
        meter = metrics.Meter(
            container.metrics_file,
            lambda: running.pids(),
            private=container.work_dir,
            vcores=asked.vcores,
            memory=asked.memory << 20,
            gpus=asked.gpus,
            group=lambda: running.group,
        )
        try:
            cluster = contexts.cluster_json(context.generation, context.members)
            self._container.cluster_file.write_text(cluster)
            # An older program's value is no value of this one, which may end without any.
            self._container.returned_file.unlink(missing_ok=True)
            self._container.missed_file.unlink(missing_ok=True)
            running = self._mode.start(program, context)
        except OSError as error:
            raise FailedError("start", f"its files cannot be made ready: {error}") from error
        except StartError as error:
            raise FailedError("start", str(error)) from error
        self.program, self._killed, self._progressed = running, False, True
        self._meter, self._outputs = meter, None
        folder = local_path(context.checkpoint_dir)
        places = [self._container.progress_file, *([Path(folder)] if folder else [])]
        # What a program saves at a URL, its part of tfapp.storage tells by the progress file.
        told = self._container.opens(context.checkpoint_dir)
        unseen = bool(context.checkpoint_dir) and not folder and not told

        def wait() -> None:
            # Without `Ended` the instance would never take part again.
            exit = Exit(None, None, "lost", "nobody could wait for its end")
            try:
                saved = progress.Saved(() if unseen else places)
                exit = running.wait()
                if exit.code != 0 and not unseen:
                    self._progressed = saved.anything()
                meter.last(metrics.LAST_LOOK_LIMIT)
                self._outputs = self._keep_outputs()
            finally:
                self._events.put(Ended(exit, self._killed, running.remains))

        threads.start_surely("tfapp-program", wait)
        self._watch_progress(running, places)

    def _keep_outputs(self) -> Outputs:
        container = self._container
        place = container.outputs_dir(self._settings.site)
        limits = outputs.Limits.of(container.component.settings)
        secrets = container.private.redact
        if container.storage_dir is not None and str(container.storage_dir) not in sys.path:
            sys.path.append(str(container.storage_dir))
        environ = self._context.env if self._context is not None else {}
        kept = outputs.keep(
            container.work_dir, place, limits, lambda name: redact(name, secrets), environ
        )
        if kept.left_count:
            self.tell(f"{self.name} {kept.text()}")
        return kept

    def _watch_progress(self, running: Running, places: Sequence[Path]) -> None:
        limit = self._container.component.progress_timeout
        if not limit:
            return
        interval, attempt = self._container.job.limits.heartbeat, self._attempt
        progress.watch(
            running, places, limit, interval, lambda exit: self._events.put(Hangs(attempt, exit))
        )

    def stop(self) -> None:
        """Lets the script ask the program to end."""
        context, program = self._context, self.program
        assert context is not None and program is not None, "only what runs is stopped"
        self._call("stop", lambda: self._script.stop(context, program))

    def ask_status(self) -> None:
        context, program = self._context, self.program
        assert context is not None and program is not None, "only what runs is looked at"
        processes.reap(spare=program.pid)
        self._call("status", lambda: self._script.status(context, program))

    def measure(self) -> metrics.Reading:
        """The program's metrics, for a heartbeat. May be called in any thread."""
        meter, program = self._meter, self.program
        if meter is None:
            return metrics.NOTHING
        if program is None or not program.alive:
            return self._told(meter.reading)
        return self._told(meter.look(metrics.LOOK_LIMIT))

    def _told(self, reading: metrics.Reading) -> metrics.Reading:
        secrets = self._container.private.redact
        told = {redact(name, secrets): value for name, value in reading.metrics.items()}
        points = {redact(name, secrets): one for name, one in reading.points.items() if self._first}
        return dataclasses.replace(reading, metrics=told, points=points)

    @property
    def _first(self) -> bool:
        """Whether it is the first of its component in the cluster: only its curves are shown."""
        members = self._context.members if self._context else ()
        own = [one.instance for one in members if one.component == self._container.component.name]
        return own[:1] == [self.name]

    def stacks(
        self, request: StacksRequest, container_id: str, ends: bool
    ) -> InstanceStacks | None:
        """The stacks of the program, without secrets; None where they are not asked for. `ends`:
        the program is about to be killed. For a thread of its own: it takes as long as
        tfapp.contract.stacks.LIMIT."""
        program, context = self.program, self._context
        if request.over or (request.instances and self.name not in request.instances):
            return None
        taken: tuple[Any, ...] = ((), "its program does not run")
        if program is not None and context is not None and program.alive:
            secrets = self._container.private.redact
            roots = (self._container.work_dir, self._container.files_dir, self._container.root)
            python = os.path.dirname(context.python)
            path = os.pathsep.join([python, context.env.get("PATH", os.defpath)])
            taker = stacks.Taker(roots, path, lambda text: redact(text, secrets))
            program.stopped()  # which looks for its processes
            pids, temporary = program.pids(), context.env.get("TMPDIR", "/tmp")
            folders = (str(context.work_dir), local_path(context.checkpoint_dir), temporary)
            looked = stacks.troubles(pids, [Path(folder) for folder in folders if folder])
            taken = (*taker.take(pids, request.log, ends), looked)
        generation = context.generation if context is not None else 0
        found = InstanceStacks(request.id, self.name, container_id, generation, *taken)
        found = dataclasses.replace(found, taken=round(time.time(), 1))
        if request.log:
            self.tell("\n".join(stacks.lines(found)))
        return found

    def profile(self, request: ProfileRequest) -> InstanceProfile | None:
        """Lets the program trace itself into its checkpoint folder; None where it is not asked for.
        For a thread of its own: it takes the seconds of the trace, and a while to write it."""
        if request.instances and self.name not in request.instances:
            return None
        program, context = self.program, self._context
        taken: tuple[Any, ...] = ((), 0, "its program does not run")
        if program is not None and context is not None and program.alive:
            folder = context.checkpoint_dir
            if self._container.root in Path(folder).parents:
                why = "its checkpoint folder is gone with it: site.global.user.checkpoint.prefix "
                taken = ((), 0, f"{why}is not set")
            else:
                program.stopped()  # which looks for its processes
                place = profiles.run_folder(folder, request.run)
                name = self.name.replace("/", "_")
                seconds = min(request.seconds, MAX_SECONDS)
                taken = profiles.take(program.pids(), request.id, seconds, place, name)
        files, size, why = taken
        secrets = self._container.private.redact
        return InstanceProfile(request.id, self.name, files, size, redact(why, secrets))

    def session(
        self, request: SessionRequest, certificate: bytes, key: bytes
    ) -> SessionOffer | None:
        """Offers a session beside the program; None where it is not asked for. `certificate`,
        `key`: the application's."""
        if request.instance != self.name:
            return None
        owner, program, port, why = self._container.job.owner, self.program, 0, ""
        allowed = self._container.component.settings.text("slider.allowed.ports")
        welcome = Welcome(certificate.decode(), key.decode(), owner, self.host, allowed)
        try:
            if not owner:
                raise SessionError(
                    "sessions are off: set site.global.exec: true, and create it again"
                )
            if program is None or not program.alive:
                raise SessionError("its program does not run")
            port = self._mode.session(welcome)
        except SessionError as error:
            why = str(error)
        return SessionOffer(request.id, self.name, self.host, port, why)

    def kill(self) -> None:
        """Kills the program and all processes that it started; `Ended` follows."""
        if self.program is not None:
            self._killed = self._killed or self.program.alive
            self.program.kill()

    def tell(self, text: str) -> None:
        """Writes to the container's log, without secrets."""
        self._say(redact(text, self._container.private.redact))

    def show(self, traceback: str) -> None:
        """Writes the traceback of a script's error to the log, and keeps it for the report."""
        self._traceback = traceback
        if traceback:
            self.tell(traceback)

    def report(self, action: Report, container_id: str) -> ExitReport:
        """The report of how the generation has ended here, without secrets."""
        program = self.program
        secrets = self._container.private.redact
        exit = action.exit
        # The end of a program is tfapp's own sentence, and a value such as KILL is no secret in it.
        if exit.reason in ("script", "start"):
            exit = dataclasses.replace(exit, text=redact(exit.text, secrets))
        elif exit.code:
            exit = dataclasses.replace(exit, missed=redact(self._missed(), secrets))
        self._say(f"{self.name} has ended: {exit.text}")
        measured = self._told(self._meter.reading) if self._meter else metrics.NOTHING
        return ExitReport(
            generation=action.generation,
            instance=self.name,
            container=container_id,
            host=self.host,
            exit=exit,
            stopped=action.stopped,
            last_lines=program.last_lines() if program else _end(redact(self._traceback, secrets)),
            seconds=round(program.seconds, 3) if program else 0.0,
            attempt=action.attempt,
            progressed=self._progressed,
            outputs=self._outputs,
            **vars(measured),
        )

    def _missed(self) -> str:
        file = self._container.missed_file
        with contextlib.suppress(OSError):
            if file.is_file() and file.stat().st_size <= MAX_MISSED:
                return os.fsdecode(file.read_bytes())
        return ""

    def release_ports(self) -> None:
        ports.release(self._ports)
        self._ports = []

    def _take_port(self, preferred: int) -> int:
        allowed = self._container.component.settings.text("slider.allowed.ports")
        held = ports.hold(allowed, preferred)
        self._ports.append(held)
        return held.number

    @property
    def host(self) -> str:
        return self._container.host(self._settings.site or self._container.component.site)

    @property
    def preparing(self) -> str:
        """A description of what the instance is preparing, without secrets, if that takes long;
        else ""."""
        return redact(self._mode.preparing, self._container.private.redact)

    @property
    def _script(self) -> Script:
        script = self._preparation.script
        assert script is not None, "nothing is started before the preparation is over"
        return script

    def _call(self, name: str, function: Callable[[], Any]) -> None:
        component, attempt = self._container.component, self._attempt
        package_script.call(
            f"{name}()",
            function,
            component.script_timeout,
            Path(component.script),
            self._container.package_dir,
            lambda outcome: self._events.put(ScriptDone(name, attempt, outcome)),
            overdue="timeout" if name == "start" else "script",
        )


def _end(text: str) -> str:
    return text.encode()[-MAX_LAST_LINES:].decode(errors="ignore").strip("\n")
