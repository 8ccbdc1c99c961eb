"""The handle of an application: `tfapp.Application`."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.api import notebook
from tfapp.api.arguments import OnChange
from tfapp.api.errors import told_in_full
from tfapp.api.result import Result, logs_of, result_of
from tfapp.contract.status import ApplicationStatus
from tfapp.engines import base
from tfapp.engines.base import Engine
from tfapp.errors import ApplicationFailedError, TimedOutError, UsageError
from tfapp.frozen import frozen
from tfapp.interrupts import ctrl_c_asks
from tfapp.launch import on_end
from tfapp.launch.caller import Caller, CallerT, require_working_folder
from tfapp.launch.display import PlainDisplay, last_lines
from tfapp.launch.fetch import fetch
from tfapp.launch.follow import (
    Display,
    States,
    Stopper,
    follow,
    has_ended,
    is_running,
    not_running_in_time,
    told_that_it_goes_on,
    wait_until,
)
from tfapp.launch.tensorboard import wait_for_page
from tfapp.page.document import advice_in_words, outputs_in_words

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from tfapp.api.feeding import Feeding
    from tfapp.contract.profiles import Profile
    from tfapp.contract.stacks import Stacks
    from tfapp.feed.driver.feeder import FeedResult

STOPPED = "stopped by Ctrl-C"
LEFT = "stopped by the end of its `with` block"


class Application:
    """One run of an application, as returned by `tfapp.submit` and `tfapp.open`. It may be used
    from any thread. As a context manager it stops an application that still runs at the end of the
    block.

    In a notebook it is displayed as a table that is updated until the application has ended.

    >>> def greet(context):
    ...     context.report(loss=0.25, step=3)
    ...     print("hello from", context.instance)
    >>> with tfapp.submit(greet, tfapp.all_reduce(2), name="doc-handle", show=False) as application:
    ...     application.wait(timeout=600).state
    'SUCCEEDED'
    >>> "hello from worker/1" in application.logs("worker/1")["worker/1"]
    True
    >>> result = application.result()
    >>> dict(result.metrics), result.exit_code
    ({'loss': 0.25}, 0)
    >>> application.destroy()
    """

    def __init__(
        self,
        engine: Engine,
        application: base.Application,
        caller: Caller,
        show: bool = True,
        pickles: bool = False,
        feeding: Feeding | None = None,
    ):
        self.name = application.name
        self.engine = engine.name
        self.run: int = application.run
        self.id = application.id
        own = {field.name: getattr(caller, field.name) for field in dataclasses.fields(Caller)}
        self._caller = _Among(**own, application=self.name)
        self._engine, self._show, self._pickles = engine, show, pickles
        self._application = application
        self._feeding = feeding
        self._held = contextlib.ExitStack()  # ways to its pages
        weakref.finalize(self, self._held.close)

    def status(self) -> ApplicationStatus:
        """Returns the present status, with the verdict after the end. While the master does not
        answer, as one that hangs until another takes its place, it is the last that is known;
        UnreachableError if none is."""
        with told_in_full():
            self._application = self._engine.find(self.name, self.run)
            return self._application.status

    def follow(self, on_change: OnChange | None = None) -> ApplicationStatus:
        """Prints states and the output of the chief until the application has ended; in a notebook,
        displays its table. `on_change` is called with each new status. Ctrl-C stops the application
        and a second Ctrl-C kills it; then KeyboardInterrupt is raised. Returns the last status,
        whatever the verdict."""
        with told_in_full(), interruptible(self._engine, self.name, self._caller) as stopper:
            return self.follow_with(stopper, on_change)

    def wait(self, timeout: float | None = None) -> ApplicationStatus:
        """Waits for the end without output. Returns the last status, whatever the verdict.
        TimedOutError after `timeout` seconds; the application continues."""
        with told_in_full():
            ended = wait_until(self._states(), has_ended, timeout)
            if ended is None:
                raise TimedOutError(f"{self.name} has not ended after {timeout:g} s; it goes on")
            return ended.status

    def wait_until_running(self, timeout: float | None = None) -> ApplicationStatus:
        """Waits until the programs run, or the application has ended. TimedOutError after `timeout`
        seconds; the application continues."""
        with told_in_full():
            reached = wait_until(self._states(), is_running, timeout)
            if reached is None:
                raise not_running_in_time(self.name, timeout or 0)
            return reached.status

    def result(self, timeout: float | None = None, *, on_change: OnChange | None = None) -> Result:
        """Returns the result after the end. Follows the application until then; with `timeout` it
        only waits, for so many seconds. ApplicationFailedError, with the result, if the application
        has not succeeded."""
        if timeout is not None and on_change is not None:
            raise UsageError("on_change is not called with a timeout", "Give one of the two.")
        status = self.follow(on_change) if timeout is None else self.wait(timeout)
        with told_in_full():
            return self.finished(status)

    def finished(self, status: ApplicationStatus) -> Result:
        """The result of an application that has ended with `status`. ApplicationFailedError if it
        has not succeeded."""
        self._application = dataclasses.replace(self._application, status=status, live=False)
        result = result_of(self._engine, self._application, self._pickles)
        if not result.succeeded:
            raise ApplicationFailedError(result)
        return result

    def logs(self, instance: str = "", tail: int | None = None) -> Mapping[str, str]:
        """Returns the output of instances, by instance. `instance`: "worker/1", a component
        ("worker"), "coordinator" or "master"; default: all. `tail`: only the last lines of each.
        NotFoundError if there is no such log."""
        with told_in_full():
            return logs_of(self._engine, self.name, self.run, instance, tail)

    def exports(self) -> dict[str, Mapping[str, Mapping[str, str]]]:
        """Returns the exports of all instances: {instance: {group: {name: value}}}."""
        return {i.instance: i.exports for i in self.status().instances if i.exports}

    def tensorboard(self, timeout: float = 600.0) -> str:
        """Returns the address of the application's TensorBoard, once it runs. The address is valid
        as long as this object exists. BadStateError if the application has no TensorBoard or has
        ended; TimedOutError after `timeout` seconds."""
        with told_in_full():
            page = wait_for_page(self._states(), self.name, timeout)
            reached = self._engine.reach(self.name, page.instance, page.address)
            return self._held.enter_context(reached)

    def fetch(
        self,
        folder: str | os.PathLike[str],
        path: str = "",
        *,
        replace: bool = False,
        outputs: bool = False,
    ) -> list[Path]:
        """Copies the file or folder `path` of the checkpoint folder (default: all of it) into the
        local folder `folder`. `outputs`: of what the programs of the newest run have left in their
        working folders instead. Returns the new files. ExistsError if a file exists already, unless
        `replace` is set; NotFoundError if there is no such path."""
        with told_in_full():
            target = self._caller.cwd / folder
            fetched = fetch(self._engine, self.name, path, target, self._caller, replace, outputs)
            return list(fetched)

    def feed(
        self,
        data: Any,
        *,
        epochs: int = 1,
        final: bool = True,
        rest: str = "drop",
        consumed: bool = False,
        stall_timeout: float = 600.0,
        ports: str = "",
    ) -> FeedResult:
        """Feeds the rows of a Spark DataFrame or RDD to `context.feed` of the programs, on any
        engine. Each row goes to one program, once in each of `epochs`. Returns a summary when the
        programs have taken all rows, or have stopped the feed.

        `final`: whether this is the last data. With False the call returns when the programs have
        received all rows. `feed` may then be called again; call `end_feed` at the end. For a
        stream: `stream.writeStream.foreachBatch(lambda batch, _: app.feed(batch, final=False))`.
        With `consumed` as well, it returns when they have asked for another batch after the last
        full one, or have ended with exit code 0. If their rows are lost after that, because a
        program fails that has no state of the feed in its checkpoint, the application fails.
        `rest`: what happens to the last rows, which do not fill a batch for every program: "drop"
        drops them, "share" gives each program one shorter batch. `stall_timeout`: seconds without
        any row moved after which the feed fails. `ports`: a range such as "40000-40100"; the driver
        listens on one of these ports.

        Raises FeedError if the data cannot be fed, ApplicationFailedError if the application fails,
        and UsageError if it was submitted without feed=True or by another process.
        """
        with told_in_full():
            feeding = self._fed()
            feeding.listen(self, data, rest, ports)
            return feeding.feed(data, epochs, final, stall_timeout, consumed)

    def open_feed(self, spark: Any, *, rest: str = "drop", ports: str = "") -> None:
        """Connects the programs to the driver of `spark`, a SparkSession or SparkContext, before
        there is data. A feed without any data can then be ended by `end_feed`. `rest`, `ports`: see
        `feed`."""
        with told_in_full():
            self._fed().listen(self, spark, rest, ports)

    def end_feed(self, *, wait: bool = True) -> FeedResult:
        """Ends the feed: no more data comes. Returns when the programs have taken all rows; with
        `wait` False, at once."""
        with told_in_full():
            return self._fed().end(wait)

    @property
    def feed_is_over(self) -> bool:
        """Whether the programs have stopped the feed, or have ended."""
        if self._application.status.verdict is not None:
            return True
        return self._feeding is not None and self._feeding.stopped

    def infer(
        self,
        data: Any,
        schema: str,
        *,
        columns: Sequence[str] | None = None,
        ports: str = "",
    ) -> Any:
        """Returns the results of `context.feed.serve()` in the programs for a Spark DataFrame:
        `data` with the same rows in the same order, and the columns of `schema` added ("prediction
        int, score array<float>"). For an RDD, an RDD of results. It is lazy: Spark computes it when
        it is used, which is possible until `end_feed`. `columns`: the columns that the programs
        get, None for all; the others may have values that make no tensor."""
        with told_in_full():
            feeding = self._fed()
            feeding.listen(self, data, "drop", ports)
            return feeding.infer(data, schema, columns)

    def flex(self, component: str, count: int | str) -> str:
        """Requests another number of instances of a component: `count` is 3, "+1" or "-1". Returns
        the effect as a sentence. BadStateError if it is not possible."""
        from tfapp.engines.control import flex

        with told_in_full():
            return flex(self._engine, self.name, component, str(count))

    def stacks(self, instance: str = "") -> Stacks:
        """Returns where the programs are: the stacks of their Python threads, those at the same
        place in one group. `instance`: "worker/1", or a component ("worker"); default: all.
        Printed, it is a sentence: "7 of 8 are in fit at train.py:41; worker/3 is in load at
        data.py:12". Takes 10 s at most. NotFoundError if there is no such instance, BadStateError
        if no program runs."""
        from tfapp.engines.control import stacks

        with told_in_full():
            return stacks(self._engine, self.name, instance)

    def profile(self, *instances: str, seconds: float = 5.0) -> Profile:
        """Lets the programs trace the same `seconds` seconds, at most 60, with TensorFlow's
        profiler, and write the traces where TensorBoard's page Profile shows them. `instances`:
        "worker/1", or components ("worker"); default: all. Returns once the traces are written.
        NotFoundError if there is no such instance, BadStateError if no program runs."""
        from tfapp.engines.control import profile

        with told_in_full():
            return profile(self._engine, self.name, instances, seconds)

    def exec(
        self, instance: str, *command: str, input: bytes = b"", timeout: float | None = None
    ) -> CompletedProcess[bytes]:
        """Runs a command beside the program of an instance ("worker/1"), as `tfapp exec` does: with
        its environment, in its working folder. `input`: its standard input. Returns its exit code
        and its output, of 64 MiB at most. TimedOutError after `timeout` seconds, which end it.
        NotFoundError if there is no such instance, BadStateError if its program does not run, or
        sessions are not for this user."""
        from tfapp.engines.control import execute, session

        home = self._caller.home
        with told_in_full(), session(self._engine, self.name, instance, home) as channel:
            return execute(channel, command, input, timeout)

    def kill(self, instance: str) -> str:
        """Kills the container of an instance ("worker/1"), to test the loss of a machine. Returns
        the id of the container. NotFoundError if there is no such instance."""
        from tfapp.engines.control import kill_container

        with told_in_full():
            return kill_container(self._engine, self.name, instance)

    def stop(
        self, message: str = "stopped", *, force: bool = False, timeout: float | None = None
    ) -> ApplicationStatus:
        """Stops the application and waits for its end. One that has ended is left as it is.
        `message`: the reason, for the verdict. `force`: kill the programs without grace. `timeout`:
        seconds for an end with grace; then it is forced."""
        with told_in_full():
            return self._engine.stop(self.name, message, force, timeout).status

    def destroy(self) -> None:
        """Deletes the record and the logs of the application, but never its checkpoints. InUseError
        while it runs."""
        with told_in_full():
            self._engine.destroy(self.name)

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *_: object) -> None:
        if self._feeding is not None:
            with told_in_full():
                self._feeding.close()
        if self.status().verdict is None:
            self.stop(LEFT)

    def __repr__(self) -> str:
        state = self._application.status.state
        return f"<tfapp.Application {self.name} on {self.engine}, run {self.run}: {state}>"

    def _ipython_display_(self) -> None:
        notebook.show_until_end(self._caller, self._engine, self._application)

    def _repr_html_(self) -> str:
        return notebook.table(self._application)

    def _fed(self) -> Feeding:
        if self._feeding is None:
            raise UsageError(
                f"{self.name} is not fed by this process",
                "Submit it here, with tfapp.submit(..., feed=True).",
            )
        return self._feeding

    def _states(self) -> States:
        return States(self._engine, self.name, self.run)

    def follow_with(self, stopper: Stopper, on_change: OnChange | None) -> ApplicationStatus:
        """As `follow`, for a caller that handles interrupts itself and tells them to `stopper`."""
        display = self._display()
        shown = _Watched(display, on_change)
        fed = self._feeding is not None  # it ends with this process
        words = contextlib.nullcontext() if fed else told_that_it_goes_on(self._engine, self.name)
        with _printing(self.name) if self._show else contextlib.nullcontext():
            with words:
                ended = follow(self._engine, self._application, shown, stopper)
            display.close()
            self._tell_end(ended, display.shown_instance)
        on_end.run_command(self._caller, self._engine, ended)
        return ended.status

    def _tell_end(self, ended: base.Application, shown: str) -> None:
        self._application = ended
        verdict = ended.status.verdict
        if verdict is not None and not notebook.is_here():  # the table has it
            for line in last_lines(verdict, shown):
                self._caller.note(line)
            self._caller.note(f"{self.name}: {verdict.summary}")
            for line in (*outputs_in_words(ended.status), *advice_in_words(ended.status)):
                self._caller.note(line)

    def _display(self) -> PlainDisplay | _Silent:
        if not self._show:
            # An engine that copies what functions returned at the end has to be asked before.
            self._engine.returned(self.name, self.run)
            return _Silent()
        if notebook.is_here():
            return notebook.NotebookDisplay(self._caller, self._engine, self._application)
        return PlainDisplay(self._caller, self._engine, self._application)


# The applications that this process follows and prints now, each in a thread of its own.
_printed: list[str] = []


@contextlib.contextmanager
def _printing(name: str) -> Iterator[None]:
    _printed.append(name)
    try:
        yield
    finally:
        _printed.remove(name)


@frozen
class _Among(Caller):
    """A caller that begins each line with the name of its application, while other threads of this
    process print others."""

    application: str = ""

    def write(self, data: bytes) -> None:
        if len(_printed) > 1 and data:
            name = f"{self.application} | ".encode()
            begin = name if self._last[0] == b"\n" else b""
            data = begin + data[:-1].replace(b"\n", b"\n" + name) + data[-1:]
        super().write(data)

    def note(self, text: str) -> None:
        named = text.startswith((f"{self.application}:", f"{self.application} "))
        super().note(f"{self.application} {text}" if len(_printed) > 1 and not named else text)


class _Silent:
    """A display that shows nothing and reads no output."""

    shown_instance = ""

    def show(self, application: base.Application) -> None:
        pass

    def show_output(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Nowhere(io.StringIO):
    """A stream that discards everything."""

    def write(self, text: str) -> int:
        return len(text)


class _Watched:
    """A display that also calls a function with each new status."""

    def __init__(self, display: Display, on_change: OnChange | None):
        self._display, self._on_change = display, on_change

    def show(self, application: base.Application) -> None:
        self._display.show(application)
        if self._on_change is not None:
            self._on_change(application.status)

    def show_output(self) -> None:
        self._display.show_output()


@contextlib.contextmanager
def interruptible(engine: Engine, name: str, caller: Caller) -> Iterator[Stopper]:
    """Lets Ctrl-C in the block stop the application. Raises KeyboardInterrupt at the end of the
    block if it was pressed."""
    stopper = Stopper(caller, engine, name, STOPPED, "(interrupt once more: at once)")
    with ctrl_c_asks(stopper.ask):
        yield stopper
    if stopper.asked:
        raise KeyboardInterrupt(f"{name} was stopped")


def caller_of(show: bool) -> Caller:
    """The caller for this process. Without `show` it prints nothing. UnavailableError if its
    working folder has been deleted."""
    require_working_folder()
    caller = notebook.caller_here()
    return caller if show else quiet(caller)


def quiet(caller: CallerT) -> CallerT:
    """As `caller`, but it prints nothing."""
    return dataclasses.replace(caller, out=_Nowhere(), err=_Nowhere())
